"""Map of a fitted function of two columns: mean, standard deviation and exceedance probability on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import ndtr

from sitewise.checks import at_least
from sitewise.explain.effect_display import given_axes, wrapped
from sitewise.explain.table_columns import Explained, TableColumn, explained
from sitewise.explain.term_effects import TermView, centred, map_grid, views_of_all_functions
from sitewise.explain.terms_display import MAX_TICKS, effect_label, gridded, multiplies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = ("mean", "sd", "exceedance")


class MapDisplay:
    """Map of a fitted function of two columns: its mean, its standard deviation, and where it exceeds a threshold.

    The map shows the difference from the average over the training rows, f(v) − Σ_r w_r f(x_r).  If the mean of y is
    exp(f), as for counts, it shows the factor exp(·) of the mean (relative risk).  Use `from_estimator`.

    Parameters
    ----------
    places : array of shape (n_places, 2)
        A grid; the second coordinate varies slowest.
    mean, sd : array of shape (n_places,)
        Mean and standard deviation of the effect on the latent scale.
    columns : tuple of two str
        The names of the coordinates.
    points : array of shape (n_rows, 2), default=None
        Places of the training rows, drawn as dots.
    factor : bool, default=False
        Whether the effect is shown as the factor exp(effect).
    above : float, default=None
        The threshold of the exceedance probability, on the scale that is shown; None means the average: 0, or 1 for
        factors.
    label : str, default="effect"
        What is shown.

    Attributes
    ----------
    exceedance : array of shape (n_places,)
        P(effect > threshold).
    caption : str
        Description of the figure.
    figure_, axes_ : Figure, array of Axes
        The matplotlib objects, after `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import GPRegressor, MapDisplay
    >>> from sitewise.parts import Map
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (80, 2))
    >>> model = GPRegressor(structure=Map((0, 1))).fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=80))
    >>> display = MapDisplay.from_estimator(model, grid=10, above=0.5)
    >>> display.exceedance.shape
    (100,)
    """

    figure_: Figure
    axes_: np.ndarray

    def __init__(
        self,
        places: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        columns: tuple[str, str],
        points: np.ndarray | None = None,
        factor: bool = False,
        above: float | None = None,
        label: str = "effect",
    ) -> None:
        self.places, self.mean, self.sd, self.columns = places, mean, sd, columns
        self.points, self.factor, self.label = points, factor, label
        self.above = above if above is not None else 1.0 if factor else 0.0
        if factor and not self.above > 0:
            raise ValueError(f"above must be a positive factor of the average, such as 2, got {above!r}.")
        threshold = np.log(self.above) if factor else self.above
        self.exceedance = ndtr((mean - threshold) / np.maximum(sd, np.finfo(float).tiny))
        shown = f"{label}, relative to the average of the training rows"
        self.caption = (
            f"{shown[0].upper()}{shown[1:]}; standard deviation"
            f"{' of its logarithm' if factor else ''}; probability of more than {self.above:g}."
        )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        columns: Sequence[Any] | None = None,
        *,
        grid: int = 50,
        above: float | None = None,
        panels: Sequence[str] = PANELS,
        ax: Any = None,
    ) -> Self:
        """Compute and draw the map of a fitted formula or estimator, or of a Pipeline.

        A model with a second formula has a map of one latent function: of the first function with a term of these two
        columns.  `TermsDisplay` draws the terms of both functions.

        Parameters
        ----------
        model : FormulaModel, GPClassifier, GPRegressor, GPOrdinal or Pipeline
            The fitted model: a formula, or an estimator with one latent function.
        columns : sequence of two str or int, default=None
            The two columns of the coordinates.  The map is the sum of all terms that depend on them only, or else the
            whole function, with all other columns held fixed at a typical row.  None means the first term of two
            columns of numbers.
        grid : int, default=50
            Places per axis, over the range of the training rows.
        above : float, default=None
            Threshold of the exceedance probability: an effect, or for counts and other models with a log link a factor,
            such as 2 for twice the average.  None means the average.  In a map of the second formula it is an effect.
        panels : sequence of str, default=("mean", "sd", "exceedance")
            What to draw.
        ax : Axes or sequence of Axes, default=None
            One per panel; None makes a figure.
        """
        at_least("grid", grid, 2)
        view = explained(model, cls.__name__)
        first, second, chosen, function = _chosen(view, columns)
        places, rows = map_grid(view, first, second, grid)
        mean, sd = centred(view.model, rows, chosen, function=function)
        seen = view.model._X[view.model._weight > 0]
        points = np.column_stack([c.back(seen[:, c.places[0]]) for c in (first, second)])
        likelihood = view.model._latents[0].model.likelihood
        factor = not function and multiplies(likelihood.one_function())
        label = "factor of the mean" if factor else effect_label(model)
        if function:
            label = f"effect on the {likelihood.functions[function]}"
        names = (first.name, second.name)
        return cls(places, mean, sd, names, np.unique(points, axis=0), factor, above, label).plot(ax, panels)

    def plot(self, ax: Any = None, panels: Sequence[str] = PANELS) -> Self:
        """Draw the maps.

        Parameters
        ----------
        ax : Axes or sequence of Axes, default=None
            One per panel; None makes a figure.
        panels : sequence of str, default=("mean", "sd", "exceedance")
            What to draw.
        """
        panels = [panels] if isinstance(panels, str) else list(panels)
        if not panels or set(panels) - set(PANELS):
            raise ValueError(f"panels must be some of {', '.join(map(repr, PANELS))}, got {panels!r}.")
        given = given_axes(ax, len(panels), "panels", "panel")
        axes = self._panels(len(panels)) if given is None else given
        for panel, what in zip(axes, panels, strict=True):
            self._draw(panel, what)
        for panel in axes if given is not None else axes[:1]:
            panel.set_ylabel(self.columns[1])
        self.axes_, self.figure_ = axes, axes[0].figure
        if given is None:
            self.figure_.supxlabel(wrapped(self.caption, 48 * len(axes)), fontsize=8)
        return self

    def _draw(self, panel: Axes, what: str) -> None:
        values, title, colours = {
            "mean": (np.exp(self.mean) if self.factor else self.mean, self.label, self._mean_colours()),
            "sd": (self.sd, "standard deviation", {"cmap": "viridis"}),
            "exceedance": (self.exceedance, f"P({'factor' if self.factor else 'effect'} > {self.above:g})",
                           {"cmap": "RdBu_r", "vmin": 0.0, "vmax": 1.0}),
        }[what]  # fmt: skip
        east, north, table = gridded(self.places, values)
        image = panel.pcolormesh(east, north, table, shading="nearest", rasterized=True, **colours)
        bar = panel.figure.colorbar(image, ax=panel, shrink=0.85)
        if what == "mean" and self.factor:
            _label_factors(bar, np.exp(self.mean))
        if self.points is not None:
            size = 3.0 if len(self.points) < 300 else 1.0
            panel.plot(*self.points.T, ".", color="black", markersize=size, alpha=0.5, linewidth=0)
        panel.set(title=title, xlabel=self.columns[0])
        panel.locator_params(axis="x", nbins=MAX_TICKS)
        panel.set_xlim(east[0], east[-1])
        panel.set_ylim(north[0], north[-1])

    def _mean_colours(self) -> dict[str, Any]:
        from matplotlib import colors

        most = float(np.max(np.abs(self.mean))) or 1.0
        if self.factor:
            return {"cmap": "RdBu_r", "norm": colors.LogNorm(np.exp(-most), np.exp(most))}
        return {"cmap": "RdBu_r", "vmin": -most, "vmax": most}

    def _panels(self, count: int) -> np.ndarray:
        from matplotlib import pyplot

        _, axes = pyplot.subplots(
            1, count, figsize=(3.5 * count + 0.4, 3.5), sharey=True, squeeze=False, layout="constrained"
        )
        return axes.ravel()


def _label_factors(bar: Any, values: np.ndarray) -> None:
    """Label a logarithmic colour bar with round factors."""
    most = float(np.max(np.abs(np.log(values))))
    steps = [1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0]
    inside = [s for s in steps if np.log(s) <= 1.001 * most]
    chosen = inside[-3:] if len(inside) > 3 else inside
    ticks = [*(1 / s for s in reversed(chosen)), 1.0, *chosen]
    bar.ax.minorticks_off()
    bar.set_ticks(ticks, labels=[f"{t:.2g}" for t in ticks])


def _chosen(
    view: Explained, columns: Sequence[Any] | None
) -> tuple[TableColumn, TableColumn, tuple[int, ...] | None, int]:
    """Return the two columns of the map, the numbers of its terms (None for all), and the number of its function."""
    each = views_of_all_functions(view)
    if columns is None:
        found = [one for one in each if len(one.numbers) == 2 and not one.linear]
        if found:
            first, second = found[0].numbers
        elif len(view.columns) == 2 and all(column.levels is None for column in view.columns):
            first, second = view.columns
        else:
            raise ValueError(
                "The model has no term of two columns of numbers; name the two columns, as in "
                "columns=('longitude', 'latitude')."
            )
    else:
        if isinstance(columns, str) or len(columns) != 2:
            raise ValueError(f"columns must name two columns, as in ('longitude', 'latitude'), got {columns!r}.")
        first, second = (view.column(one) for one in columns)
    if first == second or any(column.levels is not None for column in (first, second)):
        raise ValueError(f"A map needs two different columns of numbers, got {first.name} and {second.name}.")
    pair = {first.name, second.name}
    own = [one for one in each if _used(one) and _used(one) <= pair]
    both = [one for one in own if {column.name for column in one.numbers} == pair]
    touched = [one for one in each if _used(one) & pair]
    if not touched:
        raise ValueError(f"No term of the model depends on {first.name} or {second.name}; name two other columns.")
    function = (both or own or touched)[0].function
    return first, second, tuple(one.index for one in own if one.function == function) or None, function


def _used(one: TermView) -> set[str]:
    """Return the names of the columns of a term."""
    return {column.name for column in (*one.numbers, *one.levels, *one.linear)}
