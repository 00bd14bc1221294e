"""Define the jobs to measure.  A job is a list of cases: one table, one task, and the libraries that run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

PEERS = {
    "laplace": ("gpboost", "scikit-learn", "gpy"),
    "ep": ("gpy", "gpy parallel"),
    "vi": ("gpflow", "gpytorch", "gpjax"),
    "hybrid": (),
}
_AXIS = np.linspace(-1.0, 5.0, 21).tolist()  # the paper's grid: log ℓ and log σ


@dataclasses.dataclass(frozen=True)
class Case:
    """`cap` seconds of wall time for one answer; a contestant that needs more is left out of later rounds."""

    name: str
    data: Callable[[], dict[str, np.ndarray]]
    task: dict
    contestants: tuple[str, ...]
    cap: float = 600.0
    repeats: int = 3


def _fold(name: str, seed: int = 42, index: int = 3) -> dict[str, np.ndarray]:
    from sitewise_icml2023.protocols import fold

    rows = fold(name, "published", seed, index)
    return {"X": rows.X, "y": rows.y}


def _usps() -> dict[str, np.ndarray]:
    from sitewise_icml2023.figures.surfaces import rows

    found = rows("usps")
    return {"X": found.X, "y": found.y}


SETS = {
    156: ("parkinsons", lambda: _fold("parkinsons")),
    281: ("ionosphere", lambda: _fold("ionosphere")),
    481: ("monks-2", lambda: _fold("monks-2")),
    1232: ("usps", _usps),
}


def fit_cases() -> Iterator[Case]:
    """A whole fit of the published rows, isotropic Matérn-5/2, probit; from ℓ = σ² = 1, GPBoost from its own start."""
    for n, (name, data) in SETS.items():
        for method, peers in PEERS.items():
            if n == 1232 and method != "laplace":
                peers = ()  # minutes to hours each; `fit-large` has them
            chosen = [p for p in peers if p not in ("gpytorch", "gpjax") or n == 281]
            yield Case(f"{method}, n={n} ({name})", data, {"verb": "fit", "method": method}, ("sitewise", *chosen))
    # At ℓ = 1 the rows of 256 columns are uncorrelated, and the evidence is flat.
    task = {"verb": "fit", "method": "laplace", "own_start": True}
    yield Case("laplace, n=1232, own starts", _usps, task, ("sitewise", "gpboost"), repeats=2)


def fit_large_cases() -> Iterator[Case]:
    """The peers that need minutes at n = 1 232."""
    for method in ("ep", "vi"):
        peers = PEERS[method][:1]
        task = {"verb": "fit", "method": method}
        yield Case(f"{method}, n=1232 (usps)", _usps, task, ("sitewise", *peers), cap=3600, repeats=1)


def grid_cases() -> Iterator[Case]:
    """Evidence at 441 points (log ℓ, log σ), ionosphere; GPy's grids are the yardstick for every method."""
    for method, peers in {"laplace": ("gpy",), "ep": ("gpy", "gpy parallel"), "vi": ()}.items():
        task = {"verb": "grid", "method": method, "log_lengthscale": _AXIS, "log_sigma": _AXIS}
        yield Case(f"{method}, 441 points", SETS[281][1], task, ("sitewise", *peers), cap=1200, repeats=2)


def suite_cases() -> Iterator[Case]:
    """Five folds of ten seeds of one small set, one fit each: throughput."""
    from sitewise_icml2023.protocols import FOLDS, SEEDS

    def data() -> dict[str, np.ndarray]:
        folds = [_fold("echocardiogram", seed, index) for seed in SEEDS for index in range(FOLDS)]
        return {f"{key}{i}": f[key] for i, f in enumerate(folds) for key in f}

    for method, peers in (("laplace", PEERS["laplace"]), ("ep", PEERS["ep"]), ("vi", ("gpflow",)), ("hybrid", ())):
        task = {"verb": "suite", "method": method, "folds": len(SEEDS) * FOLDS}
        yield Case(f"{method}, 50 fits", data, task, ("sitewise", *peers), cap=900, repeats=1)


def small_table(rows: int = 105, columns: int = 6) -> dict[str, np.ndarray]:
    """Two classes with noise; two columns with an effect of their own, one that interacts, and irrelevant columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    f = 2 * np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.5 * X[:, 2] * X[:, 0]
    return {"X": X, "y": np.where(f + 0.6 * rng.normal(size=rows) > 0, 1.0, -1.0)}


def small_cases() -> Iterator[Case]:
    """One fit of 105 rows: isotropic kernels by method, then GPClassifier at its optimum, by default, and averaging."""
    for method, peers in (("laplace", ("gpboost",)), ("ep", ()), ("hybrid", ())):
        task = {"verb": "fit", "method": method}
        yield Case(f"{method}, n=105", small_table, task, ("sitewise", *peers), repeats=15)
    for settings in ({"integrate": False}, {}, {"kernel": "average"}):
        arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        task = {"verb": "classifier", "settings": settings}
        yield Case(f"GPClassifier({arguments}), n=105", small_table, task, ("sitewise",), repeats=15)


def twonorm(rows: int = 7400, columns: int = 20, inducing: int = 500) -> dict[str, np.ndarray]:
    """Breiman's twonorm: two Gaussians with means ±2/√d."""
    from sitewise.priors.inducing import select

    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], rows)
    X = rng.normal(size=(rows, columns)) + 2 / np.sqrt(columns) * y[:, None]
    lengthscale = np.array(np.sqrt(columns))
    return {"X": X, "y": y, "Z": select(X, "kmeans", inducing), "lengthscale": lengthscale, "variance": np.array(1.0)}


def sparse_cases() -> Iterator[Case]:
    """n = 7 400, d = 20, m = 500."""
    both = ("sitewise", "gpflow")
    yield Case("E-step sweep", twonorm, {"verb": "sparse_step"}, both, repeats=5)
    yield Case("E-step sweep with features", twonorm, {"verb": "sparse_first_step"}, ("sitewise",), repeats=5)
    yield Case("ELBO and gradient", twonorm, {"verb": "sparse_elbo"}, both, repeats=5)
    task = {"verb": "sparse_elbo", "settled": False}
    yield Case("ELBO and gradient, sites on the way", twonorm, task, both, repeats=5)
    yield Case("EP evidence and gradient", twonorm, {"verb": "sparse_ep"}, ("sitewise",), repeats=5)


def sparse_train_cases() -> Iterator[Case]:
    """Training to the same ELBO (1e-4 a row); the first contestant's ELBO is the target of the others."""
    task = {"verb": "sparse_train", "method": "vi", "cap_seconds": 900.0}
    yield Case("training, vi", twonorm, task, ("sitewise", "gpflow"), cap=3600, repeats=1)
    task = {"verb": "sparse_train", "method": "hybrid"}
    yield Case("training, hybrid", twonorm, task, ("sitewise",), cap=3600, repeats=1)


def predict_cases() -> Iterator[Case]:
    """Class probabilities of 10⁵ new rows, ionosphere's 281 rows as training data."""

    def data() -> dict[str, np.ndarray]:
        rows = _fold("ionosphere")
        return {**rows, "X_new": np.random.default_rng(0).normal(size=(100_000, rows["X"].shape[1]))}

    yield Case("10⁵ rows", data, {"verb": "predict"}, ("sitewise", "gpboost", "scikit-learn"))


def algorithm_cases() -> Iterator[Case]:
    """The paper's Algorithm 1 beside the profile gradient, same objective."""
    for method in ("hybrid", "hybrid-vem"):
        task = {"verb": "fit", "method": method}
        yield Case(f"{method}, n=281 (ionosphere)", SETS[281][1], task, ("sitewise",), cap=1800, repeats=1)


JOBS: dict[str, Callable[[], Iterator[Case]]] = {
    "fit": fit_cases,
    "grid": grid_cases,
    "sparse": sparse_cases,
    "predict": predict_cases,
    "suite": suite_cases,
    "small": small_cases,
    "sparse-train": sparse_train_cases,
    "fit-large": fit_large_cases,
    "algorithm1": algorithm_cases,
}
