"""Negative binomial likelihood for overdispersed counts: mean μ = exposure · rate(f), variance μ + μ²/shape."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammaln
from scipy import special

from sitewise.likelihoods.rate import Counts
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.numerics.quadrature.tilted_logistic import slopes_by_var, tilted_by_logistic
from sitewise.types import ArrayField, module, positive

# With the softplus link, p is like exp(−y·shape/f) f^−shape: a steep edge and a long tail.
_SOFTPLUS_RULE = Landmark(points=80)


@module
class NegativeBinomial(Counts):
    """Negative binomial regression for overdispersed counts: mean μ = exposure · rate(f), variance μ + μ²/shape.

    These are Poisson counts whose rate is multiplied by a Gamma(shape, shape) variable; the limit shape → ∞ is Poisson.

    Parameters
    ----------
    shape : float, default=1.0
        Smaller values mean more overdispersion; learned.
    """

    shape: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "negative_binomial"
    about: ClassVar[str] = "overdispersed counts"
    varying: ClassVar[tuple[str, ...]] = ("shape",)

    def _rule(self) -> Rule:
        return _SOFTPLUS_RULE if self.quadrature is None and self.link == "softplus" else super()._rule()

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        return self.link == "log"

    def log_prob(self, y: Array, f: Array) -> Array:
        """With z = log(μ/shape):  log C(y + shape − 1, y) + y z − (y + shape) log(1 + eᶻ).

        For z > 0, log(1 + eᶻ) = z + log(1 + e⁻ᶻ) cancels the term y z, which may be millions of times the other terms.
        """
        y, log_exposure = self.split(y)
        r = self.shape
        z = self.log_rate(f) + log_exposure - jnp.log(r)
        binomial = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
        rest = jnp.where(z > 0, -r * z, y * z) - (y + r) * jax.nn.softplus(-jnp.abs(z))
        return binomial + rest

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return derivatives of ℓ by the integral over z = f + log(exposure/shape).

        With ℓ₁ = E[y − (y + shape) σ(z)] under the tilted density,
        ∂ℓ/∂shape = ψ(y + shape) − ψ(shape) − E[log(1 + eᶻ)] − ℓ₁/shape.
        """
        if self.quadrature is not None or self.link != "log":
            return None
        count, log_exposure = (y[..., 0], np.log(y[..., 1])) if self.exposure else (y, 0.0)
        r = np.asarray(self.shape, float)
        found = tilted_by_logistic(count, count + r, mean + log_exposure - np.log(r), var)
        if found is None:
            return None
        value = special.gammaln(count + r) - special.gammaln(r) - special.gammaln(count + 1) + found.log_integral
        by_shape = special.digamma(count + r) - special.digamma(r) - found.softplus - found.slopes[0] / r
        return np.stack([value, *found.slopes[:3], *slopes_by_var(found.slopes), by_shape])

    def landmark(self, y: Array) -> tuple[Array, Array]:
        y, log_exposure = self.split(y)
        return self._landmark_of_count(y + 0.5, log_exposure, jnp.sqrt(1 / (y + 1.0) + 1 / self.shape))

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """The f at which the mean equals `shape` (z = 0); the softplus link also bends at f = 0."""
        count, log_exposure = self.split(y)
        knee = jnp.broadcast_to(jnp.log(self.shape) - log_exposure, count.shape)
        if self.link == "log":
            return knee, jnp.ones_like(count)
        gap = jnp.maximum(-knee, 0.0)
        return -0.5 * gap, 1 + gap / 6

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """Log link: for a shape below 1, the edge at y·shape/mean = 1.  Softplus link: 0, and the mode."""
        centre, width = self.landmark(y)
        if self.link != "log":
            count, log_exposure = self.split(y)
            mode, _ = self._inverse_rate((count + 0.5) * jnp.exp(-log_exposure))
            return self._with_mode(jnp.zeros_like(centre), jnp.ones_like(width), mode)
        return centre + jnp.log(jnp.minimum(self.shape, 1.0)), jnp.minimum(width, 1.2)

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        from scipy import stats

        mean, var = float(np.mean(y)), float(np.var(y))
        return stats.nbinom(mean**2 / (var - mean), mean / var) if var > mean > 0 else Counts.baseline(y)

    def response_var(self, f: Array, side: Array | None = None) -> Array:
        mean = self.response_mean(f, side)
        return mean + mean**2 / self.shape

    def cdf(self, y: Array, f: Array) -> Array:
        y, log_exposure = self.split(y)
        mean = jnp.exp(log_exposure) * self.rate(f)
        inside = betainc(self.shape, jnp.floor(jnp.maximum(y, 0.0)) + 1, self.shape / (self.shape + mean))
        return jnp.where(y < 0, 0.0, inside)

    def sample(self, key: Array, f: Array, side: Array | None = None) -> Array:
        first, second = jax.random.split(key)
        scatter = jax.random.gamma(first, self.shape, f.shape, f.dtype) / self.shape
        return jax.random.poisson(second, self.response_mean(f, side) * scatter).astype(f.dtype)
