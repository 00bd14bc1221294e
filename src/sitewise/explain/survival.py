"""Survival curves with credible bands, and piecewise exponential survival data as Poisson counts.

A hazard that is constant between cut points, h(t, x) = exp f(x, t_j) for c_j < t ≤ c_{j+1}, has the likelihood of
Poisson counts: subject i, who was at risk in time interval j for the time e_ij and had d_ij ∈ {0, 1} events in it,
contributes

    d_ij f(x_i, t_j) − e_ij exp f(x_i, t_j),    that is, d_ij ~ Poisson(e_ij exp f(x_i, t_j)).

A Gaussian process of (x, t) is then a hazard of any shape, and its dependence on x may change with time: proportional
hazards are not assumed.  S(t | x) = exp(−Σ_j e_j(t) exp f(x, t_j)), with e_j(t) the part of interval j before t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from sitewise.explain.table_columns import Explained, explained
from sitewise.likelihoods import Poisson
from sitewise.likelihoods.lifetime import Lifetime
from sitewise.process.precision import working_precision

TIME = "interval_centre"  # name of the column that `piecewise_exponential` adds to a data frame


class PieceRows(NamedTuple):
    """Piecewise exponential survival data: one row per subject and time interval in which the subject was at risk.

    Attributes
    ----------
    X : array of shape (n_rows, n_columns + 1) or data frame
        Inputs of the subject, with the centre of the interval as last column; a data frame for a data frame, with the
        name "interval_centre" for this column.
    counts : array of shape (n_rows,)
        1 if the subject's event was in this interval, else 0.
    exposure : array of shape (n_rows,)
        Time at risk in this interval.
    subject : array of shape (n_rows,)
        Row of the subject in the given table.
    """

    X: Any
    counts: np.ndarray
    exposure: np.ndarray
    subject: np.ndarray


class SurvivalCurve(NamedTuple):
    """Survival probability P(T > t | x) with a credible band.

    The band is the uncertainty of the survival probability; it is not the spread of lifetimes.

    Attributes
    ----------
    times : array of shape (n_times,)
        The times t.
    mean : array of shape (n_rows, n_times)
        The survival probability.
    low, high : array of shape (n_rows, n_times)
        The ends of the band.
    """

    times: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _checked_cuts(cuts: ArrayLike) -> np.ndarray:
    """Return the cut points as an array; raise ValueError unless they increase."""
    found = np.asarray(cuts, float)
    if found.ndim != 1 or len(found) < 2 or found[0] < 0 or not np.all(np.diff(found) > 0):
        raise ValueError("cuts must be increasing times, as in [0, 1, 2, 5], from the start to the end of observation.")
    return found


def piecewise_exponential(X: Any, time: ArrayLike, event: ArrayLike, cuts: ArrayLike) -> PieceRows:
    """Convert lifetimes to counts per subject and time interval, for likelihood="poisson" with exposure.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns) or data frame
        The table of the subjects.
    time : array of shape (n_rows,)
        Time of the event, or end of the observation.
    event : array of shape (n_rows,)
        1 for an observed event, 0 for a right-censored subject.
    cuts : array of shape (n_cuts,)
        Increasing times, from the start to the end of observation.  Subjects with a later time are right-censored at
        the last cut.

    Returns
    -------
    rows : PieceRows
        Inputs, counts and exposure.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise.estimators import piecewise_exponential
    >>> rows = piecewise_exponential([[0.3], [0.7]], time=[1.5, 4.0], event=[1, 0], cuts=[0, 1, 2, 3])
    >>> rows.counts.tolist(), rows.exposure.tolist()
    ([0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 1.0, 1.0, 1.0])
    """
    table, ends = X if hasattr(X, "iloc") else np.asarray(X, float), _checked_cuts(cuts)
    when, seen = np.asarray(time, float), np.asarray(event, float)
    if table.ndim != 2 or when.shape != table.shape[:1] or seen.shape != when.shape:
        raise ValueError(f"X must be a table with one time and one event per row, got {table.shape}, {when.shape}.")
    if not np.all(np.isin(seen, (0.0, 1.0))):
        raise ValueError("event must hold 1 for an observed event and 0 for a right-censored row.")
    if not np.all(np.isfinite(when) & (when > ends[0])):
        raise ValueError("time must hold finite times after the first of the cuts.")
    low, high = ends[:-1], ends[1:]
    risk = np.clip(when[:, None] - low, 0.0, high - low)
    here = (seen[:, None] == 1) & (when[:, None] > low) & (when[:, None] <= high)
    subject, piece = np.nonzero(risk > 0)
    inputs = _with_time(table, subject, 0.5 * (low + high)[piece])
    return PieceRows(inputs, here[subject, piece].astype(float), risk[subject, piece], subject)


def _with_time(table: Any, rows: np.ndarray, time: np.ndarray) -> Any:
    """Return these rows of an array or a data frame with the time as last column, `TIME` in a data frame."""
    if not hasattr(table, "iloc"):
        return np.column_stack([table[rows], time])
    if TIME in table.columns:
        raise ValueError(f"The column {TIME!r} of X has the name of the column of interval centres; rename it.")
    return table.iloc[rows].reset_index(drop=True).assign(**{TIME: time})


def survival_curve(
    model: Any,
    X: Any,
    times: ArrayLike,
    *,
    cuts: ArrayLike | None = None,
    level: float = 0.9,
    n_samples: int = 1000,
    random_state: Any = 0,
) -> SurvivalCurve:
    """Return the survival probability P(T > t | x) with a credible band, from draws of the latent function.

    Parameters
    ----------
    model : GPRegressor or Pipeline
        Fitted to lifetimes ("weibull", "log_logistic"), or to the counts of `piecewise_exponential`, with exposure.
    X : array of shape (n_rows, n_columns)
        The table of the subjects, as for `model.predict`; with `cuts`, without the column of times.
    times : array of shape (n_times,)
        The times t.
    cuts : array, default=None
        The cuts of `piecewise_exponential`, if the model was fitted to its counts.
    level : float, default=0.9
        Probability that the band contains P(T > t | x).
    n_samples : int, default=1000
        The number of draws of the latent function.
    random_state : int, RandomState or None, default=0
        Seed of the draws.

    Returns
    -------
    curve : SurvivalCurve
        Times, survival probabilities and band.
    """
    view = explained(model, "survival_curve")
    wanted = np.atleast_1d(np.asarray(times, float))
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    kind = getattr(view.model, "likelihood_", None)
    if isinstance(kind, Lifetime):
        if cuts is not None:
            raise ValueError("cuts are for a model of the counts of piecewise_exponential; leave them out.")
        if np.any(~(wanted > 0)):
            raise ValueError("times must be positive.")
        drawn = _draw(view, X, n_samples, seed)
        with working_precision():
            of_draw = jax.vmap(lambda one, f: one.survival(wanted, f[:, None]))
            share = np.asarray(of_draw(drawn.likelihood, drawn.f))
    else:
        _require_pieces(view, cuts)
        assert cuts is not None
        share = _of_pieces(view, X, wanted, _checked_cuts(cuts), n_samples, seed)
    low, high = np.quantile(share, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return SurvivalCurve(wanted, share.mean(axis=0), low, high)


def _require_pieces(view: Explained, cuts: Any) -> None:
    """Raise ValueError unless the model was fitted to the counts of `piecewise_exponential` with these cuts.

    Such counts are 0 or 1 with an exposure, and only the Poisson likelihood makes them the likelihood of a hazard.
    """
    model = view.model
    if not isinstance(getattr(model, "likelihood_", None), Poisson) or cuts is None:
        raise ValueError(
            "A survival curve needs a model of lifetimes, likelihood='weibull' or 'log_logistic', or likelihood="
            "'poisson' for the counts of piecewise_exponential, with its cuts."
        )
    if "exposure" not in model._side or not np.all(np.isin(model._y, (0.0, 1.0))):
        raise ValueError(
            "cuts are for the counts of piecewise_exponential, which are 0 or 1 and have an exposure; fit the model to "
            "its X and counts, with exposure=."
        )
    last, ends = view.columns[-1], _checked_cuts(cuts)
    if last.levels is None and view.is_table:
        centres = last.back(np.unique(model._X[:, last.places[0]]))
        known = 0.5 * (ends[:-1] + ends[1:])
        if np.any(np.min(np.abs(centres[:, None] - known), axis=1) > 1e-6 * ends[-1]):
            raise ValueError("cuts must be the cuts that piecewise_exponential had for the training rows.")


def _draw(view: Explained, X: Any, n_samples: int, seed: int) -> Any:
    """Draw the latent function at rows of the table, with its likelihood."""
    (latent,) = view.model._latents
    return latent.draw(seed, view.model._new_rows(view.inputs(X)), n_samples)


def _of_pieces(
    view: Explained, X: Any, times: np.ndarray, ends: np.ndarray, n_samples: int, seed: int
) -> np.ndarray:  # fmt: skip
    """Return survival probabilities, shape (draws, rows, times); draws of a row are joint over the time intervals."""
    if not np.all((times >= ends[0]) & (times <= ends[-1])):
        raise ValueError(
            f"times must lie between the first and the last cut, {ends[0]:g} and {ends[-1]:g}: no hazard was fitted "
            "outside."
        )
    table = X if hasattr(X, "iloc") else np.atleast_2d(np.asarray(X, float))
    low, high = ends[:-1], ends[1:]
    middle, at_risk = 0.5 * (low + high), np.clip(times[:, None] - low, 0.0, high - low)
    share = np.empty((n_samples, len(table), len(times)))
    for i in range(len(table)):
        drawn = _draw(view, _with_time(table, np.full(len(middle), i), middle), n_samples, seed)
        with working_precision():
            hazard = np.asarray(jax.vmap(lambda one, f: one.response_mean(f))(drawn.likelihood, drawn.f))
        share[:, i] = np.exp(-hazard @ at_risk.T)
    return share
