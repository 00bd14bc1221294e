"""Starting kernels and weak priors of an estimator: a given kernel, the default kernel, or several to average over.

For methods that integrate over the hyperparameters, a default kernel has priors from the spread of the inputs: log ℓ is
normal around log(√2 · typical distance of rows) with standard deviation 1, and log σ² around a value that suits the
likelihood with standard deviation 2.  Values of greatest evidence had about this distribution in 25 tables of two
classes.  Kernels that are compared by their evidence need proper priors, equally wide for shared hyperparameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from sitewise.estimators import sklearn_kernels
from sitewise.hyperpriors import HyperPrior, LogNormal
from sitewise.kernel_choice import NAMED_KERNELS, PerColumn
from sitewise.kernels import Additive, Constant, Kernel, Laplacian, Linear, Matern52, NormalScores, Shrunk
from sitewise.kernels.lengthscale_start import sample, start_lengthscale, typical_distance
from sitewise.kernels.per_column import start_lengthscales, with_ard, with_shrunk
from sitewise.types import replace

SCORES_SPREAD = 0.5  # of the shrunk lengthscales of normal scores, and of Laplacian kernels
MAX_COLUMNS = 100  # above, a single default kernel has one shared lengthscale, and "average" has no additive kernel
WIDE_ROWS_PER_COLUMN = 4  # with fewer rows per column, a linear kernel is averaged as well
LOG_LENGTHSCALE_SD, LOG_VARIANCE_SD = 1.0, 2.0  # standard deviations of weak priors
MAX_EFFECTS_VARIANCE = 4.0  # of all effects together, if each column has its own variance


class Candidate(NamedTuple):
    """A kernel to start from, its name in reports, and weak priors of its hyperparameters."""

    name: str
    kernel: Kernel
    weak: Mapping[str, HyperPrior] = {}


def candidates(kernel: Any, X: np.ndarray, variance: float, weight: np.ndarray | None = None) -> list[Candidate]:
    """Return the kernel that an estimator's `kernel` stands for, or the kernels to average over.

    `variance` is a typical variance of the latent function, `weight` the weight per row.
    """
    if isinstance(kernel, str):
        return _named(kernel, X, variance, weight)
    if isinstance(kernel, list | tuple):
        if len(kernel) < 2:
            raise ValueError("A list of kernels to average over has at least two; give one kernel without a list.")
        return [Candidate(f"{i}. {_kind(k)}", _given(k, X)) for i, k in enumerate(kernel, start=1)]
    return [Candidate("given", _given(kernel, X))]


def _given(kernel: Any, X: np.ndarray) -> Kernel:
    """Return the given kernel; PerColumn adds one lengthscale per column."""
    if isinstance(kernel, PerColumn):
        return with_shrunk(kernel.kernel, X, start=False) if kernel.shrunk else with_ard(kernel.kernel, X.shape[1])
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"kernel must come from sitewise.kernels, got {kernel!r}: "
            f"{sklearn_kernels.advice(kernel) or 'Matern52() is one'}."
        )
    return kernel


def _kind(kernel: Any) -> str:
    return _kind(kernel.kernel) if isinstance(kernel, PerColumn) else type(kernel).__name__


def _named(name: str, X: np.ndarray, variance: float, weight: np.ndarray | None) -> list[Candidate]:
    """Return the kernels that a name of `NAMED_KERNELS` stands for."""
    if name == "isotropic":
        return [Candidate("default", Matern52(start_lengthscale(X)), _weak(X, variance, "kernel."))]
    if name == "shrunk":
        return [Candidate("default", with_shrunk(Matern52(), X, start=True), _weak_shrunk(X, variance))]
    if name == "laplacian":
        return [_laplacian(X, variance)._replace(name="default")]
    if name == "ard":
        return [Candidate("given", Matern52(start_lengthscales(X)))]
    if name in ("additive", "main_effects"):
        return [_effects(X, 2 if name == "additive" else 1, weight, variance)]
    if name == "average":
        return _average(X, variance, weight)
    raise ValueError(
        f"kernel must come from sitewise.kernels, or be one of {', '.join(map(repr, NAMED_KERNELS))}; got {name!r}."
    )


def _effects(X: np.ndarray, order: int, weight: np.ndarray | None, variance: float) -> Candidate:
    """Return the additive kernel with one lengthscale and one variance per column.

    Its many hyperparameters need priors of smooth and moderate effects: with the priors of shared hyperparameters,
    fitted effects were too rough.
    """
    count = X.shape[1]
    base = Matern52(np.ones(count), np.full(count, variance / count))
    priors = _weak_additive(count, min(variance, MAX_EFFECTS_VARIANCE))
    priors["kernel.base.lengthscale"] = LogNormal(float(np.log(2.0)), 0.7)
    return Candidate("additive", Additive.of(X, order, base=base, weight=weight), priors)


def _average(X: np.ndarray, variance: float, weight: np.ndarray | None) -> list[Candidate]:
    """Return the kernels of the default: a shrunk kernel, pairs of effects, and kernels of normal scores.

    They differ in what tables differ in (results/average): the scale of the columns, and the structure of f, which is
    additive, smooth, a rule of thresholds (Laplacian) or, if the table is wide, linear.
    """
    if X.shape[1] == 1:
        return _named("isotropic", X, variance, weight)
    found = [_named("shrunk", X, variance, weight)[0]._replace(name="shrunk")]
    if X.shape[1] <= MAX_COLUMNS:
        found.append(Candidate("pairs", Additive.of(X, weight=weight), _weak_additive(X.shape[1], variance)))
    scored = NormalScores.of(X, Matern52(), weight)
    scores = np.asarray(scored.transform(X))
    of_scores = [_shrunk(scores, variance), _laplacian(scores, variance)]
    if len(X) < WIDE_ROWS_PER_COLUMN * X.shape[1]:
        of_scores.append(_linear(scores, variance))
    for name, kernel, weak in of_scores:
        weak = {key.replace("kernel.", "kernel.base.", 1): prior for key, prior in weak.items()}
        found.append(Candidate(f"{name} of scores", replace(scored, base=kernel), weak))
    return found


def _shrunk(X: np.ndarray, variance: float) -> Candidate:
    kernel = with_shrunk(Matern52(), X, start=True, spread=SCORES_SPREAD)
    return Candidate("shrunk", kernel, _weak_shrunk(X, variance))


def _laplacian(X: np.ndarray, variance: float) -> Candidate:
    """Return the Laplacian kernel with shrunk lengthscales, around twice the typical L1 distance of rows."""
    spread = np.std(X, axis=0)
    units = np.where(spread > 0, spread, 1.0)
    some = sample(X) / units
    apart = cdist(some, some, "cityblock")
    typical = float(np.median(apart[apart > 0])) if np.any(apart > 0) else 1.0
    base = Laplacian(typical, min(variance, MAX_EFFECTS_VARIANCE))
    weak: dict[str, HyperPrior] = {
        "kernel.base.lengthscale": LogNormal(float(np.log(2 * typical)), LOG_LENGTHSCALE_SD),
        "kernel.base.variance": LogNormal(float(np.log(variance)), LOG_VARIANCE_SD),
    }
    return Candidate("laplacian", Shrunk(base, np.zeros(X.shape[1]), SCORES_SPREAD, units), weak)


def _linear(X: np.ndarray, variance: float) -> Candidate:
    """Return the linear kernel with a constant; the slopes together have the given variance."""
    slopes = variance / float(np.mean(np.sum(np.square(X), axis=1)) or 1.0)
    weak: dict[str, HyperPrior] = {
        "kernel.parts.0.variance": LogNormal(float(np.log(slopes)), LOG_VARIANCE_SD),
        "kernel.parts.1.variance": LogNormal(0.0, LOG_VARIANCE_SD),
    }
    return Candidate("linear", Linear(slopes) + Constant(), weak)


def _weak(X: np.ndarray, variance: float, prefix: str) -> dict[str, HyperPrior]:
    length = np.log(np.sqrt(2) * typical_distance(X))
    return {
        f"{prefix}lengthscale": LogNormal(float(length), LOG_LENGTHSCALE_SD),
        f"{prefix}variance": LogNormal(float(np.log(variance)), LOG_VARIANCE_SD),
    }


def _weak_shrunk(X: np.ndarray, variance: float) -> dict[str, HyperPrior]:
    spread = np.std(X, axis=0)
    return _weak(sample(X) / np.where(spread > 0, spread, 1.0), variance, "kernel.base.")


def _weak_additive(columns: int, variance: float) -> dict[str, HyperPrior]:
    """Return priors by which all main effects together have the given variance, and pairs about half of it."""
    return {
        "kernel.base.lengthscale": LogNormal(0.0, LOG_LENGTHSCALE_SD),
        "kernel.base.variance": LogNormal(float(np.log(variance / columns)), LOG_VARIANCE_SD),
        "kernel.interaction": LogNormal(float(np.log(0.5)), LOG_VARIANCE_SD),
        "kernel.offset": LogNormal(0.0, LOG_VARIANCE_SD),
    }
