"""Stationary kernels: functions of the scaled squared distance d² = Σ_k ((x_k − x'_k)/ℓ_k)².

`lengthscale` is one number, or one per active column (ARD).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.checks import one_number, one_per_column
from sitewise.kernels.base import Kernel, Pull
from sitewise.kernels.distances import distances_of, middle, squared_distances
from sitewise.numerics.dense import triangle
from sitewise.types import ArrayField, module, positive, precedes, replace

_PIECE_ELEMENTS = 16384  # entries of a matrix that are computed at once, within the CPU cache


def _distance(d2: Array) -> Array:
    """Return √d², with derivative 0 at 0."""
    if is_host(d2):
        return np.sqrt(d2)
    apart = d2 > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, d2, 1.0)), 0.0)


@module
class Stationary(Kernel):
    """Base class of stationary kernels, variance · shape(d²).  Subclasses define `shape`, with shape(0) = 1.

    d² = Σ_k ((x_k − x'_k)/ℓ_k)² is the scaled squared distance.  A kernel that has no further parameters, and whose
    `shape` also takes NumPy arrays, may define `slope`.  It is then evaluated on the host without a compiled program.

    Parameters
    ----------
    lengthscale : float or array of shape (n_columns,), default=1.0
        About how far x must change for f to change: one number for all columns, or one per column (ARD); learned.
    variance : float, default=1.0
        The variance of f; learned.
    """

    lengthscale: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def shape(self, d2: Array) -> Array:
        """Return the correlation at the scaled squared distance d²."""
        raise NotImplementedError(f"{type(self).__name__} must define shape(d2).")

    def slope(self, d2: np.ndarray) -> np.ndarray:
        """Return the derivative of `shape` in d², on NumPy arrays; 0 where it does not exist."""
        raise NotImplementedError(f"{type(self).__name__} does not define slope(d2).")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if precedes(cls, "shape", "slope"):
            cls.slope = Stationary.slope  # type: ignore[method-assign] # the inherited slope is not its derivative

    def check(self, columns: int) -> None:
        super().check(columns)
        one_per_column(self, self.seen(columns), "lengthscale")
        one_number(self, "variance")

    def pairs(self, A: Array, B: Array) -> Array:
        A, B = self._scaled(A, B)
        return self.variance * self.shape(squared_distances(A, B))

    def _scaled(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Return A and B in units of the lengthscale."""
        one_per_column(self, A.shape[1], "lengthscale")
        scaled = A / self.lengthscale
        return scaled, scaled if B is A else B / self.lengthscale

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        known = distances_of(A, self.lengthscale) if B is A and np.size(self.lengthscale) == 1 else None
        A, B = self._scaled(A, B)
        d2 = squared_distances(A, B) if known is None else known
        packing = triangle.Lower(len(A)) if B is A else triangle.All(d2.shape)
        distances = packing.pack(d2)
        # If B is not A, the values overwrite the distances, and the pullback computes the distances again: writing
        # another matrix of this size to new memory takes longer.
        values = self._values(distances, None if B is A else distances)

        def pull(bar: np.ndarray) -> Stationary:
            shared = np.size(self.lengthscale) == 1
            entries = distances if B is A else squared_distances(A, B).ravel()
            out = None if B is A or shared else entries
            kernel, by_d2 = self._pull_values(entries, values, packing.pack_sum(bar), out)
            # d² = Σ_k (x_k − x'_k)²/ℓ_k², so ∂d²/∂ℓ_k = −2 (term k of d²)/ℓ_k.
            terms = by_d2 @ entries if shared else _weighted_terms(packing.unpack_sum(by_d2), A, B)
            by_lengthscale = -2 * terms / self.lengthscale
            return replace(kernel, lengthscale=np.reshape(by_lengthscale, np.shape(self.lengthscale)))

        return packing.unpack(values), pull

    def at_differences(self, squared: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return the kernel for pairs of rows with the squared differences (columns, pairs), and its pullback."""
        scale = np.broadcast_to(1.0 / self.lengthscale**2, (len(squared),))
        d2 = scale @ squared
        values = self._values(d2)

        def pull(bar: np.ndarray) -> Stationary:
            kernel, by_d2 = self._pull_values(d2, values, bar)
            shared = np.size(self.lengthscale) == 1
            terms = by_d2 @ d2 if shared else scale * (squared @ by_d2)
            return replace(kernel, lengthscale=np.reshape(-2 * terms / self.lengthscale, np.shape(self.lengthscale)))

        return values, pull

    def pairs_pull_rows(self, A: np.ndarray, B: np.ndarray, bar: np.ndarray) -> np.ndarray:
        """Return the cotangent of B by two matrix products.

        d² = Σ_k (a_k − b_k)²/ℓ_k² and ∂d²_ij/∂b_jk = −2 (a_ik − b_jk)/ℓ_k².  Rows are centred first: far from the
        origin the two products would cancel.
        """
        A, B = self._scaled(A, B)
        centre = np.median(B, axis=0)
        A, B = A - centre, B - centre
        d2 = squared_distances(A, B)
        entries = d2.ravel()
        weights = np.reshape(self._pull_values(entries, self._values(entries), bar.ravel())[1], d2.shape)
        return 2 * (weights.sum(axis=0)[:, None] * B - weights.T @ A) / self.lengthscale

    @property
    def _has_slope(self) -> bool:
        """Whether the kernel is evaluated on NumPy arrays by `shape` and `slope`."""
        return type(self).slope is not Stationary.slope and len(jax.tree.leaves(self)) == 2

    def _without_lengthscale(self) -> Stationary:
        """Return the kernel with a scalar lengthscale, so that programs do not depend on the number of columns."""
        return replace(self, lengthscale=np.float64(1.0))

    def _values(self, d2: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return variance · shape(d²) of a vector d²; `out` may be d² itself."""
        if self._has_slope:
            return _in_pieces(lambda d2: self.variance * self.shape(d2), d2, out=out)
        return rowwise.apply(_shape, None, self._without_lengthscale(), (d2,), _PIECE_ELEMENTS)[0][0]

    def _pull_values(
        self, d2: np.ndarray, values: np.ndarray, bar: np.ndarray, out: np.ndarray | None = None
    ) -> tuple[Any, np.ndarray]:
        """Return the cotangents of the kernel without its lengthscale, and of d², given the cotangent of `values`.

        `values` is `_values(d2)`.  `out`, for the cotangent of d², may be d² itself.
        """
        if self._has_slope:
            by_variance = np.reshape(bar @ values / self.variance, np.shape(self.variance))
            by_d2 = _in_pieces(lambda bar, d2: self.variance * bar * self.slope(d2), bar, d2, out=out)
            return replace(self, variance=by_variance), by_d2
        plain = self._without_lengthscale()
        (by_d2,), sums = rowwise.apply(_shape_pull, None, plain, (bar, d2), _PIECE_ELEMENTS)
        return jax.tree.unflatten(jax.tree.structure(plain), sums), by_d2

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)


def _in_pieces(function: Callable[..., np.ndarray], *vectors: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Apply an elementwise function piece by piece: the temporaries of a piece stay in the CPU cache."""
    size = len(vectors[0])
    out = np.empty(size) if out is None else out
    for at in range(0, size, _PIECE_ELEMENTS):
        piece = slice(at, at + _PIECE_ELEMENTS)
        out[piece] = function(*(vector[piece] for vector in vectors))
    return out


def _shape(_: None, kernel: Stationary, rows: tuple[Array]) -> tuple[tuple[Array, ...], tuple[()]]:
    """Return variance · shape(d²)."""
    return (kernel.variance * kernel.shape(rows[0]),), ()


def _shape_pull(_: None, kernel: Stationary, rows: tuple[Array, Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the cotangents of d² and of the kernel."""
    bar, d2 = rows
    by_kernel, by_d2 = jax.vjp(lambda kernel, d2: kernel.variance * kernel.shape(d2), kernel, d2)[1](bar)
    return (by_d2,), tuple(jax.tree.leaves(by_kernel))


def _weighted_terms(weights: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return Σ_ij weights_ij (a_ik − b_jk)² of every column k."""
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    centre = middle(B)
    A, B = A - centre, B - centre
    crossed = np.sum(A * (weights @ B), axis=0)
    return rows @ A**2 + columns @ B**2 - 2 * crossed


@module
class RBF(Stationary):
    """Squared exponential (Gaussian, RBF) kernel for very smooth functions, exp(−½ d²)."""

    def shape(self, d2: Array) -> Array:
        return namespace(d2).exp(-0.5 * d2)

    def slope(self, d2: np.ndarray) -> np.ndarray:
        return -0.5 * np.exp(-0.5 * d2)


@module
class Matern12(Stationary):
    """Matérn kernel of smoothness ½ (exponential kernel), exp(−d)."""

    def shape(self, d2: Array) -> Array:
        return namespace(d2).exp(-_distance(d2))

    def slope(self, d2: np.ndarray) -> np.ndarray:
        d = np.sqrt(d2)
        return np.where(d > 0, -0.5 * np.exp(-d) / np.where(d > 0, d, 1.0), 0.0)


@module
class Matern32(Stationary):
    """Matérn kernel of smoothness 3/2, (1 + √3 d) exp(−√3 d)."""

    def shape(self, d2: Array) -> Array:
        r = np.sqrt(3.0) * _distance(d2)
        return (1 + r) * namespace(r).exp(-r)

    def slope(self, d2: np.ndarray) -> np.ndarray:
        return np.where(d2 > 0, -1.5 * np.exp(-np.sqrt(3.0 * d2)), 0.0)


@module
class Matern52(Stationary):
    """Matérn kernel of smoothness 5/2, (1 + √5 d + 5/3 d²) exp(−√5 d)."""

    def shape(self, d2: Array) -> Array:
        r = np.sqrt(5.0) * _distance(d2)
        return (1 + r * (1 + r / 3)) * namespace(r).exp(-r)

    def slope(self, d2: np.ndarray) -> np.ndarray:
        r = np.sqrt(5.0 * d2)
        return np.where(d2 > 0, (-5 / 6) * (1 + r) * np.exp(-r), 0.0)


@module
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, a mixture of RBF kernels of different lengthscales: (1 + d²/(2α))^(−α).

    Parameters
    ----------
    mixture : float, default=1.0
        α; the limit α → ∞ is the RBF kernel; learned.
    """

    mixture: ArrayField = positive(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        one_number(self, "mixture")

    def shape(self, d2: Array) -> Array:
        return jnp.exp(-self.mixture * jnp.log1p(d2 / (2 * self.mixture)))


@module
class Periodic(Kernel):
    """Periodic kernel for seasons, variance · exp(−2 Σ_k sin²(π(x_k − x'_k)/p)/ℓ_k²).

    On the circle u(x) = (cos 2πx/p, sin 2πx/p), |u − u'|² = 4 sin²(π(x−x')/p): this is an RBF kernel in u.

    Parameters
    ----------
    lengthscale : float or array of shape (n_columns,), default=1.0
        Smaller values mean more detail within a period; learned.
    period : float or array of shape (n_columns,), default=1.0
        The period p, in the units of x; learned.
    variance : float, default=1.0
        The variance of f; learned.
    """

    lengthscale: ArrayField = positive(default=1.0)
    period: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        one_per_column(self, self.seen(columns), "lengthscale", "period")
        one_number(self, "variance")

    def pairs(self, A: Array, B: Array) -> Array:
        def circle(X: Array) -> Array:
            angle = 2 * np.pi * X / self.period
            return jnp.concatenate([jnp.cos(angle) / self.lengthscale, jnp.sin(angle) / self.lengthscale], axis=1)

        return self.variance * jnp.exp(-0.5 * squared_distances(circle(A), circle(B)))

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)
