"""Base class of zero-inflated counts: with probability `inflation` a count is zero, independently of its rate.

    p(0 | f) = π + (1 − π) q(0 | f),    p(y | f) = (1 − π) q(y | f) for y > 0

π is the inflation and q the distribution of counts without inflation.  log p(0 | f) is not concave: it falls like
log q(0 | f) down to log π and is flat beyond.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sitewise.likelihoods.negative_binomial import NegativeBinomial
from sitewise.likelihoods.poisson import Poisson
from sitewise.likelihoods.rate import Counts
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule, expect
from sitewise.types import ArrayField, bounded, module, replace

# The quadrature over f and over log odds that vary with x: 384 nodes.  Its error is below 1e-6 for standard deviations
# of at most 1, and below 1e-4 for standard deviations of 3 of f and 2 of the log odds.
_RULE_OF_ZEROS, _NODES_IN_LOG_ODDS = Landmark(points=32), 12
_EPS = float(np.finfo(float).eps)


@module
class ZeroInflated(Counts):
    """Zero-inflated counts; subclasses define the counts without inflation (`plain`).

    Parameters
    ----------
    inflation : float, default=0.2
        The probability of an excess zero, between 0 and 1; learned.
    """

    inflation: ArrayField = bounded(0.0, 1.0, default=0.2)

    rule: ClassVar[Rule] = Landmark(points=112)  # log p(0 | f) has a slope and a knee
    varying: ClassVar[tuple[str, ...]] = ("inflation",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link != "log":
            raise ValueError(f"{type(self).__name__}: link must be 'log', got {self.link!r}.")

    @property
    def absorbs_row_effects(self) -> bool:
        return self.plain().absorbs_row_effects

    @property
    def _log_inflation(self) -> Array:
        return jnp.log(self.inflation)

    def plain(self) -> Poisson | NegativeBinomial:
        """Return the likelihood q of the counts without inflation."""
        raise NotImplementedError

    def _knee(self) -> tuple[Array, Array]:
        """Return the log mean count, at least 0, at which q(0) = π, and the width of the knee there."""
        raise NotImplementedError

    @classmethod
    def for_targets(cls, y: np.ndarray, weight: np.ndarray) -> ZeroInflated:
        """Start with an inflation of half the share of zeros."""
        return cls(inflation=float(np.clip(0.5 * np.average(y == 0, weights=weight), 0.05, 0.9)))

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        return super().level(y, weight) - float(np.log1p(-np.asarray(self.inflation)))

    def _positive(self, y: Array) -> tuple[Array, Array]:
        """Return which counts are positive, and the table with zero counts replaced by 1."""
        count, _ = self.split(y)
        seen = count > 0
        if not self.exposure:
            return seen, jnp.where(seen, y, 1.0)
        return seen, jnp.stack([jnp.where(seen, count, 1.0), y[..., 1]], axis=-1)

    def _zeros(self, y: Array) -> Array:
        """Return the table with all counts replaced by 0."""
        count, _ = self.split(y)
        return jnp.stack([jnp.zeros_like(count), y[..., 1]], axis=-1) if self.exposure else jnp.zeros_like(y)

    def log_prob(self, y: Array, f: Array) -> Array:
        seen, events = self._positive(y)
        plain, share = self.plain(), jnp.log1p(-self.inflation)
        none = jnp.logaddexp(self._log_inflation, share + plain.log_prob(self._zeros(y), f))
        return jnp.where(seen, share + plain.log_prob(events, f), none)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return self.plain().landmark(y)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return self.plain()._prob_landmarks(y)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """For zero counts the knee and the f with mean count 1; for positive counts the landmarks of q."""
        seen, events = self._positive(y)
        _, log_exposure = self.split(y)
        centre, width = self.plain()._log_prob_landmarks(events)
        knee, sharp = self._knee()
        first = jnp.where(seen, centre, knee - log_exposure), jnp.where(seen, width, sharp)
        second = jnp.where(seen, centre, -log_exposure), jnp.where(seen, jnp.inf, 1.0)
        return jnp.stack([first[0], second[0]]), jnp.stack([first[1], second[1]])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Return log(1 − π) + E[log q] for positive counts, in closed form if q has one; quadrature for zero counts."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        seen, events = self._positive(y)
        with_events = jnp.log1p(-self.inflation) + self.plain().expected_log_prob(events, mean, var)
        return jnp.where(seen, with_events, super().expected_log_prob(self._zeros(y), mean, var))

    def expected_log_prob_of_both(self, parameter: str, y: Array, mean: Array, cov: Array) -> Array | None:
        """Return E[log p(y)] over f and the log odds g of the inflation.  With c = −log q(0 | f),

            log p(0) = log σ(g) + log(1 + e^(−g − c)),    log p(y) = log σ(−g) + log q(y | f) for y > 0

        The first is a quadrature over f at landmarks, and over g given f by Gauss–Hermite nodes.
        """
        if parameter != "inflation" or self.quadrature is not None:
            return None
        seen, events = self._positive(y)
        plain, zeros = self.plain(), self._zeros(y)
        z, w = np.polynomial.hermite_e.hermegauss(_NODES_IN_LOG_ODDS)
        w = w / np.sum(w)

        def softplus(m: Array, v: Array) -> Array:
            """Return E[log(1 + eᵍ)] over g ~ N(m, v)."""
            nodes = z.reshape(-1, *(1,) * jnp.ndim(m)).astype(m.dtype)
            return jnp.tensordot(jnp.asarray(w, m.dtype), jax.nn.softplus(m + jnp.sqrt(v) * nodes), axes=1)

        m, v, slope = mean[0], cov[:, 0, 0], cov[:, 0, 1] / cov[:, 0, 0]
        rest = jnp.maximum(cov[:, 1, 1] - slope * cov[:, 0, 1], _EPS * cov[:, 1, 1])
        inflated = replace(self, inflation=jax.nn.sigmoid(lax.stop_gradient(mean[1])))
        centre, width = inflated._log_prob_landmarks(zeros)
        none = expect(
            lambda f: softplus(plain.log_prob(zeros, f) - mean[1] - slope * (f - m), rest),
            m, v, rule=_RULE_OF_ZEROS, centre=centre, width=width,
        )  # fmt: skip
        with_events = plain.expected_log_prob(events, m, v)
        sign = jnp.where(seen, 1.0, -1.0)
        return jnp.where(seen, with_events, none) - softplus(sign * mean[1], cov[:, 1, 1])

    def response_mean(self, f: Array, side: Array | float | None = None) -> Array:
        return (1 - self.inflation) * super().response_mean(f, side)

    def response_var(self, f: Array, side: Array | None = None) -> Array:
        plain = self.plain()
        return (1 - self.inflation) * (plain.response_var(f, side) + self.inflation * plain.response_mean(f, side) ** 2)

    def cdf(self, y: Array, f: Array) -> Array:
        count, _ = self.split(y)
        return jnp.where(count < 0, 0.0, self.inflation + (1 - self.inflation) * self.plain().cdf(y, f))

    def sample(self, key: Array, f: Array, side: Array | None = None) -> Array:
        first, second = jax.random.split(key)
        none = jax.random.bernoulli(first, self.inflation, f.shape)
        return jnp.where(none, 0.0, self.plain().sample(second, f, side))
