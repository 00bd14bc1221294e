"""Survival as rows of counts, and survival curves with bands from a fit of lifetimes or of such rows.

A hazard that is constant between cut points, h(t, x) = exp f(x, t_j) for c_j < t ≤ c_{j+1}, has the likelihood of
Poisson counts: subject i, who was at risk in piece j for the time e_ij and had d_ij ∈ {0, 1} events there, contributes

    d_ij f(x_i, t_j) − e_ij exp f(x_i, t_j),    that is, d_ij ~ Poisson(e_ij exp f(x_i, t_j)).

A Gaussian process of (x, t) is then a hazard of any shape that may depend on x in another way at every time: no
proportional hazards are assumed.  S(t | x) = exp(−Σ_j e_j(t) exp f(x, t_j)), with e_j(t) the part of piece j before t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sitewise.estimators.gp_regressor import GPRegressor
from sitewise.likelihoods.lifetime import Lifetime
from sitewise.likelihoods.rate import Counts
from sitewise.process.precision import working_precision


class PieceRows(NamedTuple):
    """A row for every subject and piece of time in which it was at risk.

    X         inputs of the subject, with the middle of the piece as last column
    counts    1 if its event was in this piece, else 0
    exposure  for how long it was at risk in it
    subject   its row in the table that was given
    """

    X: np.ndarray
    counts: np.ndarray
    exposure: np.ndarray
    subject: np.ndarray


class SurvivalCurve(NamedTuple):
    """P(T > t | x): `mean`, and the ends `low` and `high` of its band, with a row for each x and a column for each of
    `times`.  The band is about what the data leave open; it is not the scatter of lifetimes."""

    times: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _checked_cuts(cuts: ArrayLike) -> np.ndarray:
    found = np.asarray(cuts, float)
    if found.ndim != 1 or len(found) < 2 or found[0] < 0 or not np.all(np.diff(found) > 0):
        raise ValueError("cuts must be increasing times, as in [0, 1, 2, 5], from the start to the end of observation.")
    return found


def piecewise_exponential(X: ArrayLike, time: ArrayLike, event: ArrayLike, cuts: ArrayLike) -> PieceRows:
    """The rows of counts of these lifetimes, for likelihood="poisson" with exposure.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
    time : array of shape (n_rows,)
        When the event was, or until when the subject was observed.
    event : array of shape (n_rows,)
        1 where the event was seen, 0 where the subject was still without it.
    cuts : increasing times, from the start to the end of observation
        What is beyond the last is cut off: those subjects count as observed until then.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise.estimators import piecewise_exponential
    >>> rows = piecewise_exponential([[0.3], [0.7]], time=[1.5, 4.0], event=[1, 0], cuts=[0, 1, 2, 3])
    >>> rows.counts.tolist(), rows.exposure.tolist()
    ([0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 1.0, 1.0, 1.0])
    """
    table, ends = np.asarray(X, float), _checked_cuts(cuts)
    when, seen = np.asarray(time, float), np.asarray(event, float)
    if table.ndim != 2 or when.shape != table.shape[:1] or seen.shape != when.shape:
        raise ValueError(f"X must be a table with one time and one event per row, got {table.shape}, {when.shape}.")
    if not np.all(np.isin(seen, (0.0, 1.0))):
        raise ValueError("event must hold 1 where the event was seen and 0 where it was not.")
    if not np.all(np.isfinite(when) & (when > ends[0])):
        raise ValueError("time must hold finite times after the first of the cuts.")
    low, high = ends[:-1], ends[1:]
    risk = np.clip(when[:, None] - low, 0.0, high - low)
    here = (seen[:, None] == 1) & (when[:, None] > low) & (when[:, None] <= high)
    subject, piece = np.nonzero(risk > 0)
    inputs = np.column_stack([table[subject], 0.5 * (low + high)[piece]])
    return PieceRows(inputs, here[subject, piece].astype(float), risk[subject, piece], subject)


def survival_curve(
    model: GPRegressor,
    X: ArrayLike,
    times: ArrayLike,
    *,
    cuts: ArrayLike | None = None,
    level: float = 0.9,
    n_samples: int = 1000,
    random_state: Any = 0,
) -> SurvivalCurve:
    """P(T > t | x) at `times`, with a band that holds it with probability `level`, from draws of the latent function.

    Parameters
    ----------
    model : a fitted GPRegressor
        Of lifetimes ("weibull", "log_logistic"), or of the counts of `piecewise_exponential`.
    X : array of shape (n_rows, n_columns)
        The subjects, without the column of times.
    times : array of shape (n_times,)
    cuts : the cuts of `piecewise_exponential`, where the model is of its rows
    """
    wanted = np.atleast_1d(np.asarray(times, float))
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    kind = model.likelihood_
    if isinstance(kind, Lifetime) and cuts is None:
        if np.any(wanted <= 0):
            raise ValueError("times must be positive.")
        drawn = _draw(model, X, n_samples, seed)
        with working_precision():
            of_draw = jax.vmap(lambda one, f: one.survival(wanted, f[:, None]))
            share = np.asarray(of_draw(drawn.likelihood, drawn.f))
    elif isinstance(kind, Counts) and cuts is not None:
        share = _of_pieces(model, np.atleast_2d(np.asarray(X, float)), wanted, _checked_cuts(cuts), n_samples, seed)
    else:
        raise ValueError(
            "A survival curve is of lifetimes, likelihood='weibull' or 'log_logistic', or of the counts of "
            "piecewise_exponential, with its cuts."
        )
    low, high = np.quantile(share, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return SurvivalCurve(wanted, share.mean(axis=0), low, high)


def _draw(model: GPRegressor, X: Any, n_samples: int, seed: int) -> Any:
    (latent,) = model._latents
    return latent.draw(seed, model._new_rows(X), n_samples)


def _of_pieces(
    model: GPRegressor, X: np.ndarray, times: np.ndarray, ends: np.ndarray, n_samples: int, seed: int
) -> np.ndarray:
    """Survival of every draw, row and time; the draws of a row are joint over the pieces of time."""
    if np.any(times < ends[0]) or np.any(times > ends[-1]):
        raise ValueError(
            f"times must lie between the cuts, {ends[0]:g} and {ends[-1]:g}: the hazard is not known beyond."
        )
    low, high = ends[:-1], ends[1:]
    middle, at_risk = 0.5 * (low + high), np.clip(times[:, None] - low, 0.0, high - low)
    share = np.empty((n_samples, len(X), len(times)))
    for i, row in enumerate(X):
        drawn = _draw(model, np.column_stack([np.tile(row, (len(middle), 1)), middle]), n_samples, seed)
        with working_precision():
            hazard = np.asarray(jax.vmap(lambda one, f: one.response_mean(f))(drawn.likelihood, drawn.f))
        share[:, i] = np.exp(-hazard @ at_risk.T)
    return share
