"""The kernels that an estimator learns with: the given one, the default, or several whose predictions are averaged.

A default kernel has priors from the spread of the inputs, for what integrates over the hyperparameters: log ℓ is normal
around √2 typical distances of rows, with the deviation 1, and log σ² around a value that suits the likelihood, with the
deviation 2.  In 25 tables of two classes the values of greatest evidence were distributed like that.  Kernels that are
compared by their evidence need proper priors, and as wide ones for what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sitewise.estimators import sklearn_kernels
from sitewise.estimators.distinct_rows import sample, start_lengthscale, typical_distance
from sitewise.explain.lengthscales import start_lengthscales, with_ard, with_shrunk
from sitewise.hyperpriors import HyperPrior, LogNormal
from sitewise.kernels import Additive, Kernel, Matern52, Shrunk

SPREADS = (0.5, 1.0)
_LENGTH_SCALE, _VARIANCE_SCALE = 1.0, 2.0
_MODERATE = 4.0  # variance of all effects of columns together, where each has its own
_COLUMNS = 100  # of more, one lengthscale for all is the default, and the additive kernel is left out


class Candidate(NamedTuple):
    """A kernel to start from, what it is called in reports, and priors of its hyperparameters if they need any."""

    name: str
    kernel: Kernel
    weak: Mapping[str, HyperPrior] = {}


def start_kernel(kernel: Any, ard: bool | str, X: np.ndarray | None) -> Kernel:
    """The kernel as given; or one that suits the scale of the inputs, where they are known."""
    if kernel is not None and not isinstance(kernel, Kernel):
        hint = sklearn_kernels.advice(kernel) or "Matern52() is one"
        raise ValueError(f"kernel must come from sitewise.kernels, got {kernel!r}: {hint}.")
    if not isinstance(ard, bool | np.bool_) and ard not in ("auto", "shrunk"):
        raise ValueError(f"ard must be True (one lengthscale per column), 'shrunk', 'auto' or False, got {ard!r}.")
    if X is None:
        return Matern52() if kernel is None else kernel
    if ard == "auto":
        ard = "shrunk" if kernel is None and 1 < X.shape[1] <= _COLUMNS else False
    if ard == "shrunk":
        return with_shrunk(Matern52() if kernel is None else kernel, X, start=kernel is None)
    if kernel is not None:
        return with_ard(kernel, X.shape[1]) if ard else kernel
    return Matern52((start_lengthscales if ard else start_lengthscale)(X))


def candidates(kernel: Any, ard: bool | str, X: np.ndarray, variance: float) -> list[Candidate]:
    """One kernel, or those of kernel="average" or of a list; `variance` is a typical one of the latent function."""
    if isinstance(kernel, str) and kernel == "average":
        _refuse(ard)
        return _average(X, variance)
    if isinstance(kernel, list | tuple):
        _refuse(ard)
        if len(kernel) < 2:
            raise ValueError("A list of kernels to average over has at least two; give one kernel without a list.")
        return [Candidate(f"{i}. {type(k).__name__}", start_kernel(k, False, X)) for i, k in enumerate(kernel, start=1)]
    if isinstance(kernel, str):
        raise ValueError(f"kernel must come from sitewise.kernels, or be 'average'; got {kernel!r}.")
    found = start_kernel(kernel, ard, X)
    if kernel is not None or ard is True:
        return [Candidate("given", found)]
    weak = _weak_shrunk(X, variance) if isinstance(found, Shrunk) else _weak(X, variance, "kernel.")
    return [Candidate("default", found, weak)]


def effects(X: np.ndarray, order: int, weight: np.ndarray, variance: float) -> Candidate:
    """The additive kernel with a lengthscale and a variance for every column.

    So many hyperparameters need priors of smooth and moderate effects; with those of shared ones the mode had wiggles.
    """
    count = X.shape[1]
    base = Matern52(np.ones(count), np.full(count, variance / count))
    priors = _weak_additive(count, min(variance, _MODERATE))
    priors["kernel.base.lengthscale"] = LogNormal(float(np.log(2.0)), 0.7)
    return Candidate("additive", Additive.of(X, order, base=base, weight=weight), priors)


def _refuse(ard: bool | str) -> None:
    if ard not in ("auto", False):
        raise ValueError(f"ard={ard!r} is for one kernel, and several are averaged over here; leave ard at 'auto'.")


def _average(X: np.ndarray, variance: float) -> list[Candidate]:
    """Isotropic, with lengthscales of their own for columns as far as the rows speak for it, and additive."""
    isotropic = Candidate("isotropic", Matern52(start_lengthscale(X)), _weak(X, variance, "kernel."))
    if X.shape[1] == 1:
        return [isotropic]
    found = [isotropic]
    for spread in SPREADS:
        kernel = with_shrunk(Matern52(), X, start=True, spread=spread)
        found.append(Candidate(f"shrunk lengthscales, spread {spread:g}", kernel, _weak_shrunk(X, variance)))
    if X.shape[1] <= _COLUMNS:
        found.append(Candidate("additive with pairs", Additive.of(X), _weak_additive(X.shape[1], variance)))
    return found


def _weak(X: np.ndarray, variance: float, prefix: str) -> dict[str, HyperPrior]:
    length = np.log(np.sqrt(2) * typical_distance(X))
    return {
        f"{prefix}lengthscale": LogNormal(float(length), _LENGTH_SCALE),
        f"{prefix}variance": LogNormal(float(np.log(variance)), _VARIANCE_SCALE),
    }


def _weak_shrunk(X: np.ndarray, variance: float) -> dict[str, HyperPrior]:
    spread = np.std(X, axis=0)
    return _weak(sample(X) / np.where(spread > 0, spread, 1.0), variance, "kernel.base.")


def _weak_additive(columns: int, variance: float) -> dict[str, HyperPrior]:
    """Main effects have the variance together, and pairs about half of it."""
    return {
        "kernel.base.lengthscale": LogNormal(0.0, _LENGTH_SCALE),
        "kernel.base.variance": LogNormal(float(np.log(variance / columns)), _VARIANCE_SCALE),
        "kernel.interaction": LogNormal(float(np.log(0.5)), _VARIANCE_SCALE),
        "kernel.offset": LogNormal(0.0, _VARIANCE_SCALE),
    }
