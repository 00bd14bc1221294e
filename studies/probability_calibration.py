"""Measure the calibration of class probabilities on held-out rows of 25 tables, from the fits of default_kernel.py.

    python studies/probability_calibration.py       results/calibration/README.md, in seconds

Probabilities of the first class are pooled over the 25 of 27 tables with at least 75 training rows, five folds and the
seeds 1, 2 and 3; every row is predicted once per seed by a model that has not seen it.  The expected calibration error
(ECE) is the mean difference of predicted and observed share over ten bins of equal width, weighted by their rows.  The
ECE of perfectly calibrated predictions is not zero, because a bin has few rows: it is simulated by drawing labels with
the predicted probabilities.  The fits are those of version 0.2.0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from default_kernel_table import AVERAGED, SMALL, Results
from sitewise.metrics import expected_calibration_error, reliability

ROOT = Path(__file__).resolve().parents[1] / "results"
STORE = ROOT / "default-kernel"
SEEDS = (1, 2, 3)  # settings were chosen with seed 42
SIMULATIONS = 100
MODELS = {"GPClassifier()": False, 'GPClassifier(kernel="average")': True}


def predictions(stored: Results, name: str, average: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted probabilities and labels of the held-out rows of one table, over folds and seeds."""
    probability, label = [], []
    for seed in SEEDS:
        for fold in range(5):
            kernels = [(kernel, True) for kernel in AVERAGED] if average else [("shrunk 0.25", False)]
            fits = [stored.fits[name, seed, fold, "hybrid", *kernel] for kernel in kernels]
            logs = 0.25 * np.array([fit.get("log_evidence", 0.0) for fit in fits])  # weights of kernel="average"
            weight = np.exp(logs - logsumexp(logs))
            probability.append(weight @ np.array([fit["probability"] for fit in fits]))
            label.append(np.array(fits[0]["right"], float))
    return np.concatenate(probability), np.concatenate(label)


def calibrated_error(probability: np.ndarray, rng: np.random.Generator) -> float:
    """Return the mean ECE of labels that have the predicted probabilities."""
    draws = (rng.uniform(size=len(probability)) < probability for _ in range(SIMULATIONS))
    return float(np.mean([expected_calibration_error(probability, draw.astype(float)) for draw in draws]))


def main() -> None:
    stored = Results(STORE / "rows.jsonl", STORE / "rivals.jsonl")
    sets = sorted({key[0] for key in stored.fits} - set(SMALL))
    rng = np.random.default_rng(0)
    summary, curves, tables = [], [], {}
    for label, average in MODELS.items():
        found = {name: predictions(stored, name, average) for name in sets}
        every, labels = (np.concatenate(each) for each in zip(*found.values(), strict=True))
        single = {name: (expected_calibration_error(p, y), calibrated_error(p, rng)) for name, (p, y) in found.items()}
        mean, expected = np.mean(list(single.values()), axis=0)
        summary.append(
            f"| `{label}` | {expected_calibration_error(every, labels):.3f} | {calibrated_error(every, rng):.3f} | "
            f"{mean:.3f} | {expected:.3f} |"
        )
        curve = reliability(every, labels)
        curves.append([f"{a:.3f} | {b:.3f} | {n}" for a, b, n in zip(*curve.values(), strict=True)])
        tables[label] = single
    text = [
        "# Calibration of class probabilities on 25 tables",
        "",
        "`python studies/probability_calibration.py`. " + " ".join((__doc__ or "").split("\n\n")[2].split()),
        "",
        "| | ECE, all rows pooled | ECE if calibrated | mean ECE per table | mean ECE per table if calibrated |",
        "|---|---|---|---|---|",
        *summary,
        "",
        "| predicted (default) | observed | rows | predicted (average) | observed | rows |",
        "|---|---|---|---|---|---|",
        *(f"| {a} | {b} |" for a, b in zip(*curves, strict=True)),
        "",
        "ECE per table, and the ECE if calibrated:",
        "",
        "| table | " + " | ".join(f"`{label}`" for label in tables) + " |",
        "|---|" + "---|" * len(tables),
        *(
            f"| {name} | " + " | ".join("{:.3f} ({:.3f})".format(*single[name]) for single in tables.values()) + " |"
            for name in sets
        ),
    ]
    folder = ROOT / "calibration"
    folder.mkdir(exist_ok=True)
    (folder / "README.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
