"""Partial dependence plots: the average prediction per column with credible bands, as a scikit-learn display."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sitewise.explain.effects import Effect, effect, shown_value
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.importance import total_shares
from sitewise.explain.table_columns import Explained, TableColumn, explained, frequent_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEFAULT_COLUMNS = 6  # drawn if no columns are named
MAX_PANELS_PER_ROW = 3
MAX_LEVELS = 20  # of a group that are drawn, the most frequent
MAX_LABEL_CHARACTERS = 28  # of the names of all levels of a panel; longer labels are slanted
MAX_SLANTED_LABELS = 8  # more labels are upright
_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D")


class EffectDisplay:
    """Partial dependence plots: the average prediction as a function of one column of the table, one panel per column.

    Categorical columns and groups have a point with a bar per level; of more than twenty levels, the most frequent.
    Use `from_estimator`.

    Parameters
    ----------
    effects : sequence of Effect
        One per panel.
    shares : sequence of float
        Total share of the variance per column (`Importance.total`).
    ticks : sequence of arrays
        Deciles per column; empty for levels and for one period of a season.
    label : str
        The label of the vertical axis.
    note : str, default=""
        A sentence for the end of the caption.

    Attributes
    ----------
    caption : str
        Description of the figure.
    figure_, axes_ : Figure, array of Axes
        The matplotlib objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import EffectDisplay, GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> model = GPRegressor().fit(X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=40))
    >>> display = EffectDisplay.from_estimator(model)
    >>> len(display.effects)
    2
    """

    figure_: Figure
    axes_: np.ndarray

    def __init__(
        self,
        effects: Sequence[Effect],
        shares: Sequence[float],
        ticks: Sequence[np.ndarray],
        label: str,
        note: str = "",
    ) -> None:
        self.effects, self.shares, self.ticks, self.label = list(effects), list(shares), list(ticks), label
        first = self.effects[0]
        parts = [
            f"{label[0].upper()}{label[1:]} over {first.rows} rows, with one column changed and all other columns held "
            f"fixed; band: {100 * first.level:.0f} % of the posterior per value"
        ]
        if any(len(t) for t in self.ticks):
            parts.append("ticks at the bottom: deciles of the column")
        if any(one.term == "" for one in self.effects):
            parts.append("explains: its share of the variance of the fitted function")
        self.caption = "; ".join([*parts, *([note] if note else [])]) + "."

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any = None,
        features: Sequence[Any] | str | int | None = None,
        *,
        response: bool | None = None,
        level: float = 0.9,
        ax: Any = None,
        **settings: Any,
    ) -> Self:
        """Compute and draw the effects of a fitted estimator, or of a fitted Pipeline that ends in one.

        Parameters
        ----------
        model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
            The fitted model.
        X : array of shape (n_rows, n_columns), default=None
            Rows to average over, as for `model.predict`; None for the training rows.
        features : str, int or sequence of them, default=None
            Names or numbers of columns of the table; None means the (at most six) most important columns.  A pair
            ("day", "season") is the effect of a term of the kernel, and ("day", ["season", "trend"]) of a sum of terms.
        response : bool, default=None
            True for average predictions, False for the latent function (`effect`).
        level : float, default=0.9
            Level of the bands.
        ax : Axes or sequence of Axes, default=None
            One per column; None makes a figure.
        **settings
            Further arguments of `effect`, such as points and rows.
        """
        view = explained(model, cls.__name__)
        total = total_shares(view, X)
        if features is None:
            features = [int(j) for j in np.argsort(-total, kind="stable")[:DEFAULT_COLUMNS]]
        listed = [features] if isinstance(features, str | int | np.integer) else list(features)
        pairs = [one if isinstance(one, tuple) and len(one) == 2 else (one, None) for one in listed]
        if not pairs:
            raise ValueError("features is empty; name at least one column, or leave it out for the most important.")
        if response is None and any(term is not None for _, term in pairs):
            response = False  # all panels have the scale of the terms
        effects, ticks, shares, cut = [], [], [], []
        for feature, term in pairs:
            column = view.column(feature)
            own = settings if term is None else {**settings, "term": term}
            if "grid" not in own and column.levels is not None and len(column.levels) > MAX_LEVELS:
                own = {**own, "grid": column.levels[frequent_levels(view, column, MAX_LEVELS)]}
                cut.append(f"{column.name}: the {MAX_LEVELS} most frequent of {len(column.levels)} levels")
            effects.append(effect(view, feature, X, response=response, level=level, **own))
            ticks.append(_deciles(view, column, effects[-1]))
            shares.append(float(total[view.number(feature)]))
        return cls(effects, shares, ticks, _label(view.model, effects), "; ".join(cut)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : Axes or sequence of Axes, default=None
            One per column; None makes a figure.
        """
        given = given_axes(ax, len(self.effects), "columns", "column")
        axes = self._panels() if given is None else given
        for k, (panel, one) in enumerate(zip(axes, self.effects, strict=True)):
            _draw(panel, one)
            ticks = self.ticks[k]
            if not one.listed and len(ticks):
                at_bottom = panel.get_xaxis_transform()
                panel.plot(ticks, np.zeros(len(ticks)), "|", color="black", markersize=10, transform=at_bottom)
            title = f"{one.name}: {one.term}" if one.term else f"{one.name}: explains {100 * self.shares[k]:.0f} %"
            panel.set(xlabel=one.name, title=title)
            if given is not None or k % _across(len(axes)) == 0:
                panel.set_ylabel(self.label)
        self.axes_, self.figure_ = axes, axes[0].figure
        outputs = self.effects[0].outputs
        if len(outputs) > 1 and given is not None:
            axes[0].legend(fontsize="small")
        elif len(outputs) > 1:
            self.figure_.legend(
                *axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=min(len(outputs), 5)
            )
        if given is None:
            self.figure_.supxlabel(wrapped(self.caption, 54 * _across(len(axes))), fontsize=8)
        return self

    def _panels(self) -> np.ndarray:
        from matplotlib import pyplot

        count = len(self.effects)
        across = _across(count)
        down = -(-count // across)
        figure, axes = pyplot.subplots(
            down, across, figsize=(3.4 * across + 0.8, 2.9 * down + 0.6), sharey=True, squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for panel in axes.ravel()[count:]:
            figure.delaxes(panel)
        return axes.ravel()[:count]


def given_axes(ax: Any, count: int, what: str, one: str) -> np.ndarray | None:
    """Return the given axes as an array; None if none were given.  `what` and `one` name the panels for the error."""
    if ax is None:
        return None
    found = np.atleast_1d(np.asarray(ax, object)).ravel()
    if len(found) != count:
        raise ValueError(f"There are {count} {what} to draw and {len(found)} axes; give one per {one}, or none.")
    return found


def _deciles(view: Explained, column: TableColumn, one: Effect) -> np.ndarray:
    """Return the deciles of a column in the units of the table; empty for levels, and for one period of a season."""
    if one.listed:
        return np.empty(0)
    found = column.back(np.quantile(view.model._X[:, column.places[0]], np.arange(1, 10) / 10))
    return found if one.term == "" or (found[0] >= one.grid[0] and found[-1] <= one.grid[-1]) else np.empty(0)


def _draw(panel: Axes, one: Effect) -> None:
    at = np.arange(len(one.grid), dtype=float) if one.listed else one.grid
    curves = (a[:, None] if a.ndim == 1 else a for a in (one.mean, one.low, one.high))
    for k, (mean, low, high) in enumerate(zip(*(c.T for c in curves), strict=True)):
        colour, label = f"C{k}", one.outputs[k]
        if one.listed:
            shift = 0.15 * (k - (len(one.outputs) - 1) / 2)
            bar = np.maximum([mean - low, high - mean], 0.0)
            marker = _MARKERS[k % len(_MARKERS)]
            panel.errorbar(at + shift, mean, bar, fmt=marker, capsize=4, color=colour, label=label)
        else:
            panel.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
            panel.plot(at, np.column_stack([low, high]), color=colour, linewidth=0.6, linestyle=":")
            panel.plot(at, mean, color=colour, linestyle=_STYLES[k % len(_STYLES)], label=label)
    if one.listed:
        names = [shown_value(value) for value in one.grid]
        panel.set_xticks(at, names)
        if len(names) > MAX_SLANTED_LABELS:
            panel.tick_params(axis="x", labelrotation=90, labelsize="x-small")
        elif sum(map(len, names)) > MAX_LABEL_CHARACTERS:
            for text in panel.get_xticklabels():
                text.set(rotation=40, ha="right", rotation_mode="anchor")
    if not one.response:
        panel.axhline(0, color="grey", linewidth=0.6)


def _label(model: Fitted, effects: list[Effect]) -> str:
    """Return the label of the vertical axis; effects of terms and of the whole function may be side by side."""
    one = effects[0]
    if not all(other.response for other in effects):
        simple = model._latents[0].model.likelihood.location_scale
        return "average effect on y" if simple else "average effect on the latent function"
    if len(one.outputs) > 1:
        return "average probability"
    if one.outputs[0]:
        return f"average probability of {one.outputs[0]}"
    return f"average {model._response_in_words()}"


def _across(count: int) -> int:
    """Return the number of panels per row."""
    return 2 if count == 4 else min(MAX_PANELS_PER_ROW, count)


def wrapped(text: str, width: int) -> str:
    """Break a caption into lines of at most `width` characters."""
    return "\n".join(textwrap.wrap(text, width))
