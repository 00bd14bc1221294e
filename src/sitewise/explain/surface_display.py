"""Contour plot of the evidence over lengthscale and standard deviation around a fitted optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sitewise.checks import at_least
from sitewise.explain.effect_display import wrapped
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.table_columns import parts_of
from sitewise.fitted.function import FittedFunction
from sitewise.kernels import Shrunk, Stationary
from sitewise.learning.nested import Nested
from sitewise.means import Constant, Zero
from sitewise.parameters import walk
from sitewise.surface import evidence_surface
from sitewise.types import replace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REGION_90 = 2.3  # nats: half the 90 % quantile of χ² with two degrees of freedom
_LEVELS = (0.5, REGION_90, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


class SurfaceDisplay:
    """Contour plot of the evidence over lengthscale and standard deviation of the kernel, with the fitted optimum.

    Use `from_estimator`.

    Parameters
    ----------
    lengthscale, deviation : array
        Lengthscales (or factors of several lengthscales) and standard deviations along the axes.
    evidence : array of shape (n_deviations, n_lengthscales)
        In nats, in the units of y; NaN where inference did not converge.
    fitted : tuple of two float
        (lengthscale or 1, standard deviation) of the fitted kernel.
    name : str, default="evidence"
        The name of the evidence.
    factor : bool, default=False
        Whether the axis is a common factor of several lengthscales.

    Attributes
    ----------
    caption : str
        Description of the figure.
    figure_, ax_ : Figure, Axes
        The matplotlib objects, after `plot`.
    """

    figure_: Figure
    ax_: Axes

    def __init__(
        self, lengthscale: np.ndarray, deviation: np.ndarray, evidence: np.ndarray, fitted: tuple[float, float],
        name: str = "evidence", factor: bool = False,
    ) -> None:  # fmt: skip
        self.lengthscale, self.deviation, self.evidence = lengthscale, deviation, evidence
        self.fitted, self.name, self.factor = fitted, name, factor
        held = "Ratios of the lengthscales, noise" if factor else "Noise"
        self.caption = (
            f"Contours: {name} evidence below its maximum, in nats; the thick contour is an approximate 90 % region. "
            f"Star: fitted values. {held} and mean are held fixed."
        )

    @classmethod
    def from_estimator(cls, model: Any, *, points: int = 15, reach: float = 1.5, ax: Any = None) -> Self:
        """Compute and draw the evidence of a fitted estimator, or of a Pipeline, with one latent function.

        Needs a full GP with a stationary kernel, as the default kernel is.  With several lengthscales the axis is a
        common factor.  Other hyperparameters keep their fitted values.

        Parameters
        ----------
        model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
            The fitted model.
        points : int, default=15
            Values along each axis; the evidence is computed points² times.
        reach : float, default=1.5
            Distance from the fitted values to the ends of the axes, in natural logarithms.
        ax : Axes, default=None
            Where to draw; None makes a figure.
        """
        estimator, _ = parts_of(model, cls.__name__)
        check_is_fitted(estimator)
        at_least("points", points, 3)
        latent = _drawable(estimator)
        kernel, method = latent.model.kernels, estimator._learning()
        assert isinstance(kernel, Stationary | Shrunk)
        learner: Any = method.learner
        pair = learner.pair(latent.model) if isinstance(learner, Nested) else learner
        # With several lengthscales the inputs are divided by them, and the axis is a common factor.
        scale = np.asarray(kernel.lengthscale)
        many = scale.ndim > 0
        columns = slice(None) if kernel.active_dims is None else list(kernel.active_dims)
        rows = replace(latent.data, X=latent.data.X[:, columns] / (scale if many else 1.0))
        start = 1.0 if many else float(scale), float(np.sqrt(kernel.variance))
        log_l, log_s = (np.linspace(np.log(at) - reach, np.log(at) + reach, points) for at in start)
        found = evidence_surface(
            pair.inference, pair.evidence, rows, log_l, log_s, likelihood=latent.model.likelihood,
            kernel=type(_stationary(kernel)), mean=latent.model.prior.mean,
        )  # fmt: skip
        values = np.where(found.code == 0, found.evidence, np.nan)
        values -= float(np.sum(estimator._weight * estimator._log_unit(estimator._y, estimator._side)))
        return cls(np.exp(log_l), np.exp(log_s), values, start, pair.evidence.name, many).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the contours.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw; None makes a figure.
        """
        from matplotlib import pyplot, ticker

        own = ax is None
        if own:
            ax = pyplot.subplots(figsize=(5.4, 5.0), layout="constrained")[1]
        below = np.nanmax(self.evidence) - self.evidence
        levels = [level for level in _LEVELS if level < np.nanmax(below)] or [float(np.nanmax(below)) / 2 or 1.0]
        filled = [0.0, *levels, max(float(np.nanmax(below)), levels[-1] * 1.01)]
        ax.contourf(self.lengthscale, self.deviation, below, filled, cmap="Greys", alpha=0.6)
        widths = [2.2 if level == REGION_90 else 0.8 for level in levels]
        lines = ax.contour(self.lengthscale, self.deviation, below, levels, colors="black", linewidths=widths)
        ax.clabel(lines, fmt="%g", fontsize=8)
        failed = ~np.isfinite(self.evidence)
        if np.any(failed):
            at = np.argwhere(failed)
            ax.plot(self.lengthscale[at[:, 1]], self.deviation[at[:, 0]], "x", color="black", label="no result")
        ax.plot(*self.fitted, "*", markersize=14, color="white", markeredgecolor="black", label="fitted")
        ax.set(
            xscale="log", yscale="log", title="Evidence, nats below its maximum",
            xlabel="factor of all lengthscales" if self.factor else "lengthscale",
            ylabel="standard deviation of the function",
        )  # fmt: skip
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(ticker.NullFormatter())
        ax.legend(fontsize="small", loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        if own:
            self.figure_.supxlabel(wrapped(self.caption, 80), fontsize=8)
        return self


def _stationary(kernel: Any) -> Any:
    """Return the base of the default kernel, or the kernel itself."""
    return kernel.base if isinstance(kernel, Shrunk) else kernel


def _drawable(model: Fitted) -> FittedFunction:
    """Return the latent function; raise ValueError if its evidence has no two axes."""
    latents = model._latents
    if len(latents) > 1 or latents[0].model.likelihood.latents > 1:
        raise ValueError("A surface shows one latent function; fit two classes, such as one class against the rest.")
    if model._averages_kernels():
        raise ValueError("A surface shows one kernel; fit with kernel='shrunk' instead of an average of kernels.")
    (latent,) = latents
    if not latent.has_sites:
        raise ValueError("A surface shows an approximate evidence, which mcmc does not have; fit with method='hybrid'.")
    prior = latent.model.prior
    if not prior.one_matrix:
        raise ValueError("A surface needs a full GP; fit with structure='full', on fewer rows.")
    if not isinstance(prior.mean, Zero | Constant):
        raise ValueError("A surface has no axis for the mean; fit with mean=means.Constant() or without mean.")
    kernel = _stationary(prior.kernel)
    others = [p.name for p, _ in walk(kernel) if p.name not in ("lengthscale", "variance")]
    if not isinstance(kernel, Stationary) or others:
        raise ValueError(
            "A surface has the axes lengthscale and variance; fit with kernel='shrunk' or kernel=kernels.RBF(), "
            f"Matern12(), Matern32() or Matern52(), without groups, not {type(kernel).__name__}."
        )
    return latent
