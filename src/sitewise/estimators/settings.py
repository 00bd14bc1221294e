"""L4. The learner that an estimator's parameters describe."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM
from sitewise.methods import resolve


def learner_of(estimator: Any) -> Nested | VEM:
    """Checks the settings of learning, too."""
    e = estimator
    settings: dict[str, Any] = {"fixed": _names(e.fixed), "train": _names(e.train)}
    if e.max_iter is not None:
        settings["max_rounds"] = _at_least("max_iter", e.max_iter, 1)
    if e.method == "hybrid-vem":
        nested_only = {"n_restarts": e.n_restarts, "bounds": e.bounds, "priors": e.priors, "tol": e.tol}
        given = [name for name, value in nested_only.items() if value not in (None, 0, {})]
        if given:
            raise ValueError(f"hybrid-vem has no setting {', '.join(given)}; use method='hybrid', or leave it out.")
    else:
        settings["restarts"] = _at_least("n_restarts", e.n_restarts, 0)
        settings["bounds"], settings["priors"] = dict(e.bounds or {}), dict(e.priors or {})
        if e.tol is not None and not 0 < e.tol < np.inf:
            raise ValueError(f"tol must be a positive number, got {e.tol!r}.")
        if e.tol is not None:
            settings["tol"] = float(e.tol)
    return resolve(e.method, inference=e.inference, evidence=e.evidence, gradient=e.gradient, power=e.power, **settings)


def _names(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _at_least(name: str, value: Any, low: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}.")
    return int(value)
