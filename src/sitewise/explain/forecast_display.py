"""Plot forecasts: the last observations, the expected values and prediction intervals, one panel per series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sitewise.checks import at_least
from sitewise.explain.effect_display import given_axes, wrapped
from sitewise.explain.forecasts import LEVELS, Forecast, forecast, series_of, time_column
from sitewise.explain.table_columns import explained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 6  # series that are drawn
PAST_PER_FUTURE = 3  # observations that are drawn, per time of the forecast
_SHADES = (0.45, 0.25, 0.15)  # from the narrowest interval to the widest


class ForecastDisplay:
    """Forecast of one or several series with prediction intervals, after the last observations.

    Use `from_estimator`.

    Parameters
    ----------
    forecast : Forecast
        The forecast.
    past : dict
        The training rows per series: (times, values).
    label : str, default="y"
        The label of the vertical axis.

    Attributes
    ----------
    caption : str
        Description of the figure.
    figure_, axes_ : Figure, array of Axes
        The matplotlib objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import ForecastDisplay, GPRegressor
    >>> from sitewise.parts import Season, Series
    >>> t = np.arange(48.0)
    >>> counts = np.round(6 + 4 * np.sin(2 * np.pi * t / 12))
    >>> model = GPRegressor(likelihood="poisson", structure=[Series(0), Season(0, period=12)]).fit(t[:, None], counts)
    >>> display = ForecastDisplay.from_estimator(model, 12)
    >>> float(display.forecast.time[0])
    48.0
    """

    figure_: Figure
    axes_: np.ndarray

    def __init__(self, forecast: Forecast, past: dict[str, tuple[np.ndarray, np.ndarray]], label: str = "y") -> None:
        self.forecast, self.past, self.label = forecast, past, label
        shown = list(dict.fromkeys(forecast.series)) or [""]
        self.series = shown[:MAX_PANELS]
        levels = " and ".join(f"{100 * level:g} %" for level in sorted(forecast.levels))
        left = f" {MAX_PANELS} of {len(shown)} series are drawn." if len(shown) > MAX_PANELS else ""
        self.caption = f"Dots: training rows; line: expected value; bands: {levels} prediction intervals.{left}"

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        horizon: int | None = None,
        *,
        times: Any = None,
        new: Any = None,
        levels: Any = LEVELS,
        past: int | None = None,
        ax: Any = None,
        **settings: Any,
    ) -> Self:
        """Compute and draw the forecast of a fitted model.

        Parameters
        ----------
        model : GPRegressor, GPClassifier, Pipeline or FormulaModel
            The fitted model.
        horizon, times, new, levels : as in forecast
            Which times to forecast, and the levels of the intervals.
        past : int, default=None
            The number of training times per series to draw; None means three per time of the forecast.
        ax : Axes or sequence of Axes, default=None
            One per series; None makes a figure.
        **settings
            Further arguments of `forecast`, such as time and exposure.
        """
        found = forecast(model, horizon, times=times, new=new, levels=levels, **settings)
        view = explained(model, cls.__name__)
        column, X = time_column(view, settings.get("time")), view.model._X
        at, names = column.shown(column.back(X[:, column.places[0]])), series_of(view, X)
        y = view.model._y if not hasattr(view.model, "_class_logs") else (view.model._y > 0).astype(float)
        ahead = len(found.mean) // max(1, len(set(found.series)))
        count = PAST_PER_FUTURE * ahead if past is None else at_least("past", past, 0)
        kept = {}
        for name in dict.fromkeys(found.series) or ("",):
            own = np.array([one == name for one in names]) if names else np.ones(len(X), bool)
            last = np.sort(np.argsort(at[own], kind="stable")[-count:] if count else np.empty(0, int))
            kept[name] = at[own][last], y[own][last]
        label = "probability" if hasattr(view.model, "_class_logs") else view.target
        return cls(found, kept, label).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw one panel per series.

        Parameters
        ----------
        ax : Axes or sequence of Axes, default=None
            One per series; None makes a figure.
        """
        given = given_axes(ax, len(self.series), "series", "series")
        axes = self._panels() if given is None else given
        for panel, name in zip(axes, self.series, strict=True):
            self._draw(panel, name)
        self.axes_, self.figure_ = axes, axes[0].figure
        if given is None:
            self.figure_.supxlabel(wrapped(self.caption, 100), fontsize=8)
        return self

    def _draw(self, panel: Axes, name: str) -> None:
        found = self.forecast
        own = np.array([one == name for one in found.series]) if found.series else np.ones(len(found.mean), bool)
        order = np.flatnonzero(own)[np.argsort(found.time[own], kind="stable")]
        times: Any = found.time[order]
        before, values = self.past.get(name, (found.time[:0], np.empty(0)))
        panel.plot(np.asarray(before), values, ".", color="black", markersize=3)
        for shade, k in zip(_SHADES, np.argsort(found.levels), strict=False):
            panel.fill_between(times, found.low[k][order], found.high[k][order], color="C0", alpha=shade, linewidth=0)
        panel.plot(times, found.mean[order], color="C0")
        panel.set(title=name, xlabel=found.name, ylabel=self.label)
        if found.time.dtype.kind == "M":
            panel.tick_params(axis="x", labelrotation=30)

    def _panels(self) -> np.ndarray:
        from matplotlib import pyplot

        across = 1 if len(self.series) == 1 else 2
        down = -(-len(self.series) // across)
        size = (7.4, 3.4) if across == 1 else (9.0, 2.6 * down + 0.4)
        figure, axes = pyplot.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
        for panel in axes.ravel()[len(self.series) :]:
            figure.delaxes(panel)
        return axes.ravel()[: len(self.series)]
