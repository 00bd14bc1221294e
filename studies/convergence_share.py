"""Count the fits of the paper's folds that converged, were flagged, or neither.

python studies/convergence_share.py [results/icml2023/results.jsonl]        (FILE.gz can be read, too)

27 sets × 5 folds of seed 42, both protocols, every method that the store has for all sets (Algorithm 1 for 17).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sitewise_icml2023 import store
from sitewise_icml2023.registry import suite

STORE = Path(__file__).resolve().parents[1] / "results" / "icml2023" / "results.jsonl"


class Share(NamedTuple):
    """How the fits of one method ended."""

    fits: int
    sets: int
    converged: int
    flagged: int
    silent: int  # neither: not converged and nothing said, or a number that is not finite


def shares(rows: list[dict[str, Any]], seed: int = 42) -> dict[tuple[str, str], Share]:
    """By (protocol, method), of the sets of Table 1."""
    out = {}
    sets = suite("table1")
    fits = [row for row in rows if "evidences" in row and "@" not in row["method"]]  # mcmc and vi-joint have no sites
    chosen = [row for row in fits if row["set"] in sets and row["seed"] == seed]
    for pair in sorted({(row["protocol"], row["method"]) for row in chosen}):
        some = [row for row in chosen if (row["protocol"], row["method"]) == pair]
        finite = [
            bool(np.all(np.isfinite([row["test_loglik"], row["objective"], *row["evidences"].values()])))
            for row in some
        ]
        good = sum(row["converged"] and ok for row, ok in zip(some, finite, strict=True))
        said = sum(not row["converged"] and bool(row["reason"]) and ok for row, ok in zip(some, finite, strict=True))
        out[pair] = Share(len(some), len({row["set"] for row in some}), good, said, len(some) - good - said)
    return out


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else STORE
    print("| protocol | method | sets | fits | converged | flagged | neither |")
    print("|---|---|---|---|---|---|---|")
    for (protocol, method), s in shares(store.read(path)).items():
        print(
            f"| {protocol} | {method} | {s.sets} | {s.fits} | {s.converged} "
            f"| {s.flagged} ({100 * s.flagged / s.fits:.1f} %) | {s.silent} |"
        )


if __name__ == "__main__":
    main()
