"""When does the learning objective matter?  Per set: how far the methods differ, and what the data are like.

    python papers/icml2023/studies/when_it_matters.py --data DIR > results/icml2023/when-it-matters.md

Over the stored folds of Table 1 (published protocol, ten seeds).  *neighbours*: training rows within one lengthscale
of a row, in the middle (fold 0 of seed 42, the hybrid's ℓ); *margin*: the hybrid's σ; *gap*: EP's evidence minus the
ELBO at the hybrid's θ, per row.  Below: rank correlations of each with the largest difference between two methods.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from sitewise_icml2023 import protocols
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.registry import suite
from sitewise_icml2023.suites import FOUR


def facts(stored: Stored, name: str, data: Path | None) -> dict[str, float]:
    values = {m: stored.values(name, m, "test_loglik", SEEDS) for m in FOUR}
    rows = stored.folds(name, "hybrid", SEEDS)
    if rows is None or any(v is None for v in values.values()):
        raise SystemExit(f"The store lacks folds of {name}.")
    means = {m: float(v.mean()) for m, v in values.items() if v is not None}
    X = protocols.fold(name, "published", 42, 0, data).X
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    return {
        "rows": rows[0]["n"],
        "largest": max(abs(means[a] - means[b]) for a, b in itertools.combinations(FOUR, 2)),
        "without LA": max(abs(means[a] - means[b]) for a, b in itertools.combinations(FOUR[1:], 2)),
        "neighbours": float(np.median(np.sum(distance < rows[0]["theta"]["kernel.lengthscale"], axis=1))),
        "margin": float(np.median([r["theta"]["kernel.variance"] for r in rows])) ** 0.5,
        "gap": float(np.median([(r["evidences"]["ep"] - r["evidences"]["elbo"]) / r["n"] for r in rows])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/icml2023"))
    args = parser.parse_args()
    stored = Stored(args.out)
    found = {name: facts(stored, name, args.data) for name in suite("table1")}
    print("# When the learning objective matters\n")
    print("Made by `python papers/icml2023/studies/when_it_matters.py`, which says what the columns are.\n")
    print("| set | training rows | largest difference | without LA | neighbours | margin | gap |")
    print("|---" * 7 + "|")
    for name, f in sorted(found.items(), key=lambda item: -item[1]["largest"]):
        print(f"| {name} | {f['rows']} | {f['largest']:.4f} | {f['without LA']:.4f} | {f['neighbours']:.0f} "
              f"| {f['margin']:.2g} | {f['gap']:.4f} |")  # fmt: skip
    print("\n| rank correlation with | rows | neighbours | margin | gap |")
    print("|---" * 5 + "|")
    for target in ("largest", "without LA"):
        cells = []
        for key in ("rows", "neighbours", "margin", "gap"):
            result = spearmanr([f[target] for f in found.values()], [f[key] for f in found.values()])
            cells.append(f"{result.statistic:+.2f} (p = {result.pvalue:.1g})")
        print(f"| {target} difference | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
