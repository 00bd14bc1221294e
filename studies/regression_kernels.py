"""Compare kernels and noise models for regression by test log density and CRPS: ten tables, five folds.

    python studies/regression_kernels.py                         fits of GPRegressor and of scikit-learn's (resumable)
    python studies/regression_kernels.py --export FOLDER         the same folds as .npz
    python studies/regression_kernels.py --rivals FOLDER         trees on these folds, in an environment with catboost
    python studies/regression_kernels.py --table                 results/default-kernel/regression.md

A line of results/default-kernel/regression.jsonl is one fit of one fold.  Columns and y are scaled by the training
rows, and densities and CRPS of different tables can be averaged.  The CRPS of every method is computed from 19
quantiles,

    2 · 0.05 Σ_k ρ_k(y − q_k),     ρ_k(u) = max(k u, (k − 1) u),     k = 0.05, 0.10, …, 0.95,

which is the integral of the pinball loss over the levels by the trapezoidal rule (0.3 % below it for a Gaussian).
Trees have quantiles only.  Their density is 0.05/(q_{k+1} − q_k) between two quantiles, and 0.05 · exp(−t/s)/s at the
distance t beyond the first and the last, with s = 0.254 times their distance from the median: the mean excess of a
Gaussian with these quantiles.  Quantiles that cross are sorted, and steps are at least 10⁻³ standard deviations of y
wide.  A single value far outside all quantiles would dominate the mean; therefore a hundredth of this density is
replaced by N(0, 3²), to the trees' advantage.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from pooled import Line, add, stored

ROOT = Path(__file__).resolve().parents[1] / "results" / "default-kernel"
SEED, FOLDS, ROWS = 42, 5, 300
LEVELS = np.arange(1, 20) / 20
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {}, "shrunk": {"kernel": "shrunk"}, "integrated": {"kernel": "isotropic", "integrate": True},
}  # fmt: skip
NOISES = ("gaussian", "student_t")
TREES = ("HistGradientBoosting", "CatBoost")
_EXCESS = 0.254  # (φ(z)/0.05 − z)/z at z = 1.645
_NARROWEST, _WIDE = 1e-3, 0.01
Task = tuple[str, int, int, str, str]  # table, seed, fold, method, noise
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def made() -> dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]]:
    """Tables that scikit-learn loads or makes.  Of wine and iris one column is to be told from the others."""
    from sklearn import datasets

    def column(load: Callable[..., Any], which: int) -> tuple[np.ndarray, np.ndarray]:
        X, _ = load(return_X_y=True)
        return np.delete(X, which, axis=1), X[:, which]

    def outliers() -> tuple[np.ndarray, np.ndarray]:
        X, y = datasets.make_friedman1(200, n_features=5, noise=1.0, random_state=3)
        some = np.random.RandomState(4).permutation(len(y))[:20]
        y[some] += np.random.RandomState(5).normal(0, 20, len(some))
        return X, y

    return {
        "iris (petal width)": lambda: column(datasets.load_iris, 3),
        "wine (alcohol)": lambda: column(datasets.load_wine, 0),
        "friedman1": lambda: datasets.make_friedman1(200, noise=1.0, random_state=0),
        "friedman2": lambda: datasets.make_friedman2(200, noise=100.0, random_state=1),
        "friedman3": lambda: datasets.make_friedman3(200, noise=0.2, random_state=2),
        "friedman1 with outliers": outliers,
        "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    }


REGISTERED = {"neal": "neal", "boston": "boston", "stock": "stock"}
TABLES = ("neal", "iris (petal width)", "wine (alcohol)", "friedman1", "friedman2", "friedman3",
          "friedman1 with outliers", "diabetes", "stock", "boston")  # fmt: skip


def rows_of(table: str, seed: int, fold: int) -> Rows:
    """Training and test rows, scaled by the former; of a longer table 300, evenly spaced, are used."""
    from sklearn.model_selection import KFold

    if table in REGISTERED:
        from sitewise_icml2023 import protocols
        from sitewise_icml2023.registry import get
        from sitewise_icml2023.sources import find

        record = get(protocols.protocol("clean").replace.get(table, table))
        both = np.loadtxt(find(record.name, None), delimiter=",", skiprows=1, ndmin=2)
        X, y = both[:, int(record.row_column) : -1], both[:, -1]
    else:
        X, y = made()[table]()
    some = np.unique(np.linspace(0, len(y) - 1, min(ROWS, len(y))).astype(int))
    X, y = X[some], y[some]
    train, test = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))[fold]
    deviation = np.std(X[train], axis=0)
    X = (X - np.mean(X[train], axis=0)) / np.where(deviation > 0, deviation, 1.0)
    y = (y - np.mean(y[train])) / np.std(y[train])
    return X[train], y[train], X[test], y[test]


def crps(quantiles: np.ndarray, y: np.ndarray) -> float:
    """Of quantiles (rows, levels)."""
    gap = y[:, None] - quantiles
    return float(2 * 0.05 * np.mean(np.sum(np.maximum(LEVELS * gap, (LEVELS - 1) * gap), axis=1)))


def density_of_quantiles(quantiles: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p(y) of each row, as described above."""
    q = np.sort(quantiles, axis=1)
    q = q[:, [9]] + np.concatenate([  # outwards from the median, every step at least the narrowest
        -np.cumsum(np.maximum(np.diff(q, axis=1)[:, :9], _NARROWEST)[:, ::-1], axis=1)[:, ::-1],
        np.zeros((len(q), 1)),
        np.cumsum(np.maximum(np.diff(q, axis=1)[:, 9:], _NARROWEST), axis=1),
    ], axis=1)  # fmt: skip
    place = np.sum(q < y[:, None], axis=1)  # 0 and 19 are the tails
    inner = np.clip(place, 1, len(LEVELS) - 1)
    at = np.arange(len(y))
    step = q[at, inner] - q[at, inner - 1]
    end = np.where(place == 0, q[:, 0], q[:, -1])
    scale = _EXCESS * np.abs(end - q[:, 9])
    tail = np.log(0.05 / scale) - np.abs(y - end) / scale
    logs = np.where((place == 0) | (place == len(LEVELS)), tail, np.log(0.05 / step))
    return np.logaddexp(np.log1p(-_WIDE) + logs, np.log(_WIDE) - 0.5 * (y / 3) ** 2 - np.log(3 * np.sqrt(2 * np.pi)))


def gp(method: str, noise: str, rows: Rows) -> Line:
    from sitewise import GPRegressor

    X, y, new, truth = rows
    begun = time.process_time()
    model = GPRegressor(likelihood=noise, random_state=0, **VARIANTS[method]).fit(X, y)
    seconds = time.process_time() - begun
    return {
        "density": float(np.mean(model.log_predictive_density(new, truth))),
        "crps": crps(model.predict_quantiles(new, LEVELS), truth),
        "evidence": float(model.evidence_["ep"]), "converged": bool(model.converged_), "seconds": seconds,
    }  # fmt: skip


def sklearn_gp(rows: Rows) -> Line:
    from scipy.stats import norm
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    X, y, new, truth = rows
    begun = time.process_time()
    kernel = ConstantKernel() * Matern(nu=2.5) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0).fit(X, y)
    seconds = time.process_time() - begun
    mean, deviation = model.predict(new, return_std=True)
    return {
        "density": float(np.mean(norm.logpdf(truth, mean, deviation))),
        "crps": crps(mean[:, None] + deviation[:, None] * norm.ppf(LEVELS), truth), "seconds": seconds,
    }  # fmt: skip


def tree(method: str, rows: Rows) -> Line:
    """Trees with default settings; 19 models of scikit-learn, one of CatBoost with 19 outputs."""
    X, y, new, truth = rows
    begun = time.process_time()
    if method == "CatBoost":
        from catboost import CatBoostRegressor

        loss = "MultiQuantile:alpha=" + ",".join(f"{level:.2f}" for level in LEVELS)
        model = CatBoostRegressor(
            loss_function=loss, random_seed=0, thread_count=1, verbose=0, allow_writing_files=False
        )
        quantiles = np.asarray(model.fit(X, y).predict(new))
    else:
        from sklearn.ensemble import HistGradientBoostingRegressor

        each = [HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0) for level in LEVELS]
        quantiles = np.column_stack([one.fit(X, y).predict(new) for one in each])
    seconds = time.process_time() - begun
    density = float(np.mean(density_of_quantiles(quantiles, truth)))
    return {"density": density, "crps": crps(np.sort(quantiles, axis=1), truth), "seconds": seconds}


def run(task: Task, folder: Path | None = None) -> Line:
    """One fit; the rows are made, or read from the folder to which they were exported."""
    table, seed, fold, method, noise = task
    out: Line = {"table": table, "seed": seed, "fold": fold, "method": method, "noise": noise}
    rows = rows_of(table, seed, fold) if folder is None else read(folder, table, seed, fold)
    warnings.simplefilter("ignore")
    try:
        if method in TREES:
            return out | tree(method, rows)
        return out | (sklearn_gp(rows) if method == "scikit-learn" else gp(method, noise, rows))
    except ValueError as problem:
        return out | {"problem": str(problem)}


def tasks(seeds: list[int]) -> Iterator[Task]:
    """Fold by fold, the small tables first."""
    for seed in seeds:
        for fold in range(FOLDS):
            for table in TABLES:
                yield table, seed, fold, "scikit-learn", "gaussian"
                for noise in NOISES:
                    for method in VARIANTS:
                        yield table, seed, fold, method, noise


def tree_tasks(seeds: list[int]) -> Iterator[Task]:
    for method in TREES:  # the quick one first
        for seed in seeds:
            for fold in range(FOLDS):
                for table in TABLES:
                    yield table, seed, fold, method, ""


def exported(folder: Path, table: str, seed: int, fold: int) -> Path:
    return folder / f"{table.split(' (')[0].replace(' ', '-')}.{seed}.{fold}.npz"


def export(folder: Path, seeds: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for table in TABLES:
            for fold in range(FOLDS):
                X, y, new, truth = rows_of(table, seed, fold)
                np.savez(exported(folder, table, seed, fold), X=X, y=y, new=new, truth=truth)


def read(folder: Path, table: str, seed: int, fold: int) -> Rows:
    with np.load(exported(folder, table, seed, fold)) as kept:
        return kept["X"], kept["y"], kept["new"], kept["truth"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[SEED])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no fit after so many")
    parser.add_argument("--lines", type=Path, default=ROOT / "regression.jsonl")
    parser.add_argument("--export", type=Path)
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.export is not None:
        return export(given.export, given.seeds)
    if given.table:
        import regression_table

        return regression_table.write(given.lines, ROOT / "regression.md")
    known = {tuple(line[k] for k in ("table", "seed", "fold", "method", "noise")) for line in stored(given.lines)}
    todo = tasks(given.seeds) if given.rivals is None else tree_tasks(given.seeds)
    work = functools.partial(run, folder=given.rivals)
    add(given.lines, work, [task for task in todo if task not in known], given.jobs, given.seconds)


if __name__ == "__main__":
    main()
