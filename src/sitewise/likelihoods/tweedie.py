"""Tweedie likelihood for amounts that may be zero: a sum of Poisson-many gamma-distributed pieces (1 < p < 2).

    E[y] = μ = exp f,    Var[y] = φ μᵖ,    φ = dispersion,  p = variance_power
    number of pieces N ~ Poisson(λ),  λ = μ^(2−p)/(φ(2−p));   each piece ~ Gamma(α, scale γ),
    α = (2−p)/(p−1),  γ = φ(p−1) μ^(p−1)

    log p(y | f) = −(y e^((1−p)f)/(p−1) + e^((2−p)f)/(2−p))/φ + log a(y),    log p(0 | f) = −λ
    a(y) = (1/y) Σ_{j ≥ 1} W_j,    log W_j = j log z − log j! − log Γ(jα),
    log z = α log y − log(φ(2−p)) − α log(φ(p−1))

(Jørgensen 1987; Dunn & Smyth 2005).  Only the first two terms depend on f: log p is concave and E[log p] has a closed
form.  As a function of j, W_j is like a Gaussian with mean j* ≈ y^(2−p)/(φ(2−p)) and standard deviation √(j*/(1+α)).
A fixed number of terms around j* is summed.  If this number does not cover the Gaussian, the terms are taken at equal
steps above 1 and the sum is multiplied by the step: the error of this trapezoidal rule is below rounding.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import gammainc, gammaln, logsumexp
from jax.typing import ArrayLike

from sitewise.likelihoods.amounts import AmountsLaw
from sitewise.likelihoods.base import Likelihood
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule, expect
from sitewise.types import ArrayField, bounded, module, positive

# Number of terms of each sum, and their reach in standard deviations of the number of pieces.
_DENSITY_TERMS, _DENSITY_REACH = 128, 8.5
_CDF_TERMS, _CDF_REACH = 40, 6.2
_EXPECTED_CDF_RULE = Landmark(points=32, reach=7.0)  # coarse: each point costs a sum of incomplete gamma functions


def _numbers_of_pieces(centre: Array, sd: Array, count: int, reach: float) -> tuple[Array, Array]:
    """Return `count` numbers of pieces around `centre`, on a leading axis, and their step, 1 if this reaches enough."""
    step = jnp.maximum(2 * reach * sd / count, 1.0)
    first = jnp.where(step > 1, centre - 0.5 * step * (count - 1), jnp.maximum(jnp.round(centre - 0.5 * count), 1.0))
    return first + step * jnp.arange(count, dtype=first.dtype).reshape((-1,) + (1,) * first.ndim), step


@module
class Tweedie(Likelihood):
    """Tweedie regression for amounts that may be zero, such as claims.

    The mean is exp f, and the variance is dispersion · exp(variance_power · f).

    Parameters
    ----------
    dispersion : float, default=1.0
        Scale of the variance; learned.
    variance_power : float, default=1.5
        Between 1.02 and 1.98; learned.
    """

    dispersion: ArrayField = positive(default=1.0)
    variance_power: ArrayField = bounded(1.02, 1.98, default=1.5)

    name: ClassVar[str] = "tweedie"
    about: ClassVar[str] = "amounts that may be zero, as sums of positive pieces"
    support: ClassVar[str] = "amounts"
    log_concave: ClassVar[bool] = True
    rule: ClassVar[Rule] = Landmark(points=96)  # log p falls like e^((2−p)f) to the right and e^((1−p)f) to the left

    def _shape(self) -> Array:
        """α, the shape of one piece."""
        return (2 - self.variance_power) / (self.variance_power - 1)

    def _log_pieces(self, log_mean: Array) -> Array:
        """log λ, the log mean number of pieces."""
        rest = 2 - self.variance_power
        return rest * log_mean - jnp.log(self.dispersion * rest)

    def _log_base(self, y: Array) -> Array:
        """log a(y) for positive y."""
        phi, p, alpha = self.dispersion, self.variance_power, self._shape()
        log_z = alpha * jnp.log(y) - jnp.log(phi * (2 - p)) - alpha * jnp.log(phi * (p - 1))
        likely = jnp.maximum(jnp.exp(self._log_pieces(jnp.log(y))), 1.0)
        j, step = lax.stop_gradient(
            _numbers_of_pieces(likely, jnp.sqrt(likely / (1 + alpha)), _DENSITY_TERMS, _DENSITY_REACH)
        )
        valid = j >= 1
        safe = jnp.where(valid, j, 1.0)
        terms = jnp.where(valid, safe * log_z - gammaln(safe + 1) - gammaln(safe * alpha), -jnp.inf)
        return logsumexp(terms, axis=0) + jnp.log(step) - jnp.log(y)

    def _terms_with_f(self, y: Array, f: Array, var: Array | float = 0.0) -> Array:
        """The terms of log p that depend on f, or for var > 0 their expectation by E[e^{cf}] = exp(cm + c²v/2)."""
        up, down = 2 - self.variance_power, self.variance_power - 1
        fall = y * jnp.exp(-down * f + 0.5 * down**2 * var) / down
        return -(fall + jnp.exp(up * f + 0.5 * up**2 * var) / up) / self.dispersion

    def _constant(self, y: Array) -> Array:
        some = y > 0
        return jnp.where(some, self._log_base(jnp.where(some, y, 1.0)), 0.0)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self._terms_with_f(y, f) + self._constant(y)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """For a positive amount its logarithm, with the width √(φ μ^(p−2)) there; for zero the f at which λ = 1."""
        up = 2 - self.variance_power
        some = y > 0
        centre = jnp.where(some, jnp.log(jnp.where(some, y, 1.0)), jnp.log(self.dispersion * up) / up)
        width = jnp.minimum(jnp.sqrt(self.dispersion) * jnp.exp(-0.5 * up * centre), 1 / up)
        return centre, jnp.where(some, width, 1 / up)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        return self._terms_with_f(y, mean, var) + self._constant(y)

    @classmethod
    def for_targets(cls, y: np.ndarray, weight: np.ndarray) -> Tweedie:
        """Start with the dispersion that gives the observed variance at the observed mean."""
        mean = float(np.average(y, weights=weight))
        var = float(np.average((y - mean) ** 2, weights=weight))
        return cls(float(np.clip(var / mean**1.5, 1e-3, 1e3))) if mean > 0 and var > 0 else cls()

    def level(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        mean = float(np.average(y, weights=weight))
        return float(np.log(mean)) if mean > 0 else None

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        return AmountsLaw.of(y)

    def response_mean(self, f: Array) -> Array:
        return jnp.exp(f)

    def response_var(self, f: Array) -> Array:
        return self.dispersion * jnp.exp(self.variance_power * f)

    def cdf(self, y: Array, f: Array) -> Array:
        """e^(−λ) + Σ_j Poisson(j; λ) P(jα, y/γ), with P the regularised incomplete gamma function."""
        y, f = jnp.broadcast_arrays(y, f)
        log_pieces = self._log_pieces(f)
        pieces = jnp.exp(log_pieces)
        j, step = _numbers_of_pieces(pieces, jnp.sqrt(pieces), _CDF_TERMS, _CDF_REACH)
        valid = j >= 1
        j = jnp.where(valid, j, 1.0)
        weight = jnp.where(valid, jnp.exp(j * log_pieces - pieces - gammaln(j + 1)), 0.0) * step
        p = self.variance_power
        scaled = jnp.maximum(y, 0.0) * jnp.exp(-(p - 1) * f) / (self.dispersion * (p - 1))
        below = jnp.sum(weight * gammainc(j * self._shape(), scaled), axis=0)
        return jnp.where(y < 0, 0.0, jnp.minimum(jnp.exp(-pieces) + below, 1.0))

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Quadrature with few points, because each point costs a sum of incomplete gamma functions."""
        centre, width = self.landmark(y)
        return expect(lambda f: self.cdf(y, f), mean, var, rule=_EXPECTED_CDF_RULE, centre=centre, width=width)

    def sample(self, key: Array, f: Array) -> Array:
        first, second = jax.random.split(key)
        pieces = jax.random.poisson(first, jnp.exp(self._log_pieces(f))).astype(f.dtype)
        p = self.variance_power
        scale = self.dispersion * (p - 1) * jnp.exp((p - 1) * f)
        total = jax.random.gamma(second, jnp.maximum(pieces, 1.0) * self._shape(), f.shape, f.dtype)
        return jnp.where(pieces > 0, scale * total, 0.0)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.asarray(y) < 0):
            raise ValueError("Tweedie: amounts must be zero or positive; use Gaussian or StudentT for any sign.")
