"""Test log density as inducing inputs are added: five sets, both protocols, five folds of seed 42.

    sitewise reproduce table3 --protocol published,clean --methods vi@m50,hybrid@m50,… --out results/icml2023
    python papers/icml2023/studies/sparse_study.py

Reads results/icml2023/results.jsonl and its .gz; writes results/icml2023/sparse-study.md and
docs/explanation/sparse_study.png.
"vi" and "hybrid" without a number are the full GP, m = n.  "hybrid-ep" learns from the paper's objective on VI's sites.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from sitewise_icml2023 import store

ROOT = Path(__file__).resolve().parents[3]
ROWS = ROOT / "results" / "icml2023" / "results.jsonl"
SETS = ("titanic", "bank", "twonorm", "mushroom", "magic")
METHODS = {"vi": "vi", "hybrid": "hybrid (collapsed)", "hybrid-ep": "ep on VI's sites"}
SIZES = ("50", "150", "500", "n")
FOLDS = 5
Cell = tuple[str, str, str, str]  # set, protocol, method, number of inducing inputs
Means = dict[Cell, float]


def means(rows: list[dict[str, Any]]) -> tuple[Means, dict[str, int], int]:
    """Mean test log density by (set, protocol, method, size), training rows of each set, fits that did not converge."""
    folds: dict[Cell, dict[int, float]] = defaultdict(dict)
    training: dict[str, int] = {}
    failed = 0
    for row in rows:
        method, _, size = row["method"].partition("@m")
        if row["set"] not in SETS or method not in METHODS or row["seed"] != 42 or (size or "n") not in SIZES:
            continue
        training[row["set"]] = row["n"]
        folds[row["set"], row["protocol"], method, size or "n"][row["fold"]] = row["test_loglik"]
        failed += not row["converged"]
    whole = {key: float(np.mean(list(found.values()))) for key, found in folds.items() if len(found) == FOLDS}
    return whole, training, failed


def table(whole: Means, training: dict[str, int], failed: int) -> str:
    header = [f"{method}, m = {size}" for size in SIZES for method in METHODS]
    lines = [
        "# Sparse study",
        "",
        "Made by `python papers/icml2023/studies/sparse_study.py`. Mean test log density of five folds (seed 42); "
        f"{failed} of the fits did not converge and say so.",
        "",
        f"| set (training rows) | protocol | {' | '.join(header)} |",
        "|---|---|" + "---|" * len(header),
    ]
    worst = np.inf
    for name in SETS:
        for protocol in ("published", "clean"):
            cells = []
            for size in SIZES:
                here = [whole.get((name, protocol, method, size)) for method in METHODS]
                cells += ["" if value is None else f"{value:.4f}" for value in here]
                if here[0] is not None and here[1] is not None:
                    worst = min(worst, here[1] - here[0])
            lines.append(f"| {name} ({training[name]}) | {protocol} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"hybrid − vi: at least {worst:+.6f} in every pair of cells.", ""])


def picture(whole: Means, training: dict[str, int], path: Path) -> None:
    figure, axes = plt.subplots(2, len(SETS), figsize=(15, 5.6), constrained_layout=True)
    for column, name in enumerate(SETS):
        for row, protocol in enumerate(("published", "clean")):
            axis = axes[row, column]
            for method, style in zip(METHODS, ("o-", "s--", "^:"), strict=True):
                found = {
                    training[name] if size == "n" else int(size): whole.get((name, protocol, method, size))
                    for size in SIZES
                }
                points = [(m, value) for m, value in found.items() if value is not None]
                axis.plot(*zip(*points, strict=True), style, label=METHODS[method], markersize=5, alpha=0.85)
            axis.set_xscale("log")
            ticks = [int(size) for size in SIZES if size != "n"] + [training[name]]
            axis.set_xticks(ticks, [*map(str, ticks[:-1]), "n"])
            axis.minorticks_off()
            low, high = axis.get_ylim()
            if high - low < 1e-4:  # the same to five digits: not a slope
                axis.set_ylim(low - 1e-3, high + 1e-3)
            axis.ticklabel_format(axis="y", useOffset=False)
            axis.set_title(f"{name}, {protocol}", fontsize=10)
            axis.tick_params(labelsize=8)
            axis.grid(alpha=0.3)
        axes[1, column].set_xlabel("inducing inputs m")
    for axis in axes[:, 0]:
        axis.set_ylabel("mean test log density")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    whole, training, failed = means(store.read(ROWS))
    (ROWS.parent / "sparse-study.md").write_text(table(whole, training, failed), encoding="utf-8")
    picture(whole, training, ROOT / "docs" / "explanation" / "sparse_study.png")


if __name__ == "__main__":
    main()
