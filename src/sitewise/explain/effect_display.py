"""Partial dependence plots: the average prediction per column with credible bands, as a scikit-learn display."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sitewise.estimators.encoder import TableEncoder
from sitewise.explain.effects import Effect, column_of, effect
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.importance import total_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEFAULT_COLUMNS = 6  # drawn if no columns are named
MAX_PANELS_PER_ROW = 3
_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D")


def parts_of(model: Any, what: str) -> tuple[Fitted, Any]:
    """Return the estimator, and the preceding steps of a fitted Pipeline, or None."""
    steps = getattr(model, "steps", None)
    last = model if steps is None else steps[-1][1]
    if not isinstance(last, Fitted):
        raise ValueError(
            f"{what} is for a fitted estimator of sitewise, or a Pipeline that ends in one; got {type(last).__name__}."
        )
    return last, None if steps is None or len(steps) == 1 else model[:-1]


def _named(model: Fitted, before: Any) -> tuple[list[str], Callable[[int, np.ndarray], np.ndarray]]:
    """Return the estimator's column names, and a function that converts values to the units of the pipeline's input.

    Units are recovered after a TableEncoder, and if every step keeps the columns (a scaler); otherwise values stay in
    the units of the estimator.
    """
    if before is None:
        return model._column_names(), lambda column, values: values
    try:
        names = [str(name) for name in before.get_feature_names_out()]
    except (AttributeError, ValueError):
        names = model._column_names()
    first = before.steps[0][1]
    if isinstance(first, TableEncoder) and len(before.steps) == 1:
        centre, scale = first._units()
        return names, lambda column, values: centre[column] + scale[column] * values
    given = getattr(first, "feature_names_in_", [f"x{i}" for i in range(getattr(first, "n_features_in_", 0))])
    if names != [str(name) for name in given] or not hasattr(before, "inverse_transform"):
        return names, lambda column, values: values

    def back(column: int, values: np.ndarray) -> np.ndarray:
        rows = np.repeat(np.mean(model._X, axis=0)[None], len(values), axis=0)
        rows[:, column] = values
        return np.asarray(before.inverse_transform(rows), float)[:, column]

    return names, back


class EffectDisplay:
    """The average prediction as a function of one column, one panel per column.

    Attributes
    ----------
    effects : one `Effect` per panel
    shares : total share of the variance per column (`Importance.total`)
    ticks : deciles per column
    caption : description of the figure
    figure_, axes_ : the matplotlib objects, after `plot`
    """

    figure_: Figure
    axes_: np.ndarray

    def __init__(
        self, effects: Sequence[Effect], shares: Sequence[float], ticks: Sequence[np.ndarray], label: str
    ) -> None:
        self.effects, self.shares, self.ticks, self.label = list(effects), list(shares), list(ticks), label
        first = self.effects[0]
        self.caption = (
            f"{label[0].upper()}{label[1:]} over {first.rows} rows, with one column changed and all other columns held "
            f"fixed; band: {100 * first.level:.0f} % of the posterior per value; ticks at the bottom: deciles of the "
            "column; explains: its share of the variance of the fitted function."
        )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any = None,
        features: Sequence[str | int] | str | int | None = None,
        *,
        response: bool = True,
        level: float = 0.9,
        ax: Any = None,
        **settings: Any,
    ) -> Self:
        """Compute and draw the effects of a fitted estimator, or of a fitted Pipeline that ends in one.

        Parameters
        ----------
        model : GPClassifier, GPRegressor or Pipeline
        X : rows to average over, as for `model.predict`; None means the training rows
        features : names or numbers of columns; None means the (at most six) most important columns
        response : average predictions, or the latent function (see `effect`)
        level : level of the bands
        ax : an Axes, or one per column; None makes a figure
        settings : further arguments of `effect`, such as points and rows

        Examples
        --------
        >>> EffectDisplay.from_estimator(model, features=["age", "income"])  # doctest: +SKIP
        """
        estimator, before = parts_of(model, cls.__name__)
        names, back = _named(estimator, before)
        rows = X if X is None or before is None else before.transform(X)
        total = total_shares(estimator, rows)
        if features is None:
            columns = [int(j) for j in np.argsort(-total, kind="stable")[:DEFAULT_COLUMNS]]
        else:
            listed = [features] if isinstance(features, str | int | np.integer) else list(features)
            columns = [names.index(f) if f in names else column_of(estimator, f) for f in listed]
        effects, ticks = [], []
        for j in columns:
            one = effect(estimator, j, rows, response=response, level=level, **settings)
            effects.append(dataclasses.replace(one, name=names[j], grid=back(j, one.grid)))
            ticks.append(back(j, np.quantile(estimator._X[:, j], np.arange(1, 10) / 10)))
        shares = [float(total[j]) for j in columns]
        return cls(effects, shares, ticks, _label(estimator, effects[0])).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the panels; `ax` is an Axes, or one per column."""
        given = None if ax is None else np.atleast_1d(np.asarray(ax, object)).ravel()
        if given is not None and len(given) != len(self.effects):
            raise ValueError(
                f"There are {len(self.effects)} columns to draw and {len(given)} axes; give one per column, or none."
            )
        axes = self._panels() if given is None else given
        for k, (panel, one) in enumerate(zip(axes, self.effects, strict=True)):
            _draw(panel, one)
            if not one.listed:
                at_bottom = panel.get_xaxis_transform()
                panel.plot(self.ticks[k], np.zeros(9), "|", color="black", markersize=10, transform=at_bottom)
            panel.set(xlabel=one.name, title=f"{one.name}: explains {100 * self.shares[k]:.0f} %")
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


def _draw(panel: Axes, one: Effect) -> None:
    curves = (a[:, None] if a.ndim == 1 else a for a in (one.mean, one.low, one.high))
    for k, (mean, low, high) in enumerate(zip(*(c.T for c in curves), strict=True)):
        colour, label = f"C{k}", one.outputs[k]
        if one.listed:
            shift = 0.04 * np.ptp(one.grid) * (k - (len(one.outputs) - 1) / 2)
            ends = np.maximum([mean - low, high - mean], 0.0)
            marker = _MARKERS[k % len(_MARKERS)]
            panel.errorbar(one.grid + shift, mean, ends, fmt=marker, capsize=4, color=colour, label=label)
            panel.set_xticks(one.grid)
        else:
            panel.fill_between(one.grid, low, high, color=colour, alpha=0.15, linewidth=0)
            panel.plot(one.grid, np.column_stack([low, high]), color=colour, linewidth=0.6, linestyle=":")
            panel.plot(one.grid, mean, color=colour, linestyle=_STYLES[k % len(_STYLES)], label=label)
    if not one.response:
        panel.axhline(0, color="grey", linewidth=0.6)


def _label(model: Fitted, one: Effect) -> str:
    """Return the label of the vertical axis."""
    if not one.response:
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
