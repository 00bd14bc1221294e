"""Stationary kernels: functions of the scaled squared distance d² = Σ_k ((x_k − x'_k)/ℓ_k)².

`lengthscale` is one number, or one per active column (ARD).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.kernels.base import Kernel
from sitewise.types import ArrayField, module, positive

# Squared distances below this share of the squared norms are rounding errors and are set to zero.
_ROUNDING_SHARE = 1e-13
# Coordinates, in lengthscales, are clipped to this size: larger ones have squares that overflow, and infinity minus
# infinity would make the farthest rows the nearest.
_LARGEST = {8: 1e150, 4: 1e17}
# Where the squared norm of one row is this many times the median, subtracting norms leaves too few digits for the other
# rows.
_UNEVEN = {8: 1e6, 4: 1e3}


def squared_distances(A: jax.Array, B: jax.Array) -> jax.Array:
    """|a_i − b_j|²; exactly 0 for equal rows.

    They are computed by one matrix product, with the median of B as the origin.  That loses digits where rows are far
    from the origin and near each other, or differ in a narrow column only: with one entry of 10⁸ in the table, two
    clusters far apart, or a column of 10⁹ beside one of 1, different rows would become equal.  In these cases
    differences are taken column by column.  B alone decides which formula is used, so that a prediction does not depend
    on the other rows of A.
    """
    size = A.dtype.itemsize
    A, B = jnp.clip(A, -_LARGEST[size], _LARGEST[size]), jnp.clip(B, -_LARGEST[size], _LARGEST[size])
    # Medians of about a hundred rows: sorting all of them would take longer than the product.
    some = slice(None, None, max(1, B.shape[0] // 100))
    centre = lax.stop_gradient(jnp.median(B[some], axis=0))
    squares = lax.stop_gradient((B - centre) ** 2)
    norms, columns = jnp.sum(squares, axis=1), jnp.max(squares, axis=0)
    narrowest = jnp.min(jnp.where(columns > 0, columns, jnp.inf))
    uneven = jnp.max(norms) > _UNEVEN[size] * jnp.minimum(jnp.median(norms[some]), 100 * narrowest)
    return lax.cond(uneven, lambda: _by_column(A, B), lambda: _by_product(A - centre, B - centre))


def _by_product(A: jax.Array, B: jax.Array) -> jax.Array:
    """|a|² + |b|² − 2ab.  Values below rounding are set to 0, else a row would have a distance of 1e-8 to its copy."""
    norms = jnp.sum(A * A, axis=1)[:, None] + jnp.sum(B * B, axis=1)[None, :]
    d2 = norms - 2 * A @ B.T
    tolerance = _ROUNDING_SHARE if d2.dtype == jnp.float64 else 1e-5
    return jnp.where(d2 > tolerance * norms, d2, 0.0)


def _by_column(A: jax.Array, B: jax.Array) -> jax.Array:
    """Σ (a − b)².  A difference in the last digits counts as 0, since equal entries may be divided by ℓ in two ways."""
    tolerance = 4 * jnp.finfo(A.dtype).eps

    @jax.checkpoint  # the backward pass recomputes the differences of a column instead of storing them
    def add(total: jax.Array, column: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        a, b = column[0][:, None], column[1][None, :]
        apart = jnp.abs(a - b) > tolerance * (jnp.abs(a) + jnp.abs(b))
        return total + jnp.where(apart, (a - b) ** 2, 0.0), None

    return lax.scan(add, jnp.zeros((A.shape[0], B.shape[0]), A.dtype), (A.T, B.T))[0]


def _distance(d2: jax.Array) -> jax.Array:
    """√d², with derivative 0 at 0."""
    apart = d2 > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, d2, 1.0)), 0.0)


@module
class Stationary(Kernel):
    """variance · shape(d²).  Subclasses define `shape`, with shape(0) = 1."""

    lengthscale: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def shape(self, d2: jax.Array) -> jax.Array:
        raise NotImplementedError(f"{type(self).__name__} must define shape(d2).")

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        if jnp.shape(self.lengthscale) not in ((), (1,), (A.shape[1],)):
            raise ValueError(
                f"{type(self).__name__}: lengthscale has the shape {jnp.shape(self.lengthscale)} but there are "
                f"{A.shape[1]} columns; give one number, or one per column."
            )
        return self.variance * self.shape(squared_distances(A / self.lengthscale, B / self.lengthscale))

    def diag(self, A: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.variance, A.dtype), A.shape[:1])


@module
class RBF(Stationary):
    """exp(−½ d²)."""

    def shape(self, d2: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * d2)


@module
class Matern12(Stationary):
    """exp(−d)."""

    def shape(self, d2: jax.Array) -> jax.Array:
        return jnp.exp(-_distance(d2))


@module
class Matern32(Stationary):
    """(1 + √3 d) exp(−√3 d)."""

    def shape(self, d2: jax.Array) -> jax.Array:
        r = np.sqrt(3.0) * _distance(d2)
        return (1 + r) * jnp.exp(-r)


@module
class Matern52(Stationary):
    """(1 + √5 d + 5/3 d²) exp(−√5 d)."""

    def shape(self, d2: jax.Array) -> jax.Array:
        r = np.sqrt(5.0) * _distance(d2)
        return (1 + r + r * r / 3) * jnp.exp(-r)


@module
class RationalQuadratic(Stationary):
    """(1 + d²/(2α))^(−α), α = mixture."""

    mixture: ArrayField = positive(default=1.0)

    def shape(self, d2: jax.Array) -> jax.Array:
        return jnp.exp(-self.mixture * jnp.log1p(d2 / (2 * self.mixture)))


@module
class Periodic(Kernel):
    """variance · exp(−2 Σ_k sin²(π(x_k − x'_k)/p)/ℓ_k²).

    On the circle u(x) = (cos 2πx/p, sin 2πx/p), |u − u'|² = 4 sin²(π(x−x')/p), so that this is an RBF kernel in u.
    """

    lengthscale: ArrayField = positive(default=1.0)
    period: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        def circle(X: jax.Array) -> jax.Array:
            angle = 2 * np.pi * X / self.period
            return jnp.concatenate([jnp.cos(angle) / self.lengthscale, jnp.sin(angle) / self.lengthscale], axis=1)

        return self.variance * jnp.exp(-0.5 * squared_distances(circle(A), circle(B)))

    def diag(self, A: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.variance, A.dtype), A.shape[:1])
