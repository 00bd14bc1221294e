"""Mean test log densities of recorded folds, and the folds beside the published ones: a pure function of the store.

python papers/icml2023/studies/means.py results/icml2023/results.jsonl     (SITEWISE_DATA names the data folder)
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from sitewise_icml2023.paper import published_fold, published_folds
from sitewise_icml2023.registry import suite
from sitewise_icml2023.store import read

Row = dict[str, Any]
LIMITS = {"laplace": 1e-3, "vi": 3e-3, "hybrid-vem": 1e-2}


def agreement(rows: list[Row], reference: dict[str, Any]) -> str:
    """Difference in test log density to the published fold, per method, with every miss listed."""
    lines = ["| method | folds | within the limit | median difference | largest |", "|---|---|---|---|---|"]
    misses = []
    for method, limit in LIMITS.items():
        gaps = []
        for r in rows:
            if r["method"] == method and r["set"] in reference:
                other = published_fold(reference, r["set"], method, "test_loglik", r["seed"], r["fold"])
                gap = r["test_loglik"] - other
                gaps.append(gap)
                if abs(gap) > limit:
                    misses.append(f"- {method}, {r['set']} seed {r['seed']} fold {r['fold']}: {gap:+.4f} "
                                  f"(θ {r['theta']}, {r['reason'][:40]})")  # fmt: skip
        a = np.abs(gaps)
        share = f"{np.mean(a <= limit):.1%} (≤ {limit:g})"
        lines.append(f"| {method} | {len(a)} | {share} | {np.median(a):.1e} | {a.max():.4f} |")
    return "\n".join([*lines, "", "Beyond the limit (ours − published):", *misses])


def hybrid_against_vem(rows: list[Row]) -> str:
    """EP evidence at the learned θ (sites converged there) and test log density, nested against Algorithm 1."""
    by: dict[tuple[str, int, int], dict[str, Row]] = defaultdict(dict)
    for r in rows:
        by[(r["set"], r["seed"], r["fold"])][r["method"]] = r
    pairs = [(v["hybrid"], v["hybrid-vem"]) for v in by.values() if {"hybrid", "hybrid-vem"} <= set(v)]
    pairs = [(a, b) for a, b in pairs if "ep_at_theta" in b and a["seed"] == 42]
    gain = np.array([a["objective"] - b["ep_at_theta"] for a, b in pairs])
    lines = [
        f"folds compared: {len(pairs)}",
        f"EP evidence of hybrid ≥ that of hybrid-vem (1e-6): {np.mean(gain >= -1e-6):.1%}",
        f"smallest difference {gain.min():+.2e} nats",
        f"stopped by the E/M conflict: {np.mean(['fell' in b['reason'] for _, b in pairs]):.1%}",
    ]
    for a, b in pairs:
        if a["objective"] - b["ep_at_theta"] < -1e-6:
            lines.append(f"- below: {a['set']} fold {a['fold']}: {a['objective'] - b['ep_at_theta']:+.4f} "
                         f"(θ {a['theta']} against {b['theta']})")  # fmt: skip
    for name in sorted({a["set"] for a, _ in pairs}):
        ours = np.mean([a["test_loglik"] for a, _ in pairs if a["set"] == name])
        vem = np.mean([b["test_loglik"] for _, b in pairs if b["set"] == name])
        lines.append(f"| {name} | {ours:.4f} | {vem:.4f} |")
    ours, vem = (np.mean([pair[i]["test_loglik"] for pair in pairs]) for i in range(2))
    lines.append(f"| mean | {ours:.4f} | {vem:.4f} |")
    return "\n".join(lines)


def means_over_sets(rows: list[Row]) -> str:
    """Mean test log density over the sets of Table 1, of seed 42 and of all seeds, by protocol and method."""
    by: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for r in rows:
        if r["set"] in suite("table1") and "@" not in r["method"]:
            by[r["protocol"], r["method"], "all seeds"].append(r["test_loglik"])
            if r["seed"] == 42:
                by[r["protocol"], r["method"], "seed 42"].append(r["test_loglik"])
    return "\n".join(f"{' '.join(key)}: {np.mean(v):.4f} ({len(v)} folds)" for key, v in sorted(by.items()))


def main() -> None:
    every = read(Path(sys.argv[1]))
    print(means_over_sets(every))
    rows = [row for row in every if row["protocol"] == "published"]
    print(agreement(rows, published_folds()))
    print()
    print(hybrid_against_vem(rows))
    for method in sorted({r["method"] for r in rows}):
        mine = [r for r in rows if r["method"] == method]
        print(f"{method}: {np.mean([r['converged'] for r in mine]):.1%} of {len(mine)} converged")


if __name__ == "__main__":
    main()
