"""Base class of survival likelihoods (Weibull, log-logistic): log T = f + noise/shape, with censored lifetimes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, positive_baseline
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive, static


@module
class Lifetime(Likelihood):
    """Accelerated failure times (survival analysis): u = shape · (log t − f) has the same distribution in all rows.

    P(U > u) = exp `_log_survival`(u), which subclasses define.

    Parameters
    ----------
    shape : float, default=1.0
        Shape of the distribution of lifetimes; learned.
    censored : bool, default=False
        False: y is one lifetime per row.  True: the lifetime lies between the columns low and high of y, with low =
        high for an observed lifetime, high = inf if right-censored, low ≤ 0 if left-censored, else
        interval-censored.
    """

    shape: ArrayField = positive(default=1.0)
    censored: bool = static(default=False, kw_only=True)

    support: ClassVar[str] = "positive"
    log_concave: ClassVar[bool] = True
    rule: ClassVar[Rule] = Landmark(points=96)  # more than the default, for the two ends of an interval
    keywords: ClassVar[tuple[str, ...]] = ("lower", "upper", "event", "until")

    # -- the distribution of u ------------------------------------------------------------------------

    @staticmethod
    def _log_density(u: Array) -> Array:
        raise NotImplementedError

    @staticmethod
    def _log_survival(u: Array) -> Array:
        raise NotImplementedError

    @staticmethod
    def _log_cdf(u: Array) -> Array:
        raise NotImplementedError

    @staticmethod
    def _log_between(u: Array, gap: Array) -> Array:
        """Return log P(u < U < u + gap)."""
        raise NotImplementedError

    @property
    def _k(self) -> Array:
        """The shape, k in the formulas."""
        return self.shape

    # -- rows -----------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("low", "high") if self.censored else ("y",)

    def with_keywords(self, names: Collection[str]) -> Lifetime:
        super().with_keywords(names)
        return dataclasses.replace(self, censored=bool(names))

    def row(self, value: Array) -> Array:
        return jnp.stack([value, value], axis=-1) if self.censored else value

    def _ends(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """Return which rows lack a lower and an upper limit, and the log limits; a missing one repeats the other."""
        low, high = y[..., 0], y[..., 1]
        below, above = low <= 0, jnp.isinf(high)
        log_low = jnp.log(jnp.where(below, 1.0, low))
        log_high = jnp.log(jnp.where(above, 1.0, high))
        return below, above, jnp.where(below, log_high, log_low), jnp.where(above, log_low, log_high)

    def _value(self, log_y: Array, f: Array) -> Array:
        return self._log_density(self.shape * (log_y - f)) + jnp.log(self.shape) - log_y

    def log_prob(self, y: Array, f: Array) -> Array:
        if not self.censored:
            return self._value(jnp.log(y), f)
        below, above, low, high = self._ends(y)
        seen = low == high
        u = self.shape * (low - f)
        # Every branch has an argument at which its value and derivative are finite.
        between = self._log_between(u, self.shape * jnp.where(seen, 1.0, high - low))
        observed = jnp.where(seen, self._value(low, f), between)
        return jnp.where(below, self._log_cdf(u), jnp.where(above, self._log_survival(u), observed))

    def landmark(self, y: Array) -> tuple[Array, Array]:
        width = 1 / jnp.asarray(self.shape, y.dtype)
        if not self.censored:
            return jnp.log(y), jnp.broadcast_to(width, y.shape)
        _, _, low, high = self._ends(y)
        return 0.5 * (low + high), width + 0.25 * (high - low)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """Both limits, where p falls on the scale of the noise; a missing or equal limit gets an infinite width."""
        if not self.censored:
            return self.landmark(y)
        _, _, low, high = self._ends(y)
        width = jnp.broadcast_to(1 / jnp.asarray(self.shape, y.dtype), low.shape)
        return jnp.stack([low, high]), jnp.stack([width, jnp.where(low == high, jnp.inf, width)])

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return self._prob_landmarks(y)

    # -- starting values, prediction and checks --------------------------------------------------------

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        """log(total time / number of events): the estimate for exponential lifetimes."""
        if not self.censored:
            return float(np.log(np.average(y, weights=weight)))
        low, high = np.maximum(y[..., 0], 0.0), y[..., 1]
        ended = np.isfinite(high)
        time = np.where(ended, 0.5 * (low + np.where(ended, high, 0.0)), low)
        return float(np.log(np.sum(weight * time) / max(np.sum(weight * ended), 0.5)))

    def missing_information(self, y: np.ndarray) -> str:
        if not self.censored:
            return super().missing_information(y)
        if np.all(np.isinf(y[..., 1])):
            return (
                "All lifetimes are right-censored: the data contain no event, so that predicted lifetimes are "
                "determined by the prior."
            )
        if np.all(y[..., 0] <= 0):
            return (
                "All lifetimes are left-censored: the data contain no time of an event, so that predicted "
                "lifetimes are determined by the prior."
            )
        return ""

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        return positive_baseline(y)

    def cdf(self, y: Array, f: Array) -> Array:
        """Distribution function of the uncensored lifetime, at `high`."""
        time = y[..., 1] if self.censored else y
        u = self.shape * (jnp.log(jnp.where(time > 0, time, 1.0)) - f)
        return jnp.where(time > 0, jnp.exp(self._log_cdf(u)), 0.0)

    def survival(self, time: Array, f: Array) -> Array:
        """Return the survival function P(T > time | f)."""
        return jnp.exp(self._log_survival(self.shape * (jnp.log(time) - f)))

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        name, y = type(self).__name__, np.asarray(y)
        if not self.censored:
            if np.any(y <= 0):
                raise ValueError(
                    f"{name}: lifetimes must be positive; replace zeros by a small time, such as half the resolution."
                )
            return
        low, high = np.maximum(y[..., 0], 0.0), y[..., 1]
        if np.any(low > high) or np.any(high <= 0) or np.any(np.isinf(low)) or np.any((low == 0) & np.isinf(high)):
            raise ValueError(f"{name}: every row needs low ≤ high and high > 0, and either low > 0 or a finite high.")
