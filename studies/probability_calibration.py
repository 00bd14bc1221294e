"""Measure the calibration of class probabilities on held-out rows of 25 tables, from the fits of scoreboard.py.

    python studies/probability_calibration.py       results/calibration/README.md, in seconds

Probabilities of one class are pooled over the 25 of 27 tables with at least 75 training rows, five folds and the seeds
1, 2 and 3; every row is predicted once per seed by a model that was not fitted to it.  The expected calibration error
(ECE) is the mean difference of predicted and observed share over ten bins of equal width, weighted by their rows.  The
ECE of perfectly calibrated predictions is not zero, because a bin has few rows: it is simulated by drawing the labels
of every bin with its mean predicted probability.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "results"
SMALL = ("trains", "balloons")  # sets with fewer than 75 training rows
SEEDS = (1, 2, 3)  # settings were chosen with seed 42
SIMULATIONS = 1000
MODELS = {"average": "GPClassifier()", "shrunk": 'GPClassifier(kernel="shrunk")'}


def bins_of(model: str) -> dict[str, np.ndarray]:
    """Return, per table, the rows, predicted sums and observed sums per bin, over folds and seeds."""
    found: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((3, 10)))
    for text in (ROOT / "scoreboard" / "paper.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["model"] == model and line["seed"] in SEEDS and line["table"] not in SMALL:
            found[line["table"]] += np.array(line["bins"])
    return dict(sorted(found.items()))


def errors(bins: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Return the ECE, and the mean ECE of labels that have the predicted probabilities."""
    rows, predicted, observed = bins
    share = np.divide(predicted, rows, out=np.zeros(10), where=rows > 0)
    drawn = rng.binomial(rows.astype(int), share, (SIMULATIONS, 10))
    gaps = np.abs(np.vstack([observed, drawn]) - predicted).sum(axis=1) / rows.sum()
    return float(gaps[0]), float(np.mean(gaps[1:]))


def main() -> None:
    rng = np.random.default_rng(0)
    summary, curves, tables = [], [], {}
    for model, label in MODELS.items():
        found = bins_of(model)
        pooled = np.sum(list(found.values()), axis=0)
        tables[label] = {name: errors(bins, rng) for name, bins in found.items()}
        each = (*errors(pooled, rng), *np.mean(list(tables[label].values()), axis=0))
        summary.append(f"| `{label}` | " + " | ".join(f"{value:.3f}" for value in each) + " |")
        curves.append([f"{p / n:.3f} | {y / n:.3f} | {n:.0f}" for n, p, y in pooled.T])
    text = [
        "# Calibration of class probabilities on 25 tables",
        "",
        "`python studies/probability_calibration.py`. " + " ".join((__doc__ or "").split("\n\n")[2].split()),
        "",
        "| | ECE, all rows pooled | ECE if calibrated | mean ECE per table | mean ECE per table if calibrated |",
        "|---|---|---|---|---|",
        *summary,
        "",
        "| predicted (default) | observed | rows | predicted (one shrunk kernel) | observed | rows |",
        "|---|---|---|---|---|---|",
        *(f"| {a} | {b} |" for a, b in zip(*curves, strict=True)),
        "",
        "ECE per table, and the ECE if calibrated:",
        "",
        "| table | " + " | ".join(f"`{label}`" for label in tables) + " |",
        "|---|" + "---|" * len(tables),
        *(
            f"| {name} | " + " | ".join("{:.3f} ({:.3f})".format(*single[name]) for single in tables.values()) + " |"
            for name in tables["GPClassifier()"]
        ),
    ]
    (ROOT / "calibration" / "README.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
