"""What zero-inflated counts share: with probability `inflation` a row has no events at all, whatever its rate is.

    p(0 | f) = π + (1 − π) q(0 | f),    p(y | f) = (1 − π) q(y | f) for y > 0

with π = inflation and q the counts without inflation.  log p(0 | f) falls like log q(0 | f) down to log π and is flat
beyond: it is not concave.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sitewise.likelihoods.negative_binomial import NegativeBinomial
from sitewise.likelihoods.poisson import Poisson
from sitewise.likelihoods.rate import Counts
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, bounded, module


@module
class ZeroInflated(Counts):
    inflation: ArrayField = bounded(0.0, 1.0, default=0.2)

    rule: ClassVar[Rule] = Landmark(points=112)  # of no events log p has a knee and, before it, a slope

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link != "log":
            raise ValueError(f"{type(self).__name__}: link must be 'log', got {self.link!r}.")

    @property
    def _log_inflation(self) -> Array:
        return jnp.log(self.inflation)

    def plain(self) -> Poisson | NegativeBinomial:
        """The counts without inflation."""
        raise NotImplementedError

    def _knee(self) -> tuple[Array, Array]:
        """log of the mean count at which q(0) = π, at least 0, and the width of the knee there."""
        raise NotImplementedError

    @classmethod
    def for_targets(cls, y: np.ndarray) -> ZeroInflated:
        """Half of the zeros are taken to be due to inflation."""
        return cls(inflation=float(np.clip(0.5 * np.mean(np.asarray(y) == 0), 0.05, 0.9)))

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        return super().level(y, weight) - float(np.log1p(-np.asarray(self.inflation)))

    def _seen(self, y: Array) -> tuple[Array, Array]:
        """Which rows have events, and the table with one event in place of none."""
        count, _ = self.split(y)
        seen = count > 0
        if not self.exposure:
            return seen, jnp.where(seen, y, 1.0)
        return seen, jnp.stack([jnp.where(seen, count, 1.0), y[..., 1]], axis=-1)

    def _none(self, y: Array) -> Array:
        count, _ = self.split(y)
        return jnp.stack([jnp.zeros_like(count), y[..., 1]], axis=-1) if self.exposure else jnp.zeros_like(y)

    def log_prob(self, y: Array, f: Array) -> Array:
        seen, events = self._seen(y)
        plain, share = self.plain(), jnp.log1p(-self.inflation)
        none = jnp.logaddexp(self._log_inflation, share + plain.log_prob(self._none(y), f))
        return jnp.where(seen, share + plain.log_prob(events, f), none)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return self.plain().landmark(y)

    def _mass(self, y: Array) -> tuple[Array, Array]:
        return self.plain()._mass(y)

    def _bend(self, y: Array) -> tuple[Array, Array]:
        """Of no events: the knee, and where the mean count is 1.  Events have a closed form, or the landmark of q."""
        seen, events = self._seen(y)
        _, log_exposure = self.split(y)
        centre, width = self.plain()._bend(events)
        knee, sharp = self._knee()
        first = jnp.where(seen, centre, knee - log_exposure), jnp.where(seen, width, sharp)
        second = jnp.where(seen, centre, -log_exposure), jnp.where(seen, jnp.inf, 1.0)
        return jnp.stack([first[0], second[0]]), jnp.stack([first[1], second[1]])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """log(1 − π) + E[log q] where there are events, which may have a closed form."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        seen, events = self._seen(y)
        with_events = jnp.log1p(-self.inflation) + self.plain().expected_log_prob(events, mean, var)
        return jnp.where(seen, with_events, super().expected_log_prob(self._none(y), mean, var))

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
