"""Stationary kernels: functions of the scaled squared distance d² = Σ_k ((x_k − x'_k)/ℓ_k)².

`lengthscale` is one number, or one per active column (ARD).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.kernels.base import Kernel, Pull
from sitewise.numerics import triangle
from sitewise.runtime import rowwise
from sitewise.runtime.engine import Array, cond, is_host, namespace, stop_gradient
from sitewise.types import ArrayField, module, positive, precedes, replace

_ELEMENTS = 16384  # of a matrix that one program computes
# Squared distances below this share of the squared norms are rounding errors and are set to zero.
_ROUNDING_SHARE = 1e-13
# Coordinates, in lengthscales, are clipped to this size: larger ones have squares that overflow, and infinity minus
# infinity would make the farthest rows the nearest.
_LARGEST = {8: 1e150, 4: 1e17}
# Where the squared norm of one row is this many times the median, subtracting norms leaves too few digits for the other
# rows.
_UNEVEN = {8: 1e6, 4: 1e3}


def squared_distances(A: Array, B: Array) -> Array:
    """|a_i − b_j|²; exactly 0 for equal rows.

    They are computed by one matrix product, with the median of B as the origin.  That loses digits where rows are far
    from the origin and near each other, or differ in a narrow column only: with one entry of 10⁸ in the table, two
    clusters far apart, or a column of 10⁹ beside one of 1, different rows would become equal.  In these cases
    differences are taken column by column.  B alone decides which formula is used, so that a prediction does not depend
    on the other rows of A.
    """
    size = A.dtype.itemsize
    xp = namespace(A, B)
    same = B is A
    A = xp.clip(A, -_LARGEST[size], _LARGEST[size])
    B = A if same else xp.clip(B, -_LARGEST[size], _LARGEST[size])
    # Medians of about a hundred rows: sorting all of them would take longer than the product.
    some = slice(None, None, max(1, B.shape[0] // 100))
    centre = stop_gradient(xp.median(B[some], axis=0))
    squares = stop_gradient((B - centre) ** 2)
    norms, columns = xp.sum(squares, axis=1), xp.max(squares, axis=0)
    narrowest = xp.min(xp.where(columns > 0, columns, xp.inf))
    uneven = xp.max(norms) > _UNEVEN[size] * xp.minimum(xp.median(norms[some]), 100 * narrowest)
    return cond(uneven, lambda: _by_column(A, B), lambda: _by_product(A - centre, B - centre))


def _by_product(A: Array, B: Array) -> Array:
    """|a|² + |b|² − 2ab.  Values below rounding are set to 0, else a row would have a distance of 1e-8 to its copy."""
    rows, columns = (A * A).sum(axis=1), (B * B).sum(axis=1)
    if is_host(A, B):
        d2 = (-2 * A) @ B.T
        d2 += rows[:, None]
        d2 += columns
        # Few entries are small, and each pass over the matrix counts.
        i, j = np.nonzero(d2 <= _ROUNDING_SHARE * (rows.max(initial=0.0) + columns.max(initial=0.0)))
        small = d2[i, j]
        d2[i, j] = np.where(small > _ROUNDING_SHARE * (rows[i] + columns[j]), small, 0.0)
        return d2
    norms = rows[:, None] + columns
    d2 = norms - 2 * A @ B.T
    tolerance = _ROUNDING_SHARE if d2.dtype == jnp.float64 else 1e-5
    return jnp.where(d2 > tolerance * norms, d2, 0.0)


def _by_column(A: Array, B: Array) -> Array:
    """Σ (a − b)².  A difference in the last digits counts as 0, since equal entries may be divided by ℓ in two ways."""
    xp = namespace(A, B)
    tolerance = 4 * xp.finfo(A.dtype).eps

    def add(total: Array, column: tuple[Array, Array]) -> tuple[Array, None]:
        a, b = column[0][:, None], column[1][None, :]
        apart = xp.abs(a - b) > tolerance * (xp.abs(a) + xp.abs(b))
        return total + xp.where(apart, (a - b) ** 2, 0.0), None

    none = xp.zeros((A.shape[0], B.shape[0]), A.dtype)
    if is_host(A, B):
        return functools.reduce(lambda total, column: add(total, column)[0], zip(A.T, B.T, strict=True), none)
    # The backward pass recomputes the differences of a column instead of storing them.
    return lax.scan(jax.checkpoint(add), none, (A.T, B.T))[0]


_rows: contextvars.ContextVar[tuple[Any, list[np.ndarray]]] = contextvars.ContextVar("rows", default=(None, []))


@contextlib.contextmanager
def same_rows(X: Any) -> Iterator[None]:
    """Distances between the rows of X are computed once until the end of the `with` block, in which X must not change.

    A kernel with one lengthscale only divides them.
    """
    token = _rows.set((X, []))
    try:
        yield
    finally:
        _rows.reset(token)


def _distances_of(X: np.ndarray) -> np.ndarray | None:
    """Squared distances between the rows of X, if X is that of `same_rows`."""
    rows, found = _rows.get()
    if rows is not X:
        return None
    if not found:
        found.append(squared_distances(X, X))
    return found[0]


def _distance(d2: Array) -> Array:
    """√d², with derivative 0 at 0."""
    if is_host(d2):
        return np.sqrt(d2)
    apart = d2 > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, d2, 1.0)), 0.0)


@module
class Stationary(Kernel):
    """variance · shape(d²).  Subclasses define `shape`, with shape(0) = 1.

    A kernel without further parameters whose `shape` also takes NumPy arrays may define `slope`; on the host it then
    needs no compiled program.
    """

    lengthscale: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def shape(self, d2: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define shape(d2).")

    def slope(self, d2: np.ndarray) -> np.ndarray:
        """The derivative of `shape` in d², on NumPy arrays; 0 where it has none."""
        raise NotImplementedError(f"{type(self).__name__} does not define slope(d2).")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if precedes(cls, "shape", "slope"):
            cls.slope = Stationary.slope  # type: ignore[method-assign] # that of a base class is not its derivative

    def pairs(self, A: Array, B: Array) -> Array:
        A, B = self._scaled(A, B)
        return self.variance * self.shape(squared_distances(A, B))

    def _scaled(self, A: Array, B: Array) -> tuple[Array, Array]:
        if jnp.shape(self.lengthscale) not in ((), (1,), (A.shape[1],)):
            raise ValueError(
                f"{type(self).__name__}: lengthscale has the shape {jnp.shape(self.lengthscale)} but there are "
                f"{A.shape[1]} columns; give one number, or one per column."
            )
        scaled = A / self.lengthscale
        return scaled, scaled if B is A else B / self.lengthscale

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        known = _distances_of(A) if B is A and np.size(self.lengthscale) == 1 else None
        A, B = self._scaled(A, B)
        d2 = squared_distances(A, B) if known is None else known / np.square(self.lengthscale)
        some = triangle.Lower(len(A)) if B is A else triangle.All(d2.shape)
        distances = some.pack(d2)
        values, pull_values = self._shape_with_pull(distances)

        def pull(bar: np.ndarray) -> Stationary:
            kernel, by_d2 = pull_values(some.pack_sum(bar))
            # d² = Σ_k (x_k − x'_k)²/ℓ_k², so that ∂d²/∂ℓ_k = −2 (its term k)/ℓ_k.
            shared = np.size(self.lengthscale) == 1
            terms = by_d2 @ distances if shared else _weighted_terms(some.unpack_sum(by_d2), A, B)
            by_lengthscale = -2 * terms / self.lengthscale
            return replace(kernel, lengthscale=np.reshape(by_lengthscale, np.shape(self.lengthscale)))

        return some.unpack(values), pull

    def _shape_with_pull(self, d2: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[Any, np.ndarray]]]:
        """variance · shape(d²), and its pullback to the kernel, the lengthscale apart, and to d²."""
        if type(self).slope is not Stationary.slope and len(jax.tree.leaves(self)) == 2:
            values = self.variance * self.shape(d2)

            def by_slope(bar: np.ndarray) -> tuple[Any, np.ndarray]:
                by_variance = np.reshape(bar @ values / self.variance, np.shape(self.variance))
                return replace(self, variance=by_variance), self.variance * bar * self.slope(d2)

            return values, by_slope
        # Without its shape the lengthscale does not make the program depend on the number of columns.
        plain = replace(self, lengthscale=np.float64(1.0))
        (values,), _ = rowwise.apply(_shape, None, plain, (d2,), _ELEMENTS)

        def by_program(bar: np.ndarray) -> tuple[Any, np.ndarray]:
            (by_d2,), sums = rowwise.apply(_shape_pull, None, plain, (bar, d2), _ELEMENTS)
            return jax.tree.unflatten(jax.tree.structure(plain), sums), by_d2

        return values, by_program

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)


def _shape(_: None, kernel: Stationary, rows: tuple[Array]) -> tuple[tuple[Array, ...], tuple[()]]:
    return (kernel.variance * kernel.shape(rows[0]),), ()


def _shape_pull(_: None, kernel: Stationary, rows: tuple[Array, Array]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The cotangents of d² and of the kernel."""
    bar, d2 = rows
    by_kernel, by_d2 = jax.vjp(lambda kernel, d2: kernel.variance * kernel.shape(d2), kernel, d2)[1](bar)
    return (by_d2,), tuple(jax.tree.leaves(by_kernel))


def _weighted_terms(weights: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Σ_ij weights_ij (a_ik − b_jk)² for each column k."""
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    centre = np.median(B, axis=0)
    A, B = A - centre, B - centre
    crossed = np.sum(A * (weights @ B), axis=0)
    return rows @ A**2 + columns @ B**2 - 2 * crossed


@module
class RBF(Stationary):
    """exp(−½ d²)."""

    def shape(self, d2: Array) -> Array:
        return namespace(d2).exp(-0.5 * d2)

    def slope(self, d2: np.ndarray) -> np.ndarray:
        return -0.5 * np.exp(-0.5 * d2)


@module
class Matern12(Stationary):
    """exp(−d)."""

    def shape(self, d2: Array) -> Array:
        return namespace(d2).exp(-_distance(d2))

    def slope(self, d2: np.ndarray) -> np.ndarray:
        d = np.sqrt(d2)
        return np.where(d > 0, -0.5 * np.exp(-d) / np.where(d > 0, d, 1.0), 0.0)


@module
class Matern32(Stationary):
    """(1 + √3 d) exp(−√3 d)."""

    def shape(self, d2: Array) -> Array:
        r = np.sqrt(3.0) * _distance(d2)
        return (1 + r) * namespace(r).exp(-r)

    def slope(self, d2: np.ndarray) -> np.ndarray:
        return np.where(d2 > 0, -1.5 * np.exp(-np.sqrt(3.0 * d2)), 0.0)


@module
class Matern52(Stationary):
    """(1 + √5 d + 5/3 d²) exp(−√5 d)."""

    def shape(self, d2: Array) -> Array:
        r = np.sqrt(5.0) * _distance(d2)
        return (1 + r * (1 + r / 3)) * namespace(r).exp(-r)

    def slope(self, d2: np.ndarray) -> np.ndarray:
        r = np.sqrt(5.0 * d2)
        return np.where(d2 > 0, (-5 / 6) * (1 + r) * np.exp(-r), 0.0)


@module
class RationalQuadratic(Stationary):
    """(1 + d²/(2α))^(−α), α = mixture."""

    mixture: ArrayField = positive(default=1.0)

    def shape(self, d2: Array) -> Array:
        return jnp.exp(-self.mixture * jnp.log1p(d2 / (2 * self.mixture)))


@module
class Periodic(Kernel):
    """variance · exp(−2 Σ_k sin²(π(x_k − x'_k)/p)/ℓ_k²).

    On the circle u(x) = (cos 2πx/p, sin 2πx/p), |u − u'|² = 4 sin²(π(x−x')/p), so that this is an RBF kernel in u.
    """

    lengthscale: ArrayField = positive(default=1.0)
    period: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def pairs(self, A: Array, B: Array) -> Array:
        def circle(X: Array) -> Array:
            angle = 2 * np.pi * X / self.period
            return jnp.concatenate([jnp.cos(angle) / self.lengthscale, jnp.sin(angle) / self.lengthscale], axis=1)

        return self.variance * jnp.exp(-0.5 * squared_distances(circle(A), circle(B)))

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)
