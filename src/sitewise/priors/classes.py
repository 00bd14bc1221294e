"""L1. The prior of softmax models: one latent function per class, all with the same kernel, at every row.

Sites, means and variances have the classes on their first axis and the rows on their last: (C, n).  The sites of a row
see f_c − s, with s the shift that suits them best, because softmax does not know a common shift (see
`raced.condition_on_raced_sites`).  `Marginals.mean` and `.var` are of g_c = f_c − s, `.cross` holds the covariance of
the g of each row, (n, C, C).  Cost O(C n³) for a conditioning and O((Cn)²) memory for Newton's method and gradients.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from sitewise import means, raced
from sitewise.kernels import Kernel
from sitewise.priors.full import Marginals
from sitewise.sites import Sites
from sitewise.types import fixed, module, static


@module
class ClassPrior:
    kernel: Kernel = fixed()
    jitter: float = static(default=0.0)

    exact: ClassVar[bool] = True  # no residual variance
    mean: ClassVar[means.Mean] = means.Zero()  # one common to all classes would change nothing

    def gram(self, X: jax.Array) -> ClassGram:
        """Everything that depends on θ and X but not on the sites."""
        K = self.kernel.matrix(X)
        return ClassGram(K + self.jitter * jnp.eye(X.shape[0], dtype=K.dtype))

    def posterior(self, X: jax.Array, sites: Sites) -> ClassPosterior:
        """q(f) as an object that can be asked for predictions; `sites` are the weighted ones."""
        K = self.gram(X).K
        out, _ = raced.condition_on_raced_sites(K, sites.nat1, sites.prec)
        factor, _ = raced.raced_factor(K, sites.prec)
        return ClassPosterior(self, X, sites.nat1 - sites.prec * out.mean, factor.H, factor.T)


@module
class ClassGram:
    K: jax.Array = fixed()

    # A Newton direction needs the covariance of all rows and classes, which costs as much as several conditionings.
    newton_pays: ClassVar[bool] = False

    def condition(self, sites: Sites) -> Marginals:
        return self.condition_with_factor(sites)[0]

    def condition_with_factor(self, sites: Sites) -> tuple[Marginals, tuple]:
        """prior × sites, and what `covariance` needs."""
        out, factor = raced.condition_on_raced_sites(self.K, sites.nat1, sites.prec)
        # Rounding can push a variance that is tiny next to the prior's below zero.
        floor = jnp.finfo(self.K.dtype).eps * jnp.diagonal(self.K)
        var = jnp.maximum(jnp.diagonal(out.cross, axis1=1, axis2=2).T, floor)
        zero = jnp.zeros_like(out.mean)
        return Marginals(out.mean, var, zero, out.log_z, zero, out.jitter, out.cross), factor

    def condition_mean(self, sites: Sites) -> Marginals:
        """As `condition`: the means of the classes need all of it."""
        return self.condition(sites)

    def pull(self, sites: Sites, factor: tuple, q: Marginals, bar: Marginals) -> ClassGram:
        """The cotangent of this gram, given that `bar` of q, with the sites held."""
        return jax.vjp(lambda gram: gram.condition(sites), self)[1](bar)[0]

    def covariance(self, factor: tuple) -> ClassCovariance:
        V, N, noise = factor
        classes, n = V.shape[:2]
        flat = N.reshape(classes * n, n)
        matrix = (flat @ flat.T).reshape(classes, n, classes, n)
        every = jnp.arange(classes)
        matrix = matrix.at[every, :, every, :].add(self.K - jnp.swapaxes(V, 1, 2) @ V)
        return ClassCovariance(matrix, noise)


@module
class ClassCovariance:
    """How q moves with the sites.

    `matrix` is the covariance of h = f − s with s integrated over, in which the sites are diagonal; g is h without
    the noise of variance `noise` = 1/Σ_c prec_c that h has within each row.
    """

    matrix: jax.Array = fixed()
    noise: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        """d mean = (this) d nat1."""
        return jnp.tensordot(self.matrix, x, axes=((2, 3), (0, 1)))

    times_once = times

    def squared_times(self, x: jax.Array) -> jax.Array:
        """d var = −(this) d prec: that of h, less that of the noise, d(1/Σ prec) = −Σ d prec/(Σ prec)²."""
        moved = jnp.tensordot(self.matrix * self.matrix, x, axes=((2, 3), (0, 1)))
        return moved - self.noise**2 * jnp.sum(x, axis=0)

    def cross_times(self, weights: jax.Array) -> jax.Array:
        """The same for all of Σ_i Σ_ce weights_ice cross_ice, read backwards: its derivative in prec is −(this)."""
        spread = jnp.einsum("iae,eidj->aidj", weights, self.matrix)
        moved = jnp.sum(self.matrix * spread, axis=(0, 1))
        return moved - self.noise**2 * jnp.sum(weights, axis=(1, 2))


@module
class ClassPosterior:
    """`alpha` is K⁻¹ times the mean of f, for each class."""

    prior: ClassPrior = fixed()
    X: jax.Array = fixed()
    alpha: jax.Array = fixed()
    H: jax.Array = fixed()
    T: jax.Array = fixed()

    def marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean (rows, classes) and covariance (rows, classes, classes) of the latent functions at each new row."""
        cross = self.prior.kernel.matrix(X_new, self.X).T
        V, G = self._parts(cross)
        variances = self.prior.kernel.variances(X_new) - jnp.sum(V * V, axis=1)
        own = jnp.maximum(variances, jnp.finfo(cross.dtype).eps * self.prior.kernel.variances(X_new))
        eye = jnp.eye(self.H.shape[0], dtype=cross.dtype)
        return (self.alpha @ cross).T, jnp.einsum("cji,eji->ice", G, G) + eye * own.T[:, :, None]

    def _parts(self, cross):
        """(H_c k, Tᵀ E_c k) for each new row k: what lowers the variance, and what the rows' unknown shifts add."""
        V = self.H @ cross
        return V, self.T.T @ (jnp.swapaxes(self.H, 1, 2) @ V)

    def joint(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and covariance matrix of all latent functions at the new rows, class after class."""
        cross = self.prior.kernel.matrix(X_new, self.X).T
        V, G = self._parts(cross)
        classes, rows = V.shape[0], cross.shape[1]
        flat = jnp.swapaxes(G, 1, 2).reshape(classes * rows, -1)
        matrix = (flat @ flat.T).reshape(classes, rows, classes, rows)
        every = jnp.arange(classes)
        matrix = matrix.at[every, :, every, :].add(self.prior.kernel.matrix(X_new) - jnp.swapaxes(V, 1, 2) @ V)
        return (self.alpha @ cross).ravel(), matrix.reshape(classes * rows, classes * rows)
