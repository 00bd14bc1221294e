"""Fit the models of the commands with progress on stderr, and describe them for a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sitewise.app.input.load_table import Loaded
from sitewise.app.process import warnings_as_notes
from sitewise.estimators import GPClassifier, GPOrdinal, GPRegressor
from sitewise.estimators.base import GPBase
from sitewise.likelihoods import BY_NAME
from sitewise.methods import Method
from sitewise.process.progress import bar, reporting_to
from sitewise.structures import Sparse


def estimator(
    method: str,
    likelihood: str,
    *,
    kernel: str | None = None,
    groups: Sequence[int] = (),
    inducing: int | str | None = None,
    sampling: Mapping[str, Any] | None = None,
    seed: int = 0,
    **settings: Any,
) -> GPClassifier | GPOrdinal | GPRegressor:
    """Return the estimator that the likelihood requires.

    `groups` are the numbers of features that name groups; `inducing` is the number of inducing inputs, "auto" or a
    time; `sampling` are the settings of a method that samples; `settings` are further parameters of the estimator.
    """
    shared: dict[str, Any] = {
        "kernel": kernel,
        "groups": list(groups) or None,
        "method": Method(str(method), **sampling) if sampling else str(method),
        "structure": "exact" if inducing is None else Sparse(inducing),
        "random_state": seed,
        **settings,
    }
    if BY_NAME[likelihood].support == "ranks":
        return GPOrdinal(**shared)
    kind = GPClassifier if BY_NAME[likelihood].support == "classes" else GPRegressor
    return kind(likelihood=likelihood, **shared)


def fit_with_progress(model: GPBase, X: np.ndarray, y: np.ndarray, doing: str, **side: np.ndarray) -> None:
    """Fit with a progress bar, and print warnings as notes; `side` is side information."""
    with (
        warnings_as_notes(),
        bar(doing, 1, pieces=False) as progress,
        reporting_to(lambda now, share: progress.tell(f"{doing}: {now}", share)),
    ):
        model.fit(X, y, **side)


def _scales(kernels: list[Any], features: int) -> dict[str, Any]:
    """Return lengthscales and magnitudes; for sums of kernels they are only in the report of the fit."""
    if not all(hasattr(k, "lengthscale") and np.ndim(k.variance) == 0 for k in kernels):
        return {"lengthscales": None}
    return {
        "lengthscales": [np.broadcast_to(k.lengthscale, features).tolist() for k in kernels],
        "one_lengthscale": bool(np.ndim(kernels[0].lengthscale) == 0),
        "magnitudes": [float(np.sqrt(k.variance)) for k in kernels],
    }


def describe(model: GPBase, loaded: Loaded) -> dict[str, Any]:
    """Return the result of a fit as plain data; mcmc has no evidence and no leave-one-out predictions."""
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    sites = hasattr(model, "sites_")
    density = model.loo_.log_density if sites else model.log_predictive_density(loaded.X, loaded.y, **loaded.side)
    worst = np.argsort(density)[:10]
    return {
        "method": Method.of(model.method).name,
        "converged": bool(model.converged_),
        "report": model.fit_report_,
        "evidence": dict(model.evidence_) if sites else {},
        "loo_log_density": float(np.mean(density)) if sites else None,
        **_scales(kernels, model.n_features_in_),
        "outliers": [{"row": int(loaded.table.lines[i]), "log_density": float(density[i])} for i in worst],
    }
