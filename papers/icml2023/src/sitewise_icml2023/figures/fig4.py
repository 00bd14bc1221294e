"""Fig. 4: accuracy relative to the best method on each set; a pure function of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sitewise.errors import UserError
from sitewise_icml2023 import paper, tables


def compute(
    rows: Sequence[dict[str, Any]], protocol: str, methods: Sequence[str], sets: Sequence[str], seeds: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return per method one number per set, in the order of `sets` (sets with rows of every method that has rows)."""
    table = tables.build(rows, "fig4", "accuracy", protocol, methods, sets, seeds)
    methods = [m for m in methods if any(m in line.cells for line in table.lines)]
    lines = [line for line in table.lines if set(line.cells) == set(methods)]
    if not lines:
        raise UserError("No set has rows of every method; run table1 first.")
    means = {m: np.array([line.cells[m].mean for line in lines]) for m in methods}
    best = np.max(list(means.values()), axis=0)
    return {"sets": np.array([line.set for line in lines]), **{m: v / best for m, v in means.items()}}


def draw(out: dict[str, np.ndarray], title: str) -> Figure:
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axis = figure.subplots()
    x = np.arange(1, len(out["sets"]) + 1)
    printed = paper.fig4()
    for j, (method, values) in enumerate((k, v) for k, v in out.items() if k != "sets"):
        theirs = printed.get("hybrid-vem" if method == "hybrid" else method)
        beside = f"; paper {theirs[0]:.3f} ± {theirs[1]:.3f}" if theirs else ""
        text = f"{tables.label(method)}: {values.mean():.3f} ± {values.std():.3f}{beside}"
        axis.plot(x + 0.12 * (j - 1.5), values, "os^Dv"[j % 5], color=f"C{j}", alpha=0.7, label=text)
        axis.axhline(values.mean(), color=f"C{j}", linewidth=1)
    axis.set(ylabel="accuracy / best accuracy on the set", title=title)
    axis.set_xticks(x, out["sets"], rotation=90, fontsize=7)
    axis.legend(fontsize=8, loc="lower right")
    return figure
