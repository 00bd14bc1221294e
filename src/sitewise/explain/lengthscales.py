"""Lengthscales of a fitted kernel (ARD): values with standard errors and intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sitewise.explain.effects import outputs_of, term_features
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.hyper_intervals import hyper_law
from sitewise.explain.table_columns import explained
from sitewise.fitted.function import FittedFunction
from sitewise.kernels import Additive, Kernel, Shrunk
from sitewise.kernels.per_column import lengthscales_of
from sitewise.parameters import Trainable

Term = tuple[str, int, float]  # parameter, place of an entry, factor
Ends = Callable[[list[Term]], tuple[float, float, float]]


@dataclasses.dataclass(frozen=True)
class Lengthscale:
    """One lengthscale of a fitted kernel: about how far a column must change for the function to change.

    A short lengthscale means that the function is rough along the column, not that it varies much: see `Importance`.

    Attributes
    ----------
    names : tuple of str
        The column, or all columns that share the lengthscale.
    output : str
        The class if each class has its own kernel, else "".
    parameter : str
        The name of the hyperparameter.
    value : float
        In the units of the column.
    spreads : float
        In standard deviations of the column (geometric mean over several columns).
    error : float
        Standard error of log(value), about the relative error; infinite if the evidence is flat (often for a column
        without effect); NaN if the value was held fixed or ended at a bound, or there is no maximum.
    low, high : float
        Ends of the interval.  An infinite upper limit means that the data do not require this column.
    """

    names: tuple[str, ...]
    output: str
    parameter: str
    value: float
    spreads: float
    error: float
    low: float
    high: float


def lengthscales(model: Any, level: float = 0.9) -> list[Lengthscale]:
    """Return every lengthscale of the fitted kernel with its columns, standard error and interval.

    The names are the names of the estimator's inputs, and values are in their units.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    level : as in GPRegressor.lengthscales
        The level of the intervals.

    Returns
    -------
    lengthscales : list of Lengthscale
        One entry per lengthscale.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    view = explained(model, "lengthscales")
    model = view.model
    if model._averages_kernels():
        raise ValueError("Kernels that are averaged have no lengthscales in common; fit with kernel='shrunk' or 'ard'.")
    names, outputs = term_features(view), outputs_of(model)
    spread = np.std(model._X[model._weight > 0], axis=0)[model._kernel_columns()]
    out = []
    for number, latent in enumerate(model._latents):
        kernels = latent.model.kernels
        ends = _ends(model, latent, level)
        many = isinstance(kernels, list)
        for c, kernel in enumerate(kernels if isinstance(kernels, list) else [kernels]):
            which = outputs[c] if many else outputs[number] if len(model._latents) > 1 else ""
            for name, seen, value in lengthscales_of(kernel, len(names)):
                each = [(column,) for column in seen] if value.ndim else [seen]
                for i, (chosen, one) in enumerate(zip(each, np.ravel(value), strict=True)):
                    parameter = f"kernel.{name}"
                    error, relative_low, relative_high = ends(_terms(kernel, name, i, c, value.size))
                    low, high = one * relative_low, one * relative_high
                    scale = np.exp(np.mean(np.log(np.maximum(spread[list(chosen)], 1e-300))))
                    called = tuple(names[j] for j in chosen)
                    out.append(Lengthscale(called, which, parameter, float(one), float(one / scale), error, low, high))
    return out


def _terms(kernel: Kernel, name: str, place: int, output: int, count: int) -> list[Term]:
    """Return the entries of the vector whose sum is log(lengthscale) up to a constant, ordered by output."""
    *path, _ = name.split(".")
    part: Any = kernel
    for step in path:
        part = part[int(step)] if step.isdigit() else getattr(part, step)
    prefix = "kernel." + "".join(f"{step}." for step in path)
    if isinstance(part, Shrunk):
        spread = float(np.asarray(part.spread))
        return [
            (f"{prefix}base.lengthscale", output, 1.0),
            (f"{prefix}deviations", output * count + place, spread),
        ]
    if isinstance(part, Additive):
        shared = np.ndim(part.base.lengthscale) == 0
        return [(f"{prefix}base.lengthscale", output if shared else output * count + place, 1.0)]
    return [(f"kernel.{name}", output * count + place, 1.0)]


def _ends(model: Fitted, latent: FittedFunction, level: float) -> Ends:
    """Return the function from terms of log θ to its standard error and the relative ends of an interval of θ."""
    trainable, vector, interval = hyper_law(model, latent)
    places = _places(trainable)

    def ends(terms: list[Term]) -> tuple[float, float, float]:
        factors = np.zeros(len(vector))
        for name, place, factor in terms:
            if name in places:
                factors[places[name] + place] = factor
        if not factors.any():
            return np.nan, np.nan, np.nan
        error, low, high = interval(factors, level)
        with np.errstate(over="ignore"):  # infinite if the data do not determine it
            return error, float(np.exp(low)), float(np.exp(high))

    return ends


def _places(trainable: Trainable) -> dict[str, int]:
    """Return where the entries of each parameter begin in the vector; tied parameters share entries."""
    out, at = {}, 0
    for p in trainable.parameters:
        for name in next((group for group in trainable.tied if group[0] == p.name), (p.name,)):
            out[name] = at
        at += p.raw_size
    return out
