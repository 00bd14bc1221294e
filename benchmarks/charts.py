"""Draw one chart per job: CPU seconds of every library, one row per case, on a logarithmic axis."""

from __future__ import annotations

from pathlib import Path

COLOURS = {
    "sitewise": "#d1495b", "gpboost": "#30638e", "scikit-learn": "#edae49", "gpy": "#00798c",
    "gpy parallel": "#7fc6d1", "gpflow": "#8d6a9f",
    "gpytorch": "#66a182", "gpjax": "#8c8c8c",
}  # fmt: skip


def chart(summary: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    entries = [e for e in summary["cases"] if "cpu" in e]
    if not entries:
        return
    cases = list(dict.fromkeys(e["case"] for e in entries))
    figure, axes = plt.subplots(figsize=(7.2, 1.2 + 0.36 * len(cases)), layout="constrained")
    for name, colour in COLOURS.items():
        here = [e for e in entries if e["contestant"] == name]
        if here:
            rows = [cases.index(e["case"]) for e in here]
            axes.scatter([e["cpu"] for e in here], rows, color=colour, label=name, s=42, zorder=3)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cases)), cases)
    axes.invert_yaxis()
    axes.grid(axis="x", which="both", alpha=0.3)
    axes.set_xlabel("CPU seconds, one thread, compile time apart")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12 - 0.6 / len(cases)), ncol=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)
