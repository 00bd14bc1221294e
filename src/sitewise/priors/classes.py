"""The prior of softmax models: one latent function per class at every row, with one kernel for all or one for each.

Sites, means and variances have the classes on their first axis and the rows on their last: (C, n).  The sites of a row
act on f_c − s, where s is the shift that maximises them, because softmax is invariant to a common shift (see
`softmax_sites.condition_on_sites`).  `mean` and `var` of the marginals are those of g_c = f_c − s, and `cross` holds
the covariance of the g of each row, (n, C, C).  A conditioning costs O(C n³), and Newton's method and gradients need
O((Cn)²) memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from sitewise import means
from sitewise.kernels import Kernel
from sitewise.numerics import softmax_sites
from sitewise.priors.base import Covariance, Gram, LatentPosterior, Prior
from sitewise.sites import Cavity, Sites, expected_log_site
from sitewise.types import fixed, module, static


class ClassMarginals(NamedTuple):
    """As `Marginals`, with `cross`, the covariance of the latent values of each row."""

    mean: jax.Array
    var: jax.Array
    resid: jax.Array
    log_z: jax.Array
    prior_mean: jax.Array
    jitter: jax.Array
    cross: jax.Array

    def cavity(self, sites: Sites, share: ArrayLike) -> Cavity:
        """The Gaussian vector of each row without the share of its whole site."""
        b, w = (a.T for a in sites.scaled(share))
        left = softmax_sites.without_site(self.mean.T, self.cross, b, w)
        return Cavity(left.mean, left.cov, left.cov, left.log_z)

    def influence(self, sites: Sites, share: ArrayLike) -> jax.Array:
        """KL(q ‖ cavity) = E_q[log t^share] − log E_cavity[t^share]."""
        expected = jnp.sum(expected_log_site(sites.scaled(share), self.mean, self.var), axis=0)
        return expected - self.cavity(sites, share).log_site


@module
class ClassPrior(Prior):
    """`own` says that every parameter of the kernel has a leading axis of classes: each class has its own kernel.

    The names of parameters are the same in both cases, and with them bounds, priors and lists of held parameters.
    """

    kernel: Kernel = fixed()
    jitter: float = static(default=0.0)
    own: bool = static(default=False)

    structure: ClassVar[str] = "classes"
    dense: ClassVar[bool] = True
    mean = means.Zero()  # a mean common to all classes would change nothing; not annotated, so it is no field

    @staticmethod
    def of(kernel: Kernel | Sequence[Kernel], classes: int, jitter: float = 0.0) -> ClassPrior:
        """One kernel for all classes, or a list of kernels of one form, one for each class."""
        if isinstance(kernel, Kernel):
            return ClassPrior(kernel, jitter)
        each = list(kernel)
        if len(each) != classes:
            raise ValueError(
                f"Got {len(each)} kernels for {classes} classes; give one kernel for all, or one for each."
            )
        if len({(jax.tree.structure(k), *map(np.shape, jax.tree.leaves(k))) for k in each}) > 1:
            raise ValueError(
                "The kernels of the classes may differ in the values of their parameters only; use one form of kernel."
            )
        return ClassPrior(jax.tree.map(lambda *values: np.stack(values), *each), jitter, own=True)

    @property
    def kernels(self) -> Kernel | list[Kernel]:
        """The kernel that the classes share, or the list of their own kernels."""
        if not self.own:
            return self.kernel
        classes = len(jax.tree.leaves(self.kernel)[0])
        return [jax.tree.map(operator.itemgetter(c), self.kernel) for c in range(classes)]

    def of_each(self, function: Callable[[Kernel], jax.Array]) -> jax.Array:
        """function(κ): one result if the kernel is shared, else one for each class on a leading axis."""
        return lax.map(function, self.kernel) if self.own else function(self.kernel)

    def gram(self, X: jax.Array) -> ClassGram:
        K = self.of_each(lambda kernel: kernel.matrix(X))
        return ClassGram(K + self.jitter * jnp.eye(X.shape[0], dtype=K.dtype))

    def posterior(self, X: jax.Array, sites: Sites) -> ClassPosterior:
        out, factors = softmax_sites.condition_on_sites(self.gram(X).K, sites.nat1, sites.prec)
        return ClassPosterior(self, X, sites.nat1 - sites.prec * out.mean, factors.H, factors.T)


@module
class ClassGram(Gram[ClassMarginals]):
    """`K` is one matrix, or one for each class on a leading axis."""

    K: jax.Array = fixed()

    # A Newton direction needs the covariance of all rows and classes, which costs as much as several conditionings.
    newton_is_cheap: ClassVar[bool] = False

    def condition(self, sites: Sites) -> ClassMarginals:
        return self.condition_with_factor(sites, None)[0]

    def condition_with_factor(
        self, sites: Sites, mask: jax.Array | None
    ) -> tuple[ClassMarginals, softmax_sites.Factors]:
        out, factors = softmax_sites.condition_on_sites(self.K, sites.nat1, sites.prec)
        # Rounding can make a variance negative that is tiny compared with that of the prior.
        floor = jnp.finfo(self.K.dtype).eps * jnp.diagonal(self.K, axis1=-2, axis2=-1)
        var = jnp.maximum(jnp.diagonal(out.cross, axis1=1, axis2=2).T, floor)
        zero = jnp.zeros_like(out.mean)
        return ClassMarginals(out.mean, var, zero, out.log_z, zero, out.jitter, out.cross), factors

    def rounding_error(self, sites: Sites, q: ClassMarginals, factors: softmax_sites.Factors) -> jax.Array:
        """The rounding error of the identities in the B_c, as a share."""
        prior = jnp.diagonal(self.K, axis1=-2, axis2=-1)
        return jnp.finfo(prior.dtype).eps * jnp.max(sites.prec * prior)

    def covariance(self, sites: Sites, factors: softmax_sites.Factors) -> ClassCovariance:
        V, N = factors.V, factors.N
        classes, n = V.shape[:2]
        flat = N.reshape(classes * n, n)
        matrix = (flat @ flat.T).reshape(classes, n, classes, n)
        every = jnp.arange(classes)
        matrix = matrix.at[every, :, every, :].add(self.K - jnp.swapaxes(V, 1, 2) @ V)
        return ClassCovariance(matrix, factors.noise)


@module
class ClassCovariance(Covariance[ClassMarginals]):
    """How q changes with the sites.

    `matrix` is the covariance of h = f − s with s integrated over, in which the sites are diagonal; g is h without
    the noise of variance `noise` = 1/Σ_c prec_c that h has within each row.
    """

    matrix: jax.Array = fixed()
    noise: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        """d mean = (this) d nat1."""
        return jnp.tensordot(self.matrix, x, axes=((2, 3), (0, 1)))

    def squared_times(self, x: jax.Array) -> jax.Array:
        """d var = −(this) d prec: that of h minus that of the noise, d(1/Σ prec) = −Σ d prec/(Σ prec)²."""
        moved = jnp.tensordot(self.matrix * self.matrix, x, axes=((2, 3), (0, 1)))
        return moved - self.noise**2 * jnp.sum(x, axis=0)

    def pull_to_sites(self, q: ClassMarginals, by_q: ClassMarginals) -> Sites:
        pulled = super().pull_to_sites(q, by_q)
        return Sites(pulled.nat1, pulled.prec - self._cross_times(by_q.cross))

    def _cross_times(self, weights: jax.Array) -> jax.Array:
        """The derivative of Σ_i Σ_ce weights_ice cross_ice in prec is −(this)."""
        spread = jnp.einsum("iae,eidj->aidj", weights, self.matrix)
        moved = jnp.sum(self.matrix * spread, axis=(0, 1))
        return moved - self.noise**2 * jnp.sum(weights, axis=(1, 2))


@module
class ClassPosterior(LatentPosterior):
    """`alpha` is K⁻¹ times the mean of f, for each class."""

    prior: ClassPrior = fixed()
    X: jax.Array = fixed()
    alpha: jax.Array = fixed()
    H: jax.Array = fixed()
    T: jax.Array = fixed()

    def marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean (rows, classes) and covariance (rows, classes, classes) of the latent functions at each new row."""
        mean, V, G = self._parts(X_new)
        prior = self.prior.of_each(lambda kernel: kernel.variances(X_new))
        own = jnp.maximum(prior - jnp.sum(V * V, axis=1), jnp.finfo(V.dtype).eps * prior)
        eye = jnp.eye(self.H.shape[0], dtype=V.dtype)
        return mean.T, jnp.einsum("cji,eji->ice", G, G) + eye * own.T[:, :, None]

    def _parts(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The means, and for each new row with k = κ_c(X, x): H_c k, which lowers the variance, and Tᵀ E_c k, which the
        unknown shifts of the rows add to it."""
        # New rows first: distances are centred on the second table, and a prediction must not depend on other new rows.
        cross = jnp.swapaxes(self.prior.of_each(lambda kernel: kernel.matrix(X_new, self.X)), -1, -2)
        V = self.H @ cross
        return (self.alpha[:, None] @ cross)[:, 0], V, self.T.T @ (jnp.swapaxes(self.H, 1, 2) @ V)

    def joint(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and covariance matrix of all latent functions at the new rows, class after class."""
        mean, V, G = self._parts(X_new)
        classes, rows = mean.shape
        flat = jnp.swapaxes(G, 1, 2).reshape(classes * rows, -1)
        matrix = (flat @ flat.T).reshape(classes, rows, classes, rows)
        every = jnp.arange(classes)
        prior = self.prior.of_each(lambda kernel: kernel.matrix(X_new))
        matrix = matrix.at[every, :, every, :].add(prior - jnp.swapaxes(V, 1, 2) @ V)
        return mean.ravel(), matrix.reshape(classes * rows, classes * rows)
