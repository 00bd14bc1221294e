"""The Hessian of an objective by differences of its gradient, a cheap guess of it, and its inverse for an ascent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sitewise.learning.objective import INPUTS, Objective
from sitewise.learning.problem import Problem
from sitewise.numerics.dense.symmetric import absolute_inverse
from sitewise.sites import Sites
from sitewise.supports import Positive

_LOG_STEP = 0.1  # in log θ: as far as the lengthscales of a search differ from round to round
_MIN_CURVATURE = 0.5  # nats per squared unit of log θ, of directions that the rows do not determine
_GRAM_STEP = 1e-5  # of the vector: differences of a gram matrix, from which four digits suffice
_LIKELIHOOD_CURVATURE = 0.25  # nats per row, of a parameter of the likelihood such as a scale of noise


def by_differences(
    gradient: Callable[[np.ndarray], np.ndarray],
    vector: np.ndarray,
    steps: np.ndarray,
    entries: np.ndarray,
    central: bool = False,
    here: np.ndarray | None = None,
) -> np.ndarray:
    """Return rows `entries` of the Hessian; step i moves entry i.  One gradient per entry, or two if `central`.

    ∂g/∂v_i ≈ [g(v + s_i e_i) − g(v)] / s_i, or [g(v + s_i e_i) − g(v − s_i e_i)] / 2 s_i.  Other rows are NaN.
    `here` is g(v) if it is known.
    """
    hessian = np.full((len(vector), len(vector)), np.nan)
    if not central and here is None:
        here = gradient(vector)
    for i in entries:
        step = steps[i] * np.eye(len(vector))[i]
        below = gradient(vector - step) if here is None else here
        hessian[i] = (gradient(vector + step) - below) / (2 * steps[i] if central else steps[i])
    return hessian


def can_guess(problem: Problem) -> bool:
    """Return whether the prior of f is matrices on the host, whose Hessian `guessed_inverse` can guess."""
    return problem.on_host and problem.model.prior.informs and INPUTS not in problem.trainable.names


def guessed_inverse(problem: Problem, vector: np.ndarray, sites: Sites) -> np.ndarray | None:
    """Return a guess of the inverse of the negative Hessian per row, at about a third of the cost of an evaluation.

    With fixed sites the model is N(ỹ; μ, K + W⁻¹), whose average information is the mean of the observed and the
    expected Fisher information (Gilmour, Thompson & Cullis 1995).  With R = (K + W⁻¹)⁻¹ and α = R(ỹ − μ),

        H_ij ≈ ½ αᵀ ∂_iK R ∂_jK α + ∂_iμᵀ R ∂_jμ − ∂_i∂_j log p(θ)

    The second derivatives of the log prior are those of a separable prior.  A parameter of the likelihood has
    `_LIKELIHOOD_CURVATURE` per row.  None where it is not finite.  Only for problems that `can_guess` accepts.
    """
    data, size = problem.data, len(vector)
    weighted = sites.scaled(data.weight)
    gram: Any = problem.model_at(vector).prior.gram(data.X)  # with K and mean, as the prior `informs`
    _, factor = gram.condition_with_factor(weighted, data.mask)
    slopes_K, slopes_mean = (np.zeros((size, *gram.mean.shape)) for _ in range(2))  # by function, if there are two
    curvature, at = np.zeros(size), 0
    for p in problem.trainable.parameters:
        for i in range(at, at + p.raw_size):
            if p.name.startswith("likelihood."):
                curvature[i] = _LIKELIHOOD_CURVATURE * problem.total
                continue
            moved: Any = problem.model_at(vector + _GRAM_STEP * np.eye(size)[i]).prior.gram(data.X)
            slopes_K[i] = ((moved.K - gram.K) @ factor.alpha[..., None])[..., 0] / _GRAM_STEP
            slopes_mean[i] = (moved.mean - gram.mean) / _GRAM_STEP
        at += p.raw_size
    by_K, by_mean = (np.stack([factor.R_times(one) for one in each]) for each in (slopes_K, slopes_mean))
    information = 0.5 * np.inner(slopes_K.reshape(size, -1), by_K.reshape(size, -1))
    information += np.inner(slopes_mean.reshape(size, -1), by_mean.reshape(size, -1))
    curvature += prior_curvature(problem.objective, vector)
    hessian = (information + np.diag(curvature)) / problem.total
    return absolute_inverse(hessian, _MIN_CURVATURE / problem.total) if np.all(np.isfinite(hessian)) else None


def prior_curvature(objective: Objective, vector: np.ndarray) -> np.ndarray:
    """Return minus the second derivatives of the log prior per entry, at least 0, if the prior is separable."""
    slopes = [objective.log_prior_with_slope(vector + step)[1] for step in (0.0, _GRAM_STEP)]
    return np.maximum((slopes[0] - slopes[1]) / _GRAM_STEP, 0.0)


def inverse_per_row(problem: Problem, vector: np.ndarray, sites: Sites) -> np.ndarray | None:
    """Return the inverse of the negative Hessian per row; None where inference does not converge.

    An ascent learns the Hessian along its own path only, and creeps where that is wrong: along the lengthscales of
    columns that matter little, of which there are many.  A direction of upward curvature counts as one of downward
    curvature of the same size, and none is flatter than `_MIN_CURVATURE`: in log θ, or for numbers that are no
    logarithms in units of their uncertainty.
    """
    size = len(vector)
    first = problem.evaluate(vector, sites)

    def gradient(at: np.ndarray) -> np.ndarray:
        found = first if at is vector else problem.evaluate(at, first.solution.sites)
        settled = found.solution.outcome.settled
        return np.asarray(found.gradient) / problem.total if settled else np.full(size, np.nan)

    ends = np.clip(vector + _LOG_STEP * np.array([[-1.0], [1.0]]), *problem.limits.T) - vector
    steps = np.where(ends[1] >= -ends[0], ends[1], ends[0])
    hessian = -by_differences(gradient, vector, steps, np.arange(size))
    if not np.all(np.isfinite(hessian)):
        return None
    logs = [np.full(p.raw_size, isinstance(p.support, Positive)) for p in problem.trainable.parameters]
    uncertain = 1 / np.sqrt(problem.total * np.abs(np.diagonal(hessian)) + 1e-300)
    units = np.where(np.concatenate(logs), 1.0, np.maximum(1.0, uncertain))
    return units[:, None] * absolute_inverse(units[:, None] * hessian * units, _MIN_CURVATURE / problem.total) * units
