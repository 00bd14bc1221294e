"""Export 32 models: equality with the library, seconds of a first prediction in a fresh process, size of the file.

    python studies/export.py        results/export/README.md, in about a minute on an idle machine

Every model is fitted to 120 simulated rows of four columns, or of a table with categories, and predicts 50 new rows.
Two larger models, a map and a series, are fitted to 1 000 rows.  The difference is the largest one between predicted
probabilities, or between means and standard deviations, relative to the largest mean.  The seconds are the CPU time of
a new Python process that imports NumPy and the predictor, reads the file and predicts one row; the import of NumPy
alone is the last line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sitewise
from sitewise import FormulaModel, GPClassifier, GPRegressor, Sparse, TableEncoder, kernels, parts
from sitewise.estimators.numpy_predictor import Predictor

PAGE = Path(__file__).resolve().parents[1] / "results" / "export" / "README.md"
RING = {i: [(i - 1) % 5, (i + 1) % 5] for i in range(5)}
RNG = np.random.default_rng(11)
CODES = [1, 2]  # columns of group numbers


def rows(count: int) -> np.ndarray:
    """Return rows of four columns, two of them numbers of groups."""
    X = RNG.normal(size=(count, 4))
    X[:, CODES] = RNG.integers(0, 5, (count, 2))
    return X


X, NEW = rows(120), rows(50)
F = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
YES = F + 0.5 * RNG.normal(size=120) > 0.6
THREE = np.digitize(F + 0.3 * RNG.normal(size=120), [0.3, 1.0])
VALUES, COUNTS = F + 0.2 * RNG.normal(size=120), RNG.poisson(np.exp(F))
FRUIT = np.array(["apple", "pear", "plum", "fig", "nut"])
ONE: dict[str, Any] = {"kernel": kernels.RBF(), "integrate": False}


LARGE = RNG.uniform(0, 10, (1000, 2))
LARGE_VALUES = np.sin(LARGE[:, 0]) * np.cos(LARGE[:, 1]) + 0.2 * RNG.normal(size=1000)


def table(X: np.ndarray) -> list[dict[str, Any]]:
    return [{"x": float(x), "fruit": str(FRUIT[int(code)])} for x, code in X[:, :2]]


def long_table(X: np.ndarray) -> list[dict[str, Any]]:
    """Return the columns of formulas; the new rows have groups without training rows."""
    names = [*FRUIT, "new"]
    return [
        {"x": float(x), "z": float(z), "fruit": str(FRUIT[int(a)]), "group": names[int(a + b) % 6], "code": int(b)}
        for x, a, b, z in X
    ]


def sums(**more: Any) -> dict[str, Any]:
    return {"structure": [parts.Constant(), parts.Spline(0), parts.Levels(1), parts.Area(2, graph=RING)], **more}


MODELS: dict[str, tuple[Any, Any]] = {
    "two classes, default (average)": (GPClassifier(), YES),
    "two classes, shrunk": (GPClassifier(kernel="shrunk", integrate=False), YES),
    "two classes, shrunk, integrated": (GPClassifier(kernel="shrunk", integrate="coarse"), YES),
    "two classes, logit, Laplace": (GPClassifier(likelihood="logit", method="laplace", **ONE), YES),
    "two classes, additive": (GPClassifier(kernel="additive", integrate=False), YES),
    "two classes, Sparse(30)": (GPClassifier(structure=Sparse(30), **ONE), YES),
    "two classes, sum of parts": (GPClassifier(**sums()), YES),
    "two classes, StandardScaler": (make_pipeline(StandardScaler(), GPClassifier(**ONE)), YES),
    "two classes, TableEncoder": (make_pipeline(TableEncoder(), GPClassifier(**ONE)), YES),
    "three classes, joint": (GPClassifier(multi_class="joint", **ONE), THREE),
    "three classes, joint, Sparse(30)": (
        GPClassifier(multi_class="joint", class_kernels="shared", structure=Sparse(30), **ONE), THREE,
    ),
    "three classes, one against the rest": (GPClassifier(multi_class="one_vs_rest", **ONE), THREE),
    "values, default (average)": (GPRegressor(), VALUES),
    "values, Student-t, Laplace": (GPRegressor(likelihood="student_t", method="laplace", **ONE), VALUES),
    "values, Sparse(30)": (GPRegressor(structure=Sparse(30), **ONE), VALUES),
    "values, sum of parts": (GPRegressor(**sums()), VALUES),
    "values, season and linear effects": (
        GPRegressor(structure=[parts.Season(0, period=2.0), parts.Linear((0, 3))]), VALUES,
    ),
    "values, TableEncoder": (make_pipeline(TableEncoder(), GPRegressor(**ONE)), VALUES),
    "counts, Poisson, sum of parts": (GPRegressor(**sums(likelihood="poisson")), COUNTS),
    "counts, negative binomial": (GPRegressor(likelihood="negative_binomial", **ONE), COUNTS),
    "values, Markov chain": (GPRegressor(structure="markov", kernel=kernels.Matern32(), integrate=False), VALUES),
    "values, map and random slopes": (
        GPRegressor(structure=[parts.Map((0, 3), neighbours=8), parts.VaryingCoefficients(1, slopes=(0, 3))]), VALUES,
    ),
    "values, map of 1 000 places": (GPRegressor(structure=[parts.Map((0, 1))]), LARGE_VALUES),
    "values, series of 1 000 rows": (GPRegressor(structure=[parts.Series(0)]), LARGE_VALUES),
    "values, y ~ x*fruit + (1 | group)": ("y ~ x*fruit + (1 | group)", VALUES),
    "values, y ~ s(x) + log(x^2 + 1) + (1 + z | group)": ("y ~ s(x) + log(x^2 + 1) + (1 + z | group)", VALUES),
    "values, y ~ s(x, by=fruit) + te(x, z) + s(code, period=5)": (
        "y ~ s(x, by=fruit) + te(x, z) + s(code, period=5)", VALUES,
    ),
    "values, y ~ map(x, z) + fruit": ("y ~ map(x, z) + fruit", VALUES),
    "values, y ~ series(x, by=fruit) + z": ("y ~ series(x, by=fruit) + z", VALUES),
    "counts, y ~ s(x) + (1 | group) + offset(z)": ("y ~ s(x) + (1 | group) + offset(z)", COUNTS),
    "two classes, y ~ x + s(z) + (1 | group)": ("y ~ x + s(z) + (1 | group)", YES),
    "two classes, y ~ fruit + map(x, z)": ("y ~ fruit + map(x, z)", YES),
}  # fmt: skip
PROGRAM = """import json, sys, time
from numpy_predictor import Predictor
Predictor("model.npz").{method}(json.loads(sys.argv[1]))
print(time.process_time())"""
PREFACE = """# Export: do exported models predict as the library does, how fast, and how large are the files?

The largest difference is {largest:.0e} without joint classes, and {joint:.0e} with them: the library's quadrature of
softmax over several wide latent functions has an error of 3e-10 where their variances are 1, 1e-6 where they are 5 and
1e-4 where they are 100; the error of the predictor is below 1e-10. The slowest first prediction of a fresh process
takes {slowest:.2f} CPU s, of which the import of NumPy takes {numpy:.2f}. Two classes, values and counts; estimators,
pipelines and formulas; 120 training rows except where the name of the model says 1 000; `python studies/export.py`,
commit {commit}.

| model | difference | CPU s | kB |
|---|---|---|---|
"""


def seconds(folder: Path, program: str, row: Any) -> float:
    """Return the CPU seconds of a fresh process: the best of three."""
    command = [sys.executable, "-c", program, json.dumps(row)]
    runs = [subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def fitted(model: Any, y: np.ndarray) -> tuple[Any, Any]:
    """Return the fitted model, and new rows for it."""
    if isinstance(model, str):
        likelihood = "logit" if y.dtype == bool else "poisson" if y.dtype.kind == "i" else "gaussian"
        columns = {name: [row[name] for row in long_table(X)] for name in long_table(X)[0]}
        return sitewise.fit(model, {**columns, "y": y}, likelihood), long_table(NEW)
    if hasattr(model, "steps") and isinstance(model.steps[0][1], TableEncoder):
        return model.fit(table(X), y), table(NEW)
    if len(y) == len(LARGE):
        return model.fit(LARGE, y), NEW[:, [0, 3]]
    width = 1 if getattr(model, "structure", None) == "markov" else X.shape[1]
    return model.fit(X[:, :width], y), NEW[:, :width]


def measured(model: Any, y: np.ndarray) -> tuple[float, float, float]:
    """Return the largest difference, CPU seconds of the first prediction, and the size in kB."""
    model, new = fitted(model, y)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.npz"
        sitewise.export(model, file)
        method = "predict_proba" if hasattr(model, "classes_") else "predict"
        more = {} if method == "predict_proba" or isinstance(model, FormulaModel) else {"return_std": True}
        found, own = (np.asarray(getattr(one, method)(new, **more)) for one in (Predictor(file), model))
        row = new[:1] if isinstance(new, list) else new[:1].tolist()
        took = seconds(Path(folder), PROGRAM.format(method=method), row)
        return float(np.max(np.abs(found - own)) / np.max(np.abs(own))), took, file.stat().st_size / 1000


def main() -> None:
    warnings.simplefilter("ignore")
    found = {name: measured(*each) for name, each in MODELS.items()}
    numpy = seconds(PAGE.parent, "import time, numpy; print(time.process_time())", None)
    shown = {name.replace("|", "\\|"): each for name, each in found.items()}
    lines = [f"| {name} | {d:.0e} | {took:.2f} | {size:.0f} |" for name, (d, took, size) in shown.items()]
    joint = {name for name in found if "joint" in name}
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=PAGE.parent, capture_output=True, text=True)
    preface = PREFACE.format(
        largest=max(d for name, (d, _, _) in found.items() if name not in joint), numpy=numpy,
        joint=max(found[name][0] for name in joint), slowest=max(took for _, took, _ in found.values()),
        commit=commit.stdout.strip(),
    )  # fmt: skip
    PAGE.write_text(preface + "\n".join([*lines, f"| import of NumPy alone | | {numpy:.2f} | |", ""]))


if __name__ == "__main__":
    main()
