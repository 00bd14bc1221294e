"""Parts on which every row loads: an intercept, linear effects, a season.  Their variables form the dense border."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import kernels
from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array, namespace
from sitewise.checks import at_least, one_number, one_per_column
from sitewise.kernels.units import Units, input_units
from sitewise.numerics.quadrature.special_functions import harmonic_shares
from sitewise.parts.base import Layout, Loads, Part
from sitewise.types import ArrayField, module, positive, replace, static

MAX_MEAN = 10.0  # standard deviations of a column; beyond them Linear asks for a centre
LEAST_SHARE = 1e-20  # of a harmonic's variance; below it the harmonic is zero to all digits


class DenseLayout(Layout):
    """Independent variables of the variances of the part, on which all rows load."""

    dense: ClassVar[bool] = True

    def __init__(self, weight: np.ndarray) -> None:
        self.size = weight.shape[1]
        self.weight = weight
        self.index = np.broadcast_to(np.arange(self.size), weight.shape)
        self.i = self.j = self.border = np.arange(self.size)

    def precision(self, part: Any) -> tuple[np.ndarray, float]:
        var = part.variances_of(self.size)[0]
        return 1.0 / var, -float(np.sum(np.log(var)))

    def pull(self, part: Any, bar: np.ndarray, log_det: float) -> Any:
        var, pull = part.variances_of(self.size)
        return pull(-bar / var**2 - log_det / var)

    def loads(self, part: Any, A: np.ndarray) -> Loads:
        weight = np.asarray(part.columns_of(A))
        return Loads(np.broadcast_to(np.arange(self.size), weight.shape), weight, np.zeros(len(A)))


@module
class Constant(Part):
    """Intercept: one number that is added to all rows.

    Parameters
    ----------
    columns : tuple, default=()
        None are used.
    variance : float, default=10.0
        The prior variance; held fixed unless trained by name.
    """

    variance: ArrayField = positive(default=10.0, train=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name is None:
            object.__setattr__(self, "name", "offset")

    def check(self, columns: int) -> None:
        super().check(columns)
        one_number(self, "variance")

    def pairs(self, A: Array, B: Array) -> Array:
        return self.variance * namespace(A, B).ones((A.shape[0], B.shape[0]), A.dtype)

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)

    def columns_of(self, A: Array) -> Array:
        return namespace(A).ones((A.shape[0], 1), A.dtype)

    def variances_of(self, size: int) -> tuple[np.ndarray, Any]:
        """Return the variance per variable, and its pullback."""
        return np.reshape(self.variance, 1), lambda bar: replace(
            self, variance=np.reshape(bar, np.shape(self.variance))
        )

    def layout(self, A: np.ndarray) -> Layout:
        return DenseLayout(self.columns_of(A))


@module
class Linear(Part):
    """Linear effects (fixed effects, regression coefficients) with Gaussian priors: f(x) = Σ_j b_j (x_j − c_j).

    Parameters
    ----------
    columns : int, str or tuple, default=()
        The columns.
    variance : float or array of shape (n_columns,), default=1.0
        The prior variance of the coefficients: one number for all columns, or one per column; learned.
    centre : float or sequence of float, default=None
        The numbers c_j, one for all columns or one per column; None is zero.  With the means of the columns, an
        intercept is the function at a typical row, so that its prior does not shrink the slope of a column such as a
        year, whose mean is far from zero.
    whitening : array of shape (n_columns, n_columns), default=None
        A matrix W: f(x) = Σ_k b_k z_k with z = Wᵀ (x − c), and `variance` is that of the b_k.  The coefficients of the
        columns have the covariance W diag(variance) Wᵀ.  None is the identity.  With uncorrelated z of variance 1 the
        prior does not depend on the units, origins and correlations of the columns.
    """

    variance: ArrayField = positive(default=1.0)
    centre: Any = static(default=None)
    whitening: Any = static(default=None)

    def __post_init__(self) -> None:
        if self.whitening is not None:
            object.__setattr__(self, "whitening", tuple(map(tuple, np.asarray(self.whitening, float).tolist())))
        if self.centre is not None:
            numbers = np.ravel(np.asarray(self.centre, float))
            if not np.all(np.isfinite(numbers)):
                raise ValueError(f"Linear: centre must be finite numbers, got {self.centre!r}.")
            object.__setattr__(self, "centre", tuple(numbers.tolist()))
        super().__post_init__()

    def check(self, columns: int) -> None:
        if not self.columns:
            raise ValueError("Linear needs the columns that have linear effects, as in Linear((0, 1)).")
        super().check(columns)
        one_per_column(self, len(self.used), "variance")
        if self.centre is not None and len(self.centre) not in (1, len(self.used)):
            raise ValueError(
                f"Linear: centre has {len(self.centre)} numbers but there are {len(self.used)} columns; give one "
                "number, or one per column."
            )
        if self.whitening is not None and np.shape(self.whitening) != 2 * (len(self.used),):
            raise ValueError(
                f"Linear: whitening has the shape {np.shape(self.whitening)} but there are {len(self.used)} columns; "
                "give a square matrix with one row per column."
            )

    def doubt(self, A: np.ndarray) -> str:
        spread = np.std(A, axis=0)
        far = (spread > 0) & (np.abs(np.mean(A, axis=0)) > MAX_MEAN * spread)
        if self.centre is not None or not np.any(far):
            return ""
        name = self.used[int(np.argmax(far))]
        return (
            f"Linear: the mean of column {name!r} is more than {MAX_MEAN:.0f} standard deviations from zero, and the "
            "prior of an intercept would shrink its slope; give centre=, such as the mean of the column."
        )

    def linear_dims(self, columns: int) -> tuple[int, ...]:
        return tuple(range(columns))

    def units(self, ranges: np.ndarray, path: str) -> Units:
        return {} if self.whitening is not None else input_units(kernels.Linear(self.variance), ranges, path)

    def pairs(self, A: Array, B: Array) -> Array:
        return (self.columns_of(A) * self.variance) @ self.columns_of(B).T

    def diag(self, A: Array) -> Array:
        return (self.columns_of(A) ** 2 * self.variance).sum(axis=1)

    def columns_of(self, A: Array) -> Array:
        xp = namespace(A)
        moved = A if self.centre is None else A - xp.asarray(self.centre, dtype=A.dtype)
        return moved if self.whitening is None else moved @ xp.asarray(self.whitening, dtype=A.dtype)

    def variances_of(self, size: int) -> tuple[np.ndarray, Any]:
        def pull(bar: np.ndarray) -> Linear:
            whole = np.sum(bar) if np.size(self.variance) == 1 else bar
            return replace(self, variance=np.reshape(whole, np.shape(self.variance)))

        return np.broadcast_to(np.ravel(self.variance), (size,)), pull

    def layout(self, A: np.ndarray) -> Layout:
        return DenseLayout(np.array(self.columns_of(A), float))


@module
class Season(Part):
    """Season of a known period: a periodic function of a column of time, as a series of cosines.

    The covariance is the `Periodic` kernel without its harmonics above number J, Σ_{j≤J} variance q_j cos(2πjΔ/period),
    with q_0 = e^{−1/ℓ²} I_0(1/ℓ²) and q_j = 2 e^{−1/ℓ²} I_j(1/ℓ²).

    Parameters
    ----------
    columns : int or str, default=()
        The column of time.
    period : float, default=1.0
        The period, in the unit of the column; not learned.
    harmonics : int, default=7
        J, the number of cosines.
    lengthscale : float, default=1.0
        The smaller, the more details a season may have; learned.
    variance : float, default=1.0
        The variance of the season; learned.
    """

    period: float = static(default=1.0)
    harmonics: int = static(default=7)
    lengthscale: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def __post_init__(self) -> None:
        at_least("Season: harmonics", self.harmonics, 1)
        if not (isinstance(self.period, int | float | np.number) and 0 < self.period < np.inf):
            raise ValueError(f"Season: period must be a positive number, got {self.period!r}.")
        object.__setattr__(self, "period", float(self.period))
        super().__post_init__()

    def check(self, columns: int) -> None:
        if len(self.used) != 1:
            raise ValueError("Season needs one column of time, as in Season(0, period=12).")
        super().check(columns)
        one_number(self, "lengthscale")
        one_number(self, "variance")

    def columns_of(self, A: Array) -> Array:
        """Return 1 and the cosines and sines of every harmonic."""
        xp = namespace(A)
        turns = A[:, :1] / self.period
        angle = 2 * np.pi * (turns - xp.floor(turns)) * xp.arange(1, self.harmonics + 1)
        return xp.concatenate([xp.ones_like(A[:, :1]), xp.cos(angle), xp.sin(angle)], axis=1)

    def _shares(self) -> Array:
        return _variances(self.harmonics, self.variance, self.lengthscale)

    def pairs(self, A: Array, B: Array) -> Array:
        return (self.columns_of(A) * self._shares()) @ self.columns_of(B).T

    def diag(self, A: Array) -> Array:
        return (self.columns_of(A) ** 2 * self._shares()).sum(axis=1)

    def variances_of(self, size: int) -> tuple[np.ndarray, Any]:
        numbers, row = (self.variance, self.lengthscale), np.ones((1, 1))
        (values,), _ = rowwise.apply(_values, self.harmonics, numbers, (row,), 1)

        def pull(bar: np.ndarray) -> Season:
            _, (variance, lengthscale) = rowwise.apply(_slopes, self.harmonics, numbers, (bar[:, None],), 1)
            return replace(self, variance=variance, lengthscale=lengthscale)

        return values[:, 0], pull

    def layout(self, A: np.ndarray) -> Layout:
        return DenseLayout(self.columns_of(A))


def _variances(harmonics: int, variance: Array, lengthscale: Array) -> Array:
    """Return the variance of every column of a season."""
    shares = harmonic_shares(jnp.reshape(lengthscale, ()) ** -2.0, harmonics)
    each = jnp.concatenate([shares, shares[1:]])
    return jnp.reshape(variance, ()) * jnp.maximum(each, LEAST_SHARE)


def _values(harmonics: int, numbers: tuple[Array, Array], rows: tuple[Array]) -> tuple[tuple[Array], tuple[()]]:
    return (_variances(harmonics, *numbers)[:, None] * rows[0],), ()


def _slopes(harmonics: int, numbers: tuple[Array, Array], rows: tuple[Array]) -> tuple[tuple[()], tuple[Array, ...]]:
    return (), jax.vjp(lambda *both: _variances(harmonics, *both), *numbers)[1](rows[0][:, 0])
