"""The method that an estimator's parameters describe, after checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise.checks import at_least
from sitewise.estimators.inducing_settings import TRAINED
from sitewise.estimators.training import Approximate, Sampling
from sitewise.kernels import Kernel
from sitewise.learning.integration import DESIGNS
from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM
from sitewise.methods import method_named, resolve
from sitewise.priors.inducing import LEARNING_ROWS

_LEAST_GAIN = 0.05  # nats for each hyperparameter of a sparse GP; see `Nested`
_SAMPLING = {"draws": 1, "warmup": 0, "chains": 1, "thin": 1}  # the least value of each


def method_of(estimator: Any) -> Approximate | Sampling:
    """How the estimator learns; raises ValueError where its parameters contradict each other."""
    e = estimator
    method = method_named(e.method)
    if method.samples:
        return _sampling_of(e)
    if e.sampling is not None:
        raise ValueError(f"sampling belongs to method='mcmc', but the method here is {e.method!r}; leave it at None.")
    settings: dict[str, Any] = {"fixed": _names(e.fixed), "train": _names(e.train), "tied": _groups(e.tied)}
    if e.max_iter is not None:
        settings["max_rounds"] = at_least("max_iter", e.max_iter, 1)
    if method.learner is VEM:
        _refuse(e, ("n_restarts", "bounds", "priors", "tol", "integrate"), "use method='hybrid', or leave it out")
    else:
        settings["restarts"] = at_least("n_restarts", e.n_restarts, 0)
        settings["bounds"], settings["priors"] = _by_name(e, "bounds"), _by_name(e, "priors")
        if e.tol is not None and not 0 < e.tol < np.inf:
            raise ValueError(f"tol must be a positive number, got {e.tol!r}.")
        if e.tol is None:
            settings["least_gain"] = _LEAST_GAIN
        else:
            settings["tol"] = float(e.tol)
    parts = {name: getattr(e, name) for name in ("inference", "evidence", "gradient", "power")}
    moved = isinstance(e.inducing, str) and e.inducing == TRAINED
    if moved and method.learner is VEM:
        raise ValueError(f"{e.method} does not train inducing inputs; use method='hybrid', or inducing='kmeans'.")
    learner, design = resolve(e.method, **parts, **settings), _design(e)
    # Inducing inputs for a time, not a number of them.  The integral is around the optimum for all rows.
    averaged = e.kernel is not None and not isinstance(e.kernel, Kernel)
    limited = isinstance(e.n_inducing, str) and isinstance(learner, Nested) and design is None and not averaged
    if isinstance(learner, Nested):
        rows = LEARNING_ROWS if limited else None
        learner = dataclasses.replace(learner, learning_rows=rows, move_inputs=moved)
    return Approximate(learner, design)


def _design(e: Any) -> str | None:
    """The design of the integral over the hyperparameters; None for the optimum alone."""
    if e.integrate is None or e.integrate is False:
        return None
    if e.integrate is True:
        return DESIGNS[0]
    if e.integrate not in DESIGNS:
        raise ValueError(
            f"integrate must be True, False or one of {', '.join(map(repr, DESIGNS))}; got {e.integrate!r}."
        )
    return str(e.integrate)


def _sampling_of(e: Any) -> Sampling:
    settings = ("inference", "evidence", "gradient", "power", "max_iter", "tol", "n_restarts", "integrate")
    _refuse(e, settings, "leave it out")
    if e.n_inducing is not None or not isinstance(e.inducing, str):
        raise ValueError("mcmc samples the full GP and takes no inducing inputs; leave n_inducing and inducing out.")
    if e.structure == "markov" or e.series is not None:
        raise ValueError("mcmc samples the full GP; leave structure at 'auto' and series at None.")
    given = {} if e.sampling is None else e.sampling
    unknown = [name for name in given if name not in _SAMPLING] if isinstance(given, dict) else [given]
    if unknown:
        raise ValueError(f"sampling takes a dict with {', '.join(_SAMPLING)}, all optional; got {unknown[0]!r}.")
    counts = {name: at_least(f"sampling[{name!r}]", value, _SAMPLING[name]) for name, value in given.items()}
    names = _names(e.fixed), _names(e.train), _groups(e.tied)
    return Sampling(*names, _by_name(e, "bounds"), _by_name(e, "priors"), counts)


def _by_name(e: Any, name: str) -> dict[str, Any]:
    given = getattr(e, name)
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{name} must be given by the names of parameters, in a dict; got {given!r}.")
    return dict(given or {})


def _refuse(e: Any, names: tuple[str, ...], instead: str) -> None:
    given = [name for name in names if getattr(e, name) not in (None, 0, {})]
    if given:
        raise ValueError(f"{e.method} has no setting {', '.join(given)}; {instead}.")


def _names(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _groups(value: Any) -> tuple[str | tuple[str, ...], ...]:
    """Groups of tied parameters; hashable, as they are part of a compilation key."""
    return tuple(group if isinstance(group, str) else tuple(group) for group in _names(value))
