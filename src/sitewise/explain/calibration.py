"""Calibration scores of class probabilities and decisions by cost, from leave-one-out predictions or test data.

A model may be a Pipeline that ends in an estimator of sitewise.  Plot functions return matplotlib axes and import
matplotlib only when called.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sitewise import metrics
from sitewise.explain.table_columns import parts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Calibration scores of class probabilities.

    With two classes, brier, ece and curve describe the probability of `classes_[1]`; with more classes, the probability
    of the predicted class.

    Attributes
    ----------
    log_loss : float
        Mean of −log p(observed class), in nats.
    accuracy : float
        Share of rows whose most probable class is correct.
    brier : float
        Brier score: mean squared error of the probability.
    ece : float
        Expected calibration error: mean |observed − predicted| over bins.
    curve : dict
        Calibration curve: predicted, observed, count, one entry per bin that is not empty.
    rows : int
        The number of rows.
    source : str
        Which predictions were scored: test rows or leave-one-out predictions.
    """

    log_loss: float
    accuracy: float
    brier: float
    ece: float
    curve: dict[str, np.ndarray]
    rows: int
    source: str


def calibration(model: Any, X: Any = None, y: Any = None, bins: int = 10) -> Calibration:
    """Return calibration scores on test data, or on leave-one-out predictions of the training rows.

    Parameters
    ----------
    model : GPClassifier, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    X : array of shape (n_rows, n_columns), default=None
        Test rows; None for leave-one-out predictions of the training rows.
    y : array of shape (n_rows,), default=None
        The labels of the test rows.
    bins : int, default=10
        The number of bins of the calibration curve.

    Returns
    -------
    scores : Calibration
        Log loss, accuracy, Brier score, calibration error and curve.
    """
    table, codes, source = _predictions(model, X, y, "calibration")
    if len(model.classes_) == 2:
        probability, hit = table[:, 1], codes == 1
    else:
        probability, hit = np.max(table, axis=1), np.argmax(table, axis=1) == codes
    observed = table[np.arange(len(codes)), codes]
    return Calibration(
        log_loss=float(-np.mean(np.log(np.maximum(observed, np.finfo(float).tiny)))),
        accuracy=float(np.mean(np.argmax(table, axis=1) == codes)),
        brier=metrics.brier(probability, hit),
        ece=metrics.expected_calibration_error(probability, hit, bins),
        curve=metrics.reliability(probability, hit, bins),
        rows=len(codes),
        source=source,
    )


def _predictions(model: Any, X: Any, y: Any, what: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return class probabilities, observed class indices, and the source of the rows; `what` names the caller."""
    last: Any = parts_of(model, what)[0]
    check_is_fitted(last)
    if not hasattr(last, "predict_proba"):
        raise ValueError(f"{what} needs class probabilities, which {type(last).__name__} does not predict.")
    if (X is None) != (y is None):
        raise ValueError("Give both X and y for test data, or neither for the leave-one-out predictions.")
    if X is None:
        return last.loo_.probability, last._y, "leave-one-out"
    return model.predict_proba(X), last._check_y(y), "test data"


def decide(probability: ArrayLike, cost: ArrayLike) -> np.ndarray:
    """Return the decision with the least expected cost (cost-sensitive decision), per row of class probabilities.

    Parameters
    ----------
    probability : array of shape (n_rows, n_classes)
        Class probabilities, as from `predict_proba`.
    cost : array of shape (n_decisions, n_classes)
        `cost[d, c]` is the cost of decision d for a row of class c.  There may be more decisions than classes, such as
        "ask an expert".

    Returns
    -------
    decision : array of shape (n_rows,)
        The index of the decision.
    """
    probability, cost = np.asarray(probability, float), np.asarray(cost, float)
    if cost.ndim != 2 or probability.ndim != 2 or cost.shape[1] != probability.shape[1]:
        raise ValueError("cost needs one row per decision and one column per class of the probabilities.")
    if not (np.all(probability >= 0) and np.allclose(probability.sum(axis=1), 1, atol=1e-6)):
        raise ValueError("Each row of probability must hold numbers from 0 to 1 that add up to 1, one per class.")
    return np.argmin(probability @ cost.T, axis=1)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def plot_cost(
    model: Any,
    false_positive: float,
    false_negative: float,
    X: Any = None,
    y: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the mean cost of predicting `classes_[1]` above a threshold, for all thresholds.

    The grey line marks the optimal threshold for calibrated probabilities.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier of two classes.
    false_positive : float
        Cost of predicting `classes_[1]` for a row of `classes_[0]`.
    false_negative : float
        Cost of predicting `classes_[0]` for a row of `classes_[1]`.
    X : array of shape (n_rows, n_columns), default=None
        Test rows; None for leave-one-out predictions of the training rows.
    y : array of shape (n_rows,), default=None
        The labels of the test rows.
    ax : Axes, default=None
        Where to draw; None makes a figure.
    """
    table, codes, source = _predictions(model, X, y, "plot_cost")
    if table.shape[1] != 2:
        raise ValueError("plot_cost is for two classes; use decide for more.")
    thresholds = np.linspace(0, 1, 201)
    called = table[:, 1][:, None] >= thresholds
    positive = (codes == 1)[:, None]
    cost = np.mean(called * ~positive * false_positive + ~called * positive * false_negative, axis=0)
    ax = _axes(ax)
    ax.plot(thresholds, cost)
    ax.axvline(false_positive / (false_positive + false_negative), color="grey", linewidth=1)
    ax.set(xlabel="threshold", ylabel="mean cost", title=f"{source}, {len(codes)} rows")
    return ax


def plot_loo(model: Any, ax: Axes | None = None) -> Axes:
    """Plot the influence of each training row against its leave-one-out log density, to find influential outliers.

    Parameters
    ----------
    model : GPClassifier, GPRegressor or GPOrdinal
        A fitted estimator.
    ax : Axes, default=None
        Where to draw; None makes a figure.
    """
    last: Any = parts_of(model, "plot_loo")[0]
    density, influence = last.loo_.log_density, last.influence_
    ax = _axes(ax)
    ax.scatter(density, influence, s=12)
    ax.set(xlabel="leave-one-out log density", ylabel="influence (nats)")
    return ax
