"""Fuzz cases of estimators whose structure is a list of parts: a short fit, predictions, terms, files."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.cases import REGRESSIONS
from fuzzing.draws import CLASSES, observations, weights
from fuzzing.inference import need
from fuzzing.part_draws import COLUMNS, rows_of, some_parts
from sitewise import GPClassifier, GPRegressor, Method, load

METHODS = ("laplace", "ep", "vi", "hybrid")
ROUNDS = 3
MAX_LOG_MEAN = 600.0


@dataclasses.dataclass(frozen=True)
class Case:
    seed: int
    likelihood: str
    method: str
    structure: list[Any]
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    new: np.ndarray
    tags: tuple[str, ...]


def drawn(seed: int) -> Case:
    rng = np.random.default_rng([41, seed])
    served = [*CLASSES, *(name for name in REGRESSIONS if name not in ("ordinal", "laplace-noise"))]
    name, method = served[seed % len(served)], METHODS[(seed // len(served)) % len(METHODS)]
    X, tags = rows_of(rng)
    y, more = observations(name, rng, X)
    weight = weights(str(rng.choice(["one", "counts"], p=[0.7, 0.3])), rng, len(X))
    new = X[rng.integers(0, len(X), 4)].copy()
    new[1:, COLUMNS["place"]] *= 1 + 0.3 * rng.normal(size=(3, 2))
    new[2, COLUMNS["group"]] = 77.0
    return Case(seed, name, method, some_parts(rng, X), X, y, weight, new, (*tags, *more))


def check(case: Case) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seed": case.seed, "parts": [type(part).__name__ for part in case.structure], "likelihood": case.likelihood,
        "method": f"fit, {case.method}", "rows": len(case.X), "tags": list(case.tags),
    }  # fmt: skip
    method = Method(case.method, max_iter=ROUNDS)
    model: Any
    y: Any = case.y
    if case.likelihood in CLASSES:
        model, y = GPClassifier(structure=case.structure, method=method), case.y > 0
    else:
        model = GPRegressor(likelihood=REGRESSIONS[case.likelihood], structure=case.structure, method=method)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(case.X, y, sample_weight=case.weight)
    except ValueError as problem:
        return {**row, "status": "refused", "words": str(problem)[:200]}
    converged = not any("converge" in str(one.message) for one in caught)
    _predictions(model, case, y)
    return {**row, "status": "converged" if converged else "flagged", "words": "" if converged else "not converged"}


def _predictions(model: Any, case: Case, y: Any) -> None:
    mean, std = model.predict_latent(case.new, return_std=True)
    need(np.isfinite(mean) & np.isfinite(std) & (std > 0), "latent predictions are finite")
    terms = model.predict_terms(case.new)
    total = np.sum(terms.mean, axis=1)
    if case.likelihood in CLASSES:
        p = model.predict_proba(case.new)
        need((p >= 0) & (p <= 1) & (np.abs(p.sum(axis=1, keepdims=True) - 1) < 1e-9), "probabilities sum to 1")
    else:
        # The mean of eᶠ is not a finite number where a regressor is extrapolated far enough.
        small = np.abs(mean) + 0.5 * std**2 < MAX_LOG_MEAN
        found = np.asarray(model.predict(case.new))
        need(np.isfinite(found[small]), "predictions are finite")
        need(~np.isnan(found), "predictions are numbers")
        low, high = model.predict_interval(case.new, 0.9)[:2]
        need(low <= high, "intervals have an order")
    scale = 1 + np.abs(mean) + np.abs(terms.mean).sum(axis=1)
    need(np.abs(total - mean) <= 1e-6 * scale, f"terms sum to {total}, not to {mean}")
    counts = case.weight > 0
    density = np.asarray(model.log_predictive_density(case.X[counts], y[counts]))
    need(~np.isnan(density) & (density < np.inf), "densities are numbers")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loo = np.asarray(model.loo_.log_density)[counts]
    warned = any("Leave-one-out is NaN" in str(one.message) for one in caught)
    need(np.any(np.isnan(loo)) == warned, "leave-one-out densities are numbers, or a warning says which are not")
    need(np.isnan(loo) | (loo < np.inf), "leave-one-out densities are finite")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.sitewise")
        again = load(Path(folder) / "model.sitewise")
    need(again.predict_latent(case.new) == mean, "a file gives the same predictions")
