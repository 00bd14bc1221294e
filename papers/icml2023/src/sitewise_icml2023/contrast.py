"""Compare the published with the clean protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitewise_icml2023 import protocols, tables


def row_number_accuracy(name: str, directory: Path | None = None, seed: int = 42) -> float:
    """Share of test rows whose class is that of the training row with the nearest row number, over five folds.

    For the sets of two files, in which the number starts again, the nearest row may lie in the other file.
    """
    hits = []
    for index in range(protocols.FOLDS):
        f = protocols.fold(name, "published", seed, index, directory)
        order = np.argsort(f.X[:, 0], kind="stable")
        at = np.clip(np.searchsorted(f.X[order, 0], f.X_test[:, 0]), 1, len(order) - 1)
        left, right = order[at - 1], order[at]
        nearer = np.abs(f.X[left, 0] - f.X_test[:, 0]) < np.abs(f.X[right, 0] - f.X_test[:, 0])
        hits.append(f.y[np.where(nearer, left, right)] == f.y_test)
    return float(np.mean(np.concatenate(hits)))


def majority(name: str, directory: Path | None = None) -> float:
    """Share of the larger class."""
    f = protocols.fold(name, "published", 42, 0, directory)
    positive = float(np.mean(np.concatenate([f.y, f.y_test]) > 0))
    return max(positive, 1 - positive)


def markdown(
    rows: Sequence[dict[str, Any]],
    methods: Sequence[str],
    sets: Sequence[str],
    seeds: Sequence[int],
    directory: Path | None = None,
) -> str:
    """Return per set the accuracy of the row number alone, and the methods' mean test log densities, by protocol."""
    built = {
        rules: {
            line.set: line.cells
            for line in tables.build(rows, "", "loglik", rules, methods, sets, seeds).lines
            if not line.missing and set(line.cells) == set(methods)
        }
        for rules in ("published", "clean")
    }
    heads = [f"{tables.label(m)} published → clean" for m in methods]
    out = ["| set | larger class | row number alone | " + " | ".join(heads) + " |", "|---" * (3 + len(heads)) + "|"]
    for name in sets:
        cells = []
        for m in methods:
            pair = [built[rules].get(name, {}).get(m) for rules in ("published", "clean")]
            text = " → ".join("–" if cell is None else f"{cell.mean:.3f}" for cell in pair)
            cells.append("" if pair == [None, None] else text)
        share = f"{majority(name, directory):.0%} | {row_number_accuracy(name, directory):.0%}"
        out.append(f"| {name} | {share} | " + " | ".join(cells) + " |")
    both = [name for name in sets if all(name in built[rules] for rules in built)]
    means = [
        " → ".join(f"{np.mean([built[rules][name][m].mean for name in both]):.3f}" for rules in built) if both else "–"
        for m in methods
    ]
    out.append(f"| *mean of {len(both)}* | | | " + " | ".join(means) + " |")
    return "\n".join(out) + "\n"
