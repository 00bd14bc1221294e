"""Plot a calibration curve (reliability diagram) of a classifier, with binomial intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sitewise.checks import at_least
from sitewise.explain.effect_display import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ReliabilityDisplay:
    """Calibration curve (reliability diagram): observed shares against predicted probabilities, in bins.

    The interval of a share k/n is Wilson's, at the given level: if the model is calibrated, about this share of the
    intervals crosses the diagonal.  Use `from_estimator`.

    Parameters
    ----------
    probability : array of shape (n_rows,)
        Predicted probability of the event per row.
    hit : array of shape (n_rows,)
        Whether the event happened.
    event : str
        The class whose probability is drawn, or "the predicted class" for more than two classes.
    source : str
        Which predictions these are, for the caption.
    bins : int, default=10
        Number of bins, each with about the same number of rows.
    level : float, default=0.9
        Level of the intervals.

    Attributes
    ----------
    predicted, observed, low, high, count : array of shape (n_bins,)
        Per bin, in order of increasing probability.
    caption : str
        Description of the figure.
    figure_, ax_ : Figure, Axes
        The matplotlib objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import GPClassifier, ReliabilityDisplay
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = GPClassifier().fit(X, X[:, 0] > 0)
    >>> int(ReliabilityDisplay.from_estimator(model).count.sum())
    60
    """

    figure_: Figure
    ax_: Axes

    def __init__(
        self, probability: np.ndarray, hit: np.ndarray, event: str, source: str, bins: int = 10, level: float = 0.9
    ) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        at_least("bins", bins, 1)
        self.probability, self.hit = np.asarray(probability, float), np.asarray(hit, bool)
        self.event, self.source, self.level = event, source, level
        # Rows of equal probability are in the same bin.
        edges = np.unique(np.quantile(self.probability, np.arange(1, bins) / bins))
        bin_of = np.searchsorted(edges, self.probability, side="right")
        every = np.bincount(bin_of, minlength=len(edges) + 1)
        full = every > 0
        self.count = every[full]
        self.predicted = np.bincount(bin_of, self.probability, len(every))[full] / self.count
        happened = np.bincount(bin_of, self.hit, len(every))[full]
        self.observed = happened / self.count
        from scipy import stats  # slow to import

        ends = [
            stats.binomtest(int(k), int(n)).proportion_ci(level, "wilson")
            for k, n in zip(happened, self.count, strict=True)
        ]
        self.low, self.high = np.array([e.low for e in ends]), np.array([e.high for e in ends])
        least, most = self.count.min(), self.count.max()
        each = f"{least}" if least == most else f"{least} to {most}"
        self.caption = (
            f"{len(self.probability)} rows ({source}), {each} per point; bars: {100 * level:.0f} % intervals of the "
            "observed share. Grey bars at the bottom: number of rows. Calibrated probabilities lie on the diagonal."
        )

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, y: Any = None, *, bins: int = 10, level: float = 0.9, positive: Any = None,
        ax: Any = None,
    ) -> Self:  # fmt: skip
        """Compute and plot the calibration curve of a fitted classifier or Pipeline with `predict_proba`.

        Parameters
        ----------
        model : GPClassifier, GPOrdinal or Pipeline
            The fitted model.
        X : array of shape (n_rows, n_columns), default=None
            Test rows; None for leave-one-out predictions of the training rows.
        y : array of shape (n_rows,), default=None
            The labels of the test rows.
        bins : int, default=10
            Number of bins, each with about the same number of rows.
        level : float, default=0.9
            Level of the intervals.
        positive : label, default=None
            The class whose probability is drawn; None means the second of two classes, or the predicted class for
            more than two classes.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        """
        check_is_fitted(model)
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"Calibration needs class probabilities, which {type(model).__name__} does not predict.")
        table, labels, source = _predictions(model, X, y)
        classes = np.asarray(model.classes_)
        if positive is None and len(classes) > 2:
            hit = classes[np.argmax(table, axis=1)] == labels
            return cls(np.max(table, axis=1), hit, "the predicted class", source, bins, level).plot(ax)
        chosen = classes[1] if positive is None else positive
        if chosen not in classes:
            known = ", ".join(repr(c.item() if hasattr(c, "item") else c) for c in classes)
            raise ValueError(f"positive must be one of the classes {known}; got {positive!r}.")
        return cls(
            table[:, list(classes).index(chosen)], labels == chosen, f"{chosen}", source, bins, level
        ).plot(ax)  # fmt: skip

    def plot(self, ax: Any = None) -> Self:
        """Draw the calibration curve.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        """
        from matplotlib import pyplot

        own = ax is None
        if own:
            ax = pyplot.subplots(figsize=(4.8, 5.6), layout="constrained")[1]
        heights, edges = np.histogram(self.probability, np.linspace(0, 1, 21))
        ax.bar(
            edges[:-1], 0.12 * heights / heights.max(), width=0.05, align="edge", color="0.85", edgecolor="0.6",
            hatch="//", label="rows",
        )  # fmt: skip
        ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle="--", label="calibrated")
        ends = np.maximum([self.observed - self.low, self.high - self.observed], 0.0)
        ax.errorbar(self.predicted, self.observed, ends, fmt="o", capsize=3, color="C0", label="observed")
        ax.set(
            xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel=f"predicted probability of {self.event}",
            ylabel="observed share", title="Calibration",
        )  # fmt: skip
        ax.legend(fontsize="small", loc="upper left")
        self.ax_, self.figure_ = ax, ax.figure
        if own:
            self.figure_.supxlabel(wrapped(self.caption, 68), fontsize=8)
        return self


def _predictions(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """Return class probabilities, observed labels, and the source of the rows."""
    if (X is None) != (y is None):
        raise ValueError("Give both X and y for new rows, or neither for the leave-one-out predictions.")
    if X is not None:
        return np.asarray(model.predict_proba(X)), np.asarray(y), "new rows"
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if not hasattr(last, "loo_"):
        raise ValueError(f"{type(last).__name__} has no leave-one-out predictions here; give X and y of new rows.")
    return last.loo_.probability, np.asarray(model.classes_)[last._y], "leave-one-out"
