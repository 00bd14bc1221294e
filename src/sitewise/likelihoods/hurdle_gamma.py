"""Hurdle gamma likelihood for amounts that may be zero.

    y > 0 with probability σ(intercept + slope · f), and then y ~ Gamma(shape, mean exp f)

One latent function determines both the probability of a positive amount and its mean, with a learned intercept and
slope.  slope = 0 means a constant probability of zero.  With a positive slope, zeros are frequent where amounts are
small, as is usual for rain, insurance claims and purchases.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammainc
from jax.typing import ArrayLike

from sitewise.likelihoods.amounts import AmountsLaw
from sitewise.likelihoods.base import Likelihood, Power
from sitewise.likelihoods.bernoulli import BernoulliLogit
from sitewise.likelihoods.gamma import Gamma
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive, real

_MIN_ODDS_VARIANCE = 1e-16  # added to the variance of intercept + slope · f: the quadrature needs a positive width


@module
class HurdleGamma(Likelihood):
    """Hurdle model (two-part model) for amounts that may be zero: a hurdle at zero and a gamma distribution above it.

    y > 0 with probability σ(intercept + slope · f), and then y has a gamma distribution with mean exp f.  Log-concave,
    because log σ and the gamma factor are.

    Parameters
    ----------
    shape : float, default=1.0
        Shape of the gamma distribution; learned.
    intercept : float, default=0.0
        Log odds of a positive amount at f = 0; learned.
    slope : float, default=0.5
        Change of these log odds with f; learned.
    """

    shape: ArrayField = positive(default=1.0)
    intercept: ArrayField = real(default=0.0)
    slope: ArrayField = real(default=0.5)

    name: ClassVar[str] = "hurdle_gamma"
    about: ClassVar[str] = "amounts that may be zero"
    support: ClassVar[str] = "amounts"
    log_concave: ClassVar[bool] = True
    rule: ClassVar[Rule] = Landmark(points=96)
    varying: ClassVar[tuple[str, ...]] = ("intercept",)

    def _parts(self) -> tuple[BernoulliLogit, Gamma]:
        return BernoulliLogit(quadrature=self.quadrature), Gamma(self.shape, quadrature=self.quadrature)

    def _log_odds(self, f: Array) -> Array:
        return self.intercept + self.slope * f

    def _log_odds_moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        return self._log_odds(mean), self.slope**2 * var + _MIN_ODDS_VARIANCE

    @staticmethod
    def _split(y: Array) -> tuple[Array, Array, Array]:
        """Return which amounts are positive, labels 1 and −1, and the amounts with 1 in place of 0."""
        some = y > 0
        return some, jnp.where(some, 1.0, -1.0).astype(y.dtype), jnp.where(some, y, 1.0)

    def log_prob(self, y: Array, f: Array) -> Array:
        some, label, amount = self._split(y)
        whether, how_much = self._parts()
        return whether.log_prob(label, self._log_odds(f)) + jnp.where(some, how_much.log_prob(amount, f), 0.0)

    def _even_odds(self) -> tuple[Array, Array]:
        """Return the f with probability ½ of a zero, and the scale on which it changes; 0 and 1000 without slope."""
        flat = jnp.abs(self.slope) < 1e-3
        slope = jnp.where(flat, 1e-3, self.slope)
        return jnp.where(flat, 0.0, -self.intercept / slope), 1 / jnp.abs(slope)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        some, _, amount = self._split(y)
        centre, width = Gamma(self.shape).landmark(amount)
        turn, wide = self._even_odds()
        return jnp.where(some, centre, turn), jnp.where(some, width, wide)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """The landmark of the amount, and the landmark of the link."""
        centre, width = self.landmark(y)
        turn, wide = (jnp.broadcast_to(a, y.shape) for a in self._even_odds())
        return jnp.stack([centre, turn]), jnp.stack([width, jnp.where(y > 0, wide, jnp.inf)])

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return self._prob_landmarks(y)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Logit expectation of the Gaussian intercept + slope · f, plus the closed form of the gamma distribution."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        some, label, amount = self._split(y)
        whether, how_much = self._parts()
        link = whether.expected_log_prob(label, *self._log_odds_moments(mean, var))
        safe = jnp.where(some, var, 1.0)  # avoids overflow in rows of zero, whose value is discarded
        return link + jnp.where(some, how_much.expected_log_prob(amount, jnp.where(some, mean, 0.0), safe), 0.0)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Quadrature for positive amounts; the logit expectation for zeros."""
        if self.quadrature is not None:
            return super().log_expected_prob(y, mean, var, power)
        some, _, amount = self._split(y)
        none = BernoulliLogit().log_expected_prob(-jnp.ones_like(y), *self._log_odds_moments(mean, var), power)
        return jnp.where(some, super().log_expected_prob(amount, mean, var, power), none)

    @classmethod
    def for_targets(cls, y: np.ndarray, weight: np.ndarray) -> HurdleGamma:
        """Start with slope ½ and the intercept that gives the observed share of zeros at the mean amount."""
        some = weight * (y > 0)
        total = float(np.sum(some))
        if not total:
            return cls()
        share = (total + 0.5) / (float(np.sum(weight)) + 1)
        return cls(intercept=float(np.log(share / (1 - share)) - 0.5 * np.log(np.sum(some * y) / total)))

    def level(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        some = y > 0
        return float(np.log(np.average(y[some], weights=weight[some]))) if np.any(some) else None

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        return AmountsLaw.of(y)

    def response_mean(self, f: Array) -> Array:
        return jax.nn.sigmoid(self._log_odds(f)) * jnp.exp(f)

    def response_var(self, f: Array) -> Array:
        """s(1 + 1/shape)e²ᶠ − s²e²ᶠ, where s is the probability of a positive amount."""
        s = jax.nn.sigmoid(self._log_odds(f))
        return s * (1 / self.shape + jax.nn.sigmoid(-self._log_odds(f))) * jnp.exp(2 * f)

    def cdf(self, y: Array, f: Array) -> Array:
        below = gammainc(self.shape, self.shape * jnp.maximum(y, 0.0) * jnp.exp(-f))
        none, some = jax.nn.sigmoid(-self._log_odds(f)), jax.nn.sigmoid(self._log_odds(f))
        return jnp.where(y < 0, 0.0, none + some * below)

    def sample(self, key: Array, f: Array) -> Array:
        first, second = jax.random.split(key)
        some = jax.random.bernoulli(first, jax.nn.sigmoid(self._log_odds(f)))
        return jnp.where(some, Gamma(self.shape).sample(second, f), 0.0)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.asarray(y) < 0):
            raise ValueError("HurdleGamma: amounts must be zero or positive; use Gaussian or StudentT for any sign.")
