"""Compare rules for the weights of averaged kernels, from the stored fits of average_candidates.py.

python studies/average_rules.py ROWS.jsonl        writes results/average/README.md and folds.csv.gz
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from average_candidates import CANDIDATES, unpacked

ROOT = Path(__file__).resolve().parents[1] / "results" / "average"
SMALL = ("trains", "balloons")
SOURCES = {"paper": "25 sets, seed 42", "labels": "simulated, labels", "values": "simulated, values"}
OLD = ("iso", "shrunk 0.5", "shrunk 1", "pairs")
CHOSEN = ("shrunk 0.5", "pairs", "scores shrunk 0.5", "scores l1 shrunk 0.5")
WITHOUT = {f"without {name}": tuple(k for k in CHOSEN if k != name) for name in CHOSEN}
SETS = {
    "average of 0.2.0 (iso, shrunk 0.5, shrunk 1, pairs)": OLD,
    "chosen: " + ", ".join(CHOSEN): CHOSEN,
    **WITHOUT,
    "chosen, with linear": (*CHOSEN, "linear"),
    "chosen, with scores linear": (*CHOSEN, "scores linear"),
    "chosen, with pairs rough": (*CHOSEN, "pairs rough"),
    "chosen, l1 of the columns as given": (*CHOSEN[:3], "l1 shrunk 0.5"),
    "chosen, l1 with one lengthscale": (*CHOSEN[:3], "l1"),
    "chosen, shrunk 0.25 of the columns as given": ("shrunk 0.25", *CHOSEN[1:]),
    "chosen, pairs of scores": ("shrunk 0.5", "scores pairs", *CHOSEN[2:]),
}
Rows = dict[tuple, dict[str, dict]]


def read(path: Path) -> Rows:
    found: Rows = defaultdict(dict)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "problem" in row or row["set"] in SMALL:
            continue
        row |= {key: unpacked(row[key]) for key in ("test", "loo", "test_star") if key in row}
        found[row["source"], row["set"], row["seed"], row["fold"]][row["candidate"]] = row
    return found


def weighted(names: tuple[str, ...], power: float, by: str, star: bool) -> Callable[[dict[str, dict]], float]:
    """Return the mean test log density of a fold's average with weights ∝ exp(power · criterion)."""

    def score(fold: dict[str, dict]) -> float:
        rows = [fold[name] for name in names]
        logs = {
            "evidence": [row.get("evidence", row["laplace"]) for row in rows],
            "leave-one-out": [np.sum(row["loo"]) for row in rows],
        }[by]
        share = np.exp(power * (np.array(logs) - np.max(logs)))
        share /= share.sum()
        tests = np.array([row["test_star"] if star and "test_star" in row else row["test"] for row in rows])
        return float(np.mean(np.log(share @ np.exp(tests))))

    return score


def means(rows: Rows, score: Callable[[dict[str, dict]], float], needs: tuple[str, ...]) -> list[str]:
    out = []
    for source in SOURCES:
        each = defaultdict(list)
        for key, fold in rows.items():
            if key[0] == source and all(name in fold for name in needs):
                each[key[1]].append(score(fold))
        out.append(f"{np.mean([np.mean(v) for v in each.values()]):.4f}".replace("-", "−") if each else "")
    return out


def main() -> None:
    rows = read(Path(sys.argv[1]))
    head = ["| | " + " | ".join(SOURCES.values()) + " |", "|---|---|---|---|"]
    out = [
        "# Which kernels to average, and with which weights\n",
        "`python studies/average_candidates.py`, then `python studies/average_rules.py`. Mean test log density per row "
        "over the 25 sets with at least 75 training rows (seed 42) and over simulated tables (smooth, additive, rules, "
        "forests, skewed, sparse, levels, wide, linear; 30 to 400 rows). Every kernel is fitted separately; averages "
        "are computed from the stored densities. `scores` means normal scores of the columns, `l1` the Laplacian "
        "kernel, a number the spread of the shrunk lengthscales, `single` kernel=\"shrunk\" as an estimator fits it. "
        "Kernels are integrated on a star for up to 250 rows. These tables were used to choose the design.\n",
        "## Single kernels\n", *head,
    ]  # fmt: skip
    for name in CANDIDATES:
        cells = means(rows, lambda fold, name=name: float(np.mean(fold[name]["test"])), (name,))
        out.append(f"| {name} | {' | '.join(cells)} |")
    out += ["\n## Averages, weights evidence^0.25\n", *head]
    for title, names in SETS.items():
        out.append(f"| {title} | {' | '.join(means(rows, weighted(names, 0.25, 'evidence', True), names))} |")
    out += ["\n## Weights of the chosen kernels\n", *head]
    for by in ("evidence", "leave-one-out"):
        for power in (0.0, 0.1, 0.25, 0.4, 0.6, 1.0):
            cells = means(rows, weighted(CHOSEN, power, by, True), CHOSEN)
            out.append(f"| {by}^{power:g} | {' | '.join(cells)} |")
    cells = means(rows, weighted(CHOSEN, 0.25, "evidence", False), CHOSEN)
    out.append(f"| evidence^0.25, hyperparameters at the optimum | {' | '.join(cells)} |")
    ROOT.mkdir(parents=True, exist_ok=True)
    (ROOT / "README.md").write_text("\n".join(out) + "\n")
    with gzip.open(ROOT / "folds.csv.gz", "wt", newline="") as file:
        table = csv.writer(file)
        columns = ("source", "set", "seed", "fold", "candidate", "n", "d", "cpu", "laplace", "evidence")
        table.writerow([*columns, "test", "test_star", "loo"])
        for fold in rows.values():
            for row in fold.values():
                numbers = [row.get(k, "") if not isinstance(row.get(k), float) else round(row[k], 3) for k in columns]
                ends = [round(float(np.mean(row[k])), 4) if k in row else "" for k in ("test", "test_star", "loo")]
                table.writerow(numbers + ends)


if __name__ == "__main__":
    main()
