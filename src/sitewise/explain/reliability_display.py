"""Plot a calibration curve (reliability diagram) of a classifier, with binomial intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from sitewise.checks import at_least
from sitewise.explain.effect_display import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ReliabilityDisplay:
    """Observed shares against predicted probabilities, in bins with about the same number of rows.

    The interval of a share k/n is Wilson's, at the given level: if the model is calibrated, about this share of the
    intervals crosses the diagonal.

    Attributes
    ----------
    predicted, observed, low, high, count : per bin, in order of increasing probability
    probability, hit : per row: predicted probability of the event, and whether the event happened
    event : the class whose probability is drawn, or "the predicted class" for more than two classes
    caption : description of the figure
    figure_, ax_ : the matplotlib objects, after `plot`
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
        X, y : test rows; without them, leave-one-out predictions of the training rows are used
        bins : number of bins, each with about the same number of rows
        level : level of the intervals
        positive : the class whose probability is drawn; None means the second of two classes, or the predicted class
            for more than two classes

        Examples
        --------
        >>> ReliabilityDisplay.from_estimator(model, X_test, y_test)  # doctest: +SKIP
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
        """Draw the calibration curve on the given Axes, or in a new figure."""
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
