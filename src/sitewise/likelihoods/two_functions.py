"""Base class of likelihoods p(y | f_1, f_2) with two latent functions per row, such as a location and a log scale.

f_1 and f_2 are independent a priori and coupled by the data: q(f_1, f_2) at a row is a Gaussian N(m, C) with a full
2 × 2 covariance.  A site is exp(bᵀf − ½ fᵀWf) with a full precision block W per row.

    VI       W = −2 ∂a/∂C,  b = ∂a/∂m + W m      with a(m, C) = E_{N(m, C)}[log p(y | f)]   (natural gradients)
    Laplace  W = −∇² log p,  b = ∇ log p + W m    at the posterior mode, with the true Hessian
    EP       cavity × site has mean and covariance of cavity × p (`inference.ep`)
    ep, loo  log E[p] over the cavity N(m, C) ÷ site, a Gaussian vector; NaN where this quotient is no Gaussian

The Hessian of log p in (f_1, f_2) is indefinite even for Gaussian noise, so that blocks W are not limited from below:
at VI's fixed point the ELBO is stationary, and its gradient with the sites held fixed is exact.

Expectations are iterated: with C = [[v_1, c], [c, v_2]], f_1 given f_2 is N(m_1 + (c/v_2)(f_2 − m_2), v_1 − c²/v_2).

    E[log p]  Gauss–Hermite nodes in f_2, and E[log p] over f_1 given f_2 at each node
    log E[p]  equally spaced nodes in f_2, and log E[p] over f_1 given f_2 at each node
    moments   of N(m, C)·p: a mixture over the same nodes, with the moments of f_1 given f_2 at each node

The trapezoidal rule has an error of about exp(−2π²s²/h²) where the mass of N·p has the width s (Trefethen & Weideman
2014).  At a width of 0.3 standard deviations, as of an outlier whose f_1 and f_2 are correlated, its 40 nodes err by
1e-8 and 32 Gauss–Hermite nodes by 1e-4.

The nodes in f_2 move with the Gaussian, so that derivatives are the exact derivatives of the rule.

Shapes: `log_prob` and other functions of f take the functions on the first axis.  `expected_log_prob` takes means and
variances along f_1, f_2 and f_1 + f_2, of shape (3, n) (`numerics.dense.directions`).  `log_expected_prob` and
`expected_cdf` take means (n, 2) and covariances (n, 2, 2), as predictions do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.numerics.dense.directions import blocks_of_variances
from sitewise.numerics.dense.small_matrices import outer
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite, Landmark, expect, log_expect_exp, tilted_moments
from sitewise.types import module

_NODES = 20  # of the Gauss–Hermite rule in the second function
_INNER = GaussHermite(24)  # in the first function, unless a subclass has closed forms
_PREDICTED_NODES = 32  # of the rule in the first function for expectations without a closed form
# Of the trapezoidal rule in the second function for log E[p] and tilted moments; reach in standard deviations.
_TILTED_NODES, _TILTED_REACH = 40, 7.0
_TILTED_INNER = Landmark(points=40)  # in the first function for log E[p], unless a subclass has its own
_EPS = float(np.finfo(float).eps)


class Conditional(NamedTuple):
    """The Gaussian N(m, C) of (f_1, f_2) as N(f_2; mean, sd²) and f_1 | f_2 of mean `at(z)` and variance `var`.

    z is f_2 in standard deviations from its mean.
    """

    first: Array
    slope: Array
    var: Array
    mean: Array
    sd: Array

    @staticmethod
    def of(mean: Array, cov: Array) -> Conditional:
        """Split means (n, 2) and covariances (n, 2, 2)."""
        own, sd = cov[..., 0, 0], jnp.sqrt(cov[..., 1, 1])
        slope = cov[..., 0, 1] / sd
        return Conditional(mean[..., 0], slope, jnp.maximum(own - slope**2, _EPS * own), mean[..., 1], sd)

    def at(self, z: Array) -> Array:
        """Return the mean of f_1 given f_2 = mean + sd·z."""
        return self.first + self.slope * z

    def average(self, function: Callable[[Array, Array, Array], Array]) -> Array:
        """Return E[function(mean and variance of f_1 given f_2, f_2)] by Gauss–Hermite quadrature in f_2."""
        nodes, logs = self.nodes(_NODES)
        each = jax.vmap(lambda z: function(self.at(z), self.var, self.mean + self.sd * z))(nodes)
        return jnp.tensordot(jnp.exp(logs), each, axes=1)

    def nodes(self, count: int) -> tuple[Array, Array]:
        """Return the nodes z and the log weights of a Gauss–Hermite rule."""
        z, w = np.polynomial.hermite_e.hermegauss(count)
        return jnp.asarray(z, self.sd.dtype), jnp.asarray(np.log(w / np.sum(w)), self.sd.dtype)

    def even_nodes(self) -> tuple[Array, Array]:
        """Return the nodes z and the log weights of the trapezoidal rule in f_2."""
        z = np.linspace(-_TILTED_REACH, _TILTED_REACH, _TILTED_NODES)
        w = np.exp(-0.5 * z**2)
        return jnp.asarray(z, self.sd.dtype), jnp.asarray(np.log(w / np.sum(w)), self.sd.dtype)


def average_of_both(function: Callable[[Array], Array], mean: Array, cov: Array) -> Array:
    """Return E[function(f)] over N(mean, cov) per row, by a product Gauss–Hermite rule; f has the functions first."""

    def of_first(m: Array, v: Array, second: Array) -> Array:
        nodes, logs = of.nodes(_PREDICTED_NODES)
        each = jax.vmap(lambda z: function(jnp.stack([m + jnp.sqrt(v) * z, second])))(nodes)
        return jnp.tensordot(jnp.exp(logs), each, axes=1)

    of = Conditional.of(mean, cov)
    return of.average(of_first)


@module
class TwoFunctions(Likelihood):
    """Base class of likelihoods with two latent functions; a subclass defines `log_prob(y, f)` and `landmark(y)`.

    Attributes
    ----------
    functions : tuple of str
        The names of the two functions.
    """

    functions: ClassVar[tuple[str, ...]] = ("first", "second")
    latents: ClassVar[int] = 2

    def log_prob(self, y: Array, f: Array) -> Array:
        """Return log p(y | f[0], f[1]), elementwise; further entries on the first axis are ignored."""
        raise NotImplementedError(f"{type(self).__name__} must define log_prob(y, f).")

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """Return a typical value of each function and its scale, (2, n): where inference starts."""
        raise NotImplementedError(f"{type(self).__name__} must define landmark(y).")

    def start_level(self) -> float:
        """Return the value from which the mean of the second function is learned."""
        return 0.0

    def _of_first(self, y: Array, mean: Array, var: Array, second: Array) -> Array:
        """Return E[log p] over f_1 ~ N(mean, var), given the second function."""
        return expect(
            lambda f: self.log_prob(y, jnp.stack([f, jnp.broadcast_to(second, f.shape)])),
            mean, var, rule=_INNER, centre=mean, width=jnp.sqrt(var),
        )  # fmt: skip

    def _log_of_first(self, y: Array, mean: Array, var: Array, second: Array, power: Power) -> Array:
        """Return log E[p^power] over f_1 ~ N(mean, var), given the second function."""
        centre, width = self.landmark(y)
        return log_expect_exp(
            lambda f: power * self.log_prob(y, jnp.stack([f, jnp.broadcast_to(second, f.shape)])),
            mean, var, rule=_TILTED_INNER, centre=centre[0], width=width[0],
        )  # fmt: skip

    def _tilted_of_first(self, y: Array, mean: Array, var: Array, second: Array, power: Power) -> tuple[Array, Array]:
        """Return mean − `mean` and variance/`var` of f_1 ~ N(mean, var) × p^power, given the second function."""
        centre, width = self.landmark(y)
        return tilted_moments(
            lambda f: power * self.log_prob(y, jnp.stack([f, jnp.broadcast_to(second, f.shape)])),
            mean, var, rule=_TILTED_INNER, centre=centre[0], width=width[0],
        )  # fmt: skip

    # -- expectations ------------------------------------------------------------------------------------------

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Return E[log p(y|f)] per row, given means and variances along f_1, f_2 and f_1 + f_2, (3, n)."""
        of = Conditional.of(mean[:2].T, blocks_of_variances(var))
        return of.average(lambda m, v, second: self._of_first(y, m, v, second))

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Return log E[p(y|f)^power] per row, given means (n, 2) and covariances (n, 2, 2)."""
        of = Conditional.of(mean, var)
        nodes, logs = of.even_nodes()
        each = jax.vmap(lambda z: self._log_of_first(y, of.at(z), of.var, of.mean + of.sd * z, power))(nodes)
        return logsumexp(each + logs.reshape(-1, *(1,) * (each.ndim - 1)), axis=0)

    def tilted_moments(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        """Return mean − `mean` (n, 2) and covariance (n, 2, 2) of N(mean, var) × p(y|f)^power per row.

        Given f_2 at a node, f_1 has the tilted mean and variance of the one-function integral; with the weights
        π ∝ w·E[p^power | f_2], the law of total covariance gives the moments of both.  The covariance is positive
        definite by construction.
        """
        of = Conditional.of(mean, var)
        nodes, logs = of.even_nodes()

        def at(z: Array) -> tuple[Array, Array, Array]:
            given = y, of.at(z), of.var, of.mean + of.sd * z, power
            shift, ratio = self._tilted_of_first(*given)
            return self._log_of_first(*given), of.slope * z + shift, ratio * of.var

        log_p, first, own = jax.vmap(at)(nodes)
        share = jax.nn.softmax(log_p + logs[:, None], axis=0)
        each = jnp.stack([first, of.sd * nodes[:, None]], axis=-1)
        shift = jnp.sum(share[..., None] * each, axis=0)
        cov = jnp.sum(share[..., None, None] * outer(each - shift, each - shift), axis=0)
        return shift, cov.at[:, 0, 0].add(jnp.sum(share * own, axis=0))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array]:
        """Return the gradient (2, n) and the Hessian (n, 2, 2) of log p in (f_1, f_2)."""
        slope = jax.grad(lambda f: jnp.sum(self.log_prob(y, f)))
        tangents = jnp.broadcast_to(jnp.eye(2, dtype=f.dtype)[:, :, None], (2, *f.shape))
        gradient = slope(f)
        hessian = jax.vmap(lambda t: jax.jvp(slope, (f,), (t,))[1])(tangents)
        return gradient, jnp.moveaxis(hessian, -1, 0)

    # -- predictions -------------------------------------------------------------------------------------------

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Return E[P(Y ≤ y | f)] per row."""
        of = Conditional.of(mean, var)
        return of.average(
            lambda m, v, second: expect(
                lambda f: self.cdf(y, jnp.stack([f, jnp.broadcast_to(second, f.shape)])),
                m, v, rule=_INNER, centre=m, width=jnp.sqrt(v),
            )
        )  # fmt: skip
