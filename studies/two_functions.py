"""Measure GPRegressor(varying=…) beside the one-function model on simulated data: density, coverage, convergence, time.

    python studies/two_functions.py results/two-functions
    python studies/two_functions.py results/two-functions --convergence

Noise: y = sin 2x + e^{−1 + 0.8 sin x} ε on 80 rows (varying scale), or the same with a constant scale of e^{−1}.
Zeros: Poisson counts with log rate 1 + 0.7 sin 2x and P(excess zero) = σ(1.5 x − 1) on 80 rows (varying inflation).
Each model is scored on 400 new rows.  Times are CPU seconds of a second fit, without compilation.  With `--convergence`
the share of converged fits is counted over 200 other sets of 30 rows, half with varying and half with constant noise.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from sitewise import GPRegressor

ROWS, NEW_ROWS = 80, 400
NOISE_SETS, ZERO_SETS = 20, 4
CONVERGENCE_SETS, CONVERGENCE_ROWS = 200, 30


def noise(rng: np.random.Generator, rows: int, varies: bool) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-3, 3, rows)
    scale = np.exp(-1 + 0.8 * np.sin(x)) if varies else np.exp(-1)
    return x[:, None], np.sin(2 * x) + scale * rng.normal(size=rows)


def zeros(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-3, 3, rows)
    seen = rng.uniform(size=rows) > 1 / (1 + np.exp(1 - 1.5 * x))
    return x[:, None], np.where(seen, rng.poisson(np.exp(1 + 0.7 * np.sin(2 * x))), 0).astype(float)


CASES = {
    "noise varies": ("gaussian", "scale", lambda rng, rows: noise(rng, rows, True), NOISE_SETS),
    "noise constant": ("gaussian", "scale", lambda rng, rows: noise(rng, rows, False), NOISE_SETS),
    "zeros vary": ("zero_inflated_poisson", "inflation", zeros, ZERO_SETS),
}


def scored(model: GPRegressor, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the mean log predictive density and the coverage of 90 % intervals."""
    low, high = model.predict_interval(X, level=0.9)
    return float(np.mean(model.log_predictive_density(X, y))), float(np.mean((low <= y) & (y <= high)))


def main(folder: Path) -> None:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case, (likelihood, parameter, draw, sets) in CASES.items():
            for seed in range(sets):
                rng = np.random.default_rng(seed)
                (X, y), new = draw(rng, ROWS), draw(rng, NEW_ROWS)
                for varying in (None, parameter):
                    model = GPRegressor(likelihood=likelihood, varying=varying, integrate=False)
                    if seed == 0:
                        model.fit(X, y)
                    start = time.process_time()
                    model.fit(X, y)
                    seconds = time.process_time() - start
                    density, coverage = scored(model, *new)
                    rows.append([case, seed, varying or "", density, coverage, bool(model.converged_), seconds])
                print(case, seed, *(f"{number:.4f}" for row in rows[-2:] for number in (*row[3:5], row[6])), flush=True)
                with open(folder / "scores.csv", "w", newline="") as file:
                    writer = csv.writer(file)
                    writer.writerow(["case", "seed", "varying", "log_density", "coverage_90", "converged", "cpu_s"])
                    writer.writerows(rows)


def convergence(folder: Path) -> None:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(CONVERGENCE_SETS):
            X, y = noise(np.random.default_rng(1000 + seed), CONVERGENCE_ROWS, seed % 2 == 0)
            model = GPRegressor(varying="scale").fit(X, y)
            found.append([seed, seed % 2 == 0, bool(model.converged_), model.n_iter_])
    with open(folder / "convergence.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "noise_varies", "converged", "rounds"])
        writer.writerows(found)
    print(sum(row[2] for row in found), "of", len(found), "converged")


if __name__ == "__main__":
    (convergence if "--convergence" in sys.argv else main)(Path(sys.argv[1]))
