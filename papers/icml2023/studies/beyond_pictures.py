"""The two pictures of docs/explanation/beyond-the-paper.md, from stored results.

    python papers/icml2023/studies/beyond_pictures.py results/icml2023

beyond-ep.png        what EP gains if it is converged at every θ, set by set
beyond-gradient.png  what the exact gradient gains over Algorithm 1, fold by fold, and Fig. 5 continued
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sitewise_icml2023 import paper
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.figures import fig5
from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.registry import suite


def ep_picture(stored: Stored) -> Figure:
    """Mean test log density over ten seeds minus VI's: the printed EP, the same recomputed, and EP converged."""
    printed, lines = paper.printed("table1", "loglik"), []
    for name in suite("table1"):
        found = [stored.values(name, m, "test_loglik", SEEDS) for m in ("ep-frozen", "ep", "vi")]
        if all(v is not None for v in found):
            frozen, converged, vi = (float(v.mean()) for v in found if v is not None)
            lines.append((name, printed[name]["ep"].mean - vi, frozen - vi, converged - vi))
    lines.sort(key=lambda line: line[3] - line[2])
    figure = Figure(figsize=(7.5, 6.2), layout="constrained")
    axis = figure.subplots()
    y = np.arange(len(lines))
    for at, (_, _, frozen, converged) in zip(y, lines, strict=True):
        axis.plot([frozen, converged], [at, at], color="0.8", linewidth=2, zorder=0)
    for column, (style, label) in enumerate((("kx", "EP as printed"), ("C3o", "sites frozen at the start (ours)"),
                                             ("C0o", "EP converged at every θ")), 1):  # fmt: skip
        axis.plot([line[column] for line in lines], y, style, label=label, markersize=6 if column == 1 else 5)
    axis.axvline(0.0, color="0.5", linewidth=1)
    axis.set_yticks(y, [line[0] for line in lines], fontsize=8)
    axis.set(xlabel="mean test log density, ten seeds, minus VI's", title="Table 1: EP as printed, and EP converged")
    axis.legend(fontsize=8, loc="lower left")
    return figure


def gains(stored: Stored) -> dict[str, np.ndarray]:
    """EP's evidence of the exact gradient minus that of Algorithm 1, in nats, by how the latter ended."""
    hybrid = {(r["set"], r["seed"], r["fold"]): r["objective"] for r in stored.rows
              if (r["method"], r["protocol"]) == ("hybrid", "published")}  # fmt: skip
    out: dict[str, list[float]] = {"stopped by the conflict": [], "settled": []}
    for r in stored.rows:
        key = (r["set"], r["seed"], r["fold"])
        if r["method"] == "hybrid-vem" and r["set"] in suite("table1") and key in hybrid:
            reached = r.get("ep_at_theta", r["evidences"]["ep"])
            out["stopped by the conflict" if "fell" in r["reason"] else "settled"].append(hybrid[key] - reached)
    return {kind: np.sort(values) for kind, values in out.items()}


def gradient_picture(stored: Stored) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (kind, values), colour in zip(gains(stored).items(), ("C3", "C0"), strict=True):
        share = np.arange(1, len(values) + 1) / max(len(values), 1)
        left.plot(
            np.maximum(values, 1e-7), share, colour, drawstyle="steps-post", label=f"{kind} ({len(values)} folds)"
        )
    left.set(xscale="log", xlabel="EP evidence at the exact gradient's θ − at Algorithm 1's (nats)",
             ylabel="share of folds", title="what Algorithm 1 leaves behind")  # fmt: skip
    left.legend(fontsize=8)
    found = stored.arrays("fig5.npz", "figures")
    if found is not None:
        printed = paper.figures()["fig5"]["ep"][1:]
        fall = fig5.stop(found["ep"])
        right.plot(np.arange(1, len(printed) + 1), printed, "k", linewidth=3, alpha=0.25, label="printed")
        right.plot(np.arange(1, len(found["ep"]) + 1), found["ep"], "C3", linewidth=1, label="ours")
        right.axhline(found["surface"].max(), color="C0", label="best point of the profile surface (grid)")
        if fall is not None:
            right.axvline(fall + 1, color="0.5", linestyle=":", label=f"falls after round {fall + 1}")
    right.set(
        xlabel="round", ylabel="L_EP (nats)", ylim=(-100, -66), title="Fig. 5: ionosphere, Algorithm 1 not stopped"
    )
    right.legend(fontsize=8, loc="lower left")
    return figure


def main() -> None:
    stored = Stored(Path(sys.argv[1]))
    ep_picture(stored).savefig(stored.folder / "beyond-ep.png", dpi=120)
    gradient_picture(stored).savefig(stored.folder / "beyond-gradient.png", dpi=120)
    for kind, values in gains(stored).items():
        if len(values):
            middle, most = np.median(values), np.quantile(values, 0.9)
            print(f"{kind}: {len(values)} folds, median {middle:.1e}, 90 % below {most:.1e}, largest {values[-1]:.2g}, "
                  f"smallest {values[0]:.1e} nats")  # fmt: skip


if __name__ == "__main__":
    main()
