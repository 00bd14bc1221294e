"""Plot all terms of a fitted sum on one page: curves, groups, coefficients and maps with their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sitewise.explain.effect_display import MAX_PANELS_PER_ROW, given_axes, wrapped
from sitewise.explain.table_columns import TableColumn, explained
from sitewise.explain.term_effects import TermEffect, term_effects
from sitewise.process.precision import working_precision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NAMED_LEVELS = 20  # more levels are drawn by rank, without names
MAX_NAME_CHARACTERS = 18
MAX_TICKS = 4  # of the first coordinate of a map, whose numbers may be long
MAX_BANDS = 3  # curves of more series are drawn without bands
_STYLES = ("-", "--", "-.", ":")


class TermsDisplay:
    """All terms of a fitted sum on one page, with credible bands on the latent scale.

    A function of a column is a curve, a group has one point with a bar per level, linear effects are coefficients with
    bars, and a function of two columns is a map of its mean.  Curves and groups average to zero over the training rows.
    Use `from_estimator`.

    Parameters
    ----------
    effects : sequence of TermEffect
        One per panel.
    label : str, default="effect on the latent function"
        The label of the axes of effects.

    Attributes
    ----------
    caption : str
        Description of the figure.
    figure_, axes_ : Figure, array of Axes
        The matplotlib objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import GPRegressor, TermsDisplay
    >>> from sitewise.parts import Levels, Series
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(0, 10, 60), rng.integers(0, 4, 60)])
    >>> y = np.sin(X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=60)
    >>> model = GPRegressor(structure=[Series(0), Levels(1)]).fit(X, y)
    >>> [one.kind for one in TermsDisplay.from_estimator(model).effects]
    ['curve', 'levels']
    """

    figure_: Figure
    axes_: np.ndarray

    def __init__(self, effects: Sequence[TermEffect], label: str = "effect on the latent function") -> None:
        self.effects, self.label = list(effects), label
        kinds = {one.kind for one in self.effects}
        band = f"{100 * self.effects[0].level:.0f} % of the posterior per value"
        shown = " and ".join(dict.fromkeys(one.label or label for one in self.effects))
        words = [f"{shown[0].upper()}{shown[1:]} per term; bands and bars: {band}"]
        if kinds - {"coefficients"}:
            words.append("terms average to zero over the training rows")
        if "map" in kinds:
            words.append("maps show the mean")
        words += [one.note for one in self.effects if one.note]
        self.caption = "; ".join(words) + "."

    @classmethod
    def from_estimator(cls, model: Any, *, level: float = 0.9, ax: Any = None) -> Self:
        """Compute and draw the terms of a fitted model.

        Parameters
        ----------
        model : FormulaModel, GPClassifier, GPRegressor, GPOrdinal or Pipeline
            The fitted model: a formula, or a sum of parts or kernels with one latent function.
        level : float, default=0.9
            Level of the bands.
        ax : Axes or sequence of Axes, default=None
            One per term; None makes a figure.
        """
        return cls(term_effects(model, level), effect_label(model)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the panels.

        Parameters
        ----------
        ax : Axes or sequence of Axes, default=None
            One per term; None makes a figure.
        """
        given = given_axes(ax, len(self.effects), "terms", "term")
        axes = self._panels() if given is None else given
        for panel, one in zip(axes, self.effects, strict=True):
            draw_term(panel, one, one.label or self.label)
            panel.set_title(one.name)
        self.axes_, self.figure_ = axes, axes[0].figure
        if given is None:
            self.figure_.supxlabel(wrapped(self.caption, 54 * _panels_per_row(len(axes))), fontsize=8)
        return self

    def _panels(self) -> np.ndarray:
        from matplotlib import pyplot

        count = len(self.effects)
        across = _panels_per_row(count)
        down = -(-count // across)
        figure, axes = pyplot.subplots(
            down, across, figsize=(3.6 * across + 0.6, 3.0 * down + 0.6), squeeze=False, layout="constrained"
        )
        for panel in axes.ravel()[count:]:
            figure.delaxes(panel)
        return axes.ravel()[:count]


def _panels_per_row(count: int) -> int:
    return 2 if count == 4 else min(MAX_PANELS_PER_ROW, count)


def effect_label(model: Any) -> str:
    """Return the label of effects on the latent scale: on the target, the log of the mean or the latent function."""
    view = explained(model, "TermsDisplay")
    likelihood = view.model._latents[0].model.likelihood.one_function()
    if likelihood.location_scale:
        return f"effect on {view.target}"
    return "effect on the log of the mean" if multiplies(likelihood) else "effect on the latent function"


def multiplies(likelihood: Any) -> bool:
    """Return whether adding c to f multiplies the mean of y by exp(c): a log link."""
    try:
        with working_precision():
            at = np.asarray(likelihood.response_mean(np.array([-1.0, 0.0, 1.0, 2.0])), float)
    except (NotImplementedError, TypeError, ValueError):
        return False
    return bool(at.shape == (4,) and np.all(at > 0) and np.allclose(np.diff(np.log(at)), 1.0, atol=1e-6))


def draw_term(panel: Axes, one: TermEffect, label: str) -> None:
    """Draw the effect of one term."""
    if one.kind == "curve":
        _draw_curve(panel, one, label)
    elif one.kind == "map":
        _draw_map(panel, one, label)
    else:
        _draw_bars(panel, one, label)


def _draw_curve(panel: Axes, one: TermEffect, label: str) -> None:
    values: Any = TableColumn("", (), dates=one.dates).shown(one.values)
    for k, (mean, low, high) in enumerate(zip(*map(np.atleast_2d, (one.mean, one.low, one.high)), strict=True)):
        name = one.series[k] if one.series else None
        if len(one.series) <= MAX_BANDS:
            panel.fill_between(values, low, high, color=f"C{k}", alpha=0.15, linewidth=0)
        panel.plot(values, mean, color=f"C{k}", linestyle=_STYLES[k % len(_STYLES)], label=name)
    panel.axhline(0, color="grey", linewidth=0.6)
    panel.set(xlabel=one.columns[0], ylabel=label)
    if one.dates:
        panel.tick_params(axis="x", labelrotation=30)
    if one.series:
        panel.legend(fontsize="x-small")


def _draw_bars(panel: Axes, one: TermEffect, label: str) -> None:
    """Draw effects as points with bars: coefficients in the order of the columns, levels by their mean."""
    order = np.arange(len(one.mean))[::-1] if one.kind == "coefficients" else np.argsort(one.mean, kind="stable")
    at = np.arange(len(order))
    bars = np.maximum([one.mean - one.low, one.high - one.mean], 0.0)[:, order]
    few = len(order) <= MAX_NAMED_LEVELS
    panel.errorbar(
        one.mean[order], at, xerr=bars, fmt="o", markersize=4 if few else 2, capsize=3 if few else 0, color="C0",
        elinewidth=1.2 if few else 0.6,
    )  # fmt: skip
    panel.axvline(0, color="grey", linewidth=0.6)
    named = [str(one.values[k]) for k in order]
    cut = [n if len(n) <= MAX_NAME_CHARACTERS else n[: MAX_NAME_CHARACTERS - 1] + "…" for n in named]
    panel.set_yticks(at if few else [], cut if few else [])
    where = "coefficient" if one.kind == "coefficients" else label
    panel.set(xlabel=where, ylim=(-0.6, len(order) - 0.4))
    if not few:
        panel.set_ylabel(f"{len(order)} levels of {' × '.join(one.columns)}, by rank")


def _draw_map(panel: Axes, one: TermEffect, label: str) -> None:
    east, north, values = gridded(one.values, one.mean)
    most = float(np.max(np.abs(values))) or 1.0
    image = panel.pcolormesh(east, north, values, cmap="RdBu_r", vmin=-most, vmax=most, shading="nearest")
    panel.figure.colorbar(image, ax=panel, label=label)
    panel.locator_params(axis="x", nbins=MAX_TICKS)
    panel.set(xlabel=one.columns[0], ylabel=one.columns[1])


def gridded(places: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the two axes of a grid of places, and the values as a matrix with one row per second coordinate."""
    east, north = (np.unique(places[:, k]) for k in (0, 1))
    return east, north, np.reshape(values, (len(north), len(east)))
