"""Beta-binomial likelihood: overdispersed successes in trials, probability ~ Beta(μ·precision, (1−μ)·precision).

μ = σ(f) is the mean probability of success; the probability differs from row to row.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import gammaln
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood
from sitewise.likelihoods.binomial import Binomial
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive


@module
class BetaBinomial(Likelihood):
    """Beta-binomial regression: overdispersed successes in a known number of trials.

    y has the columns successes and trials n.  Var[y | f] = n μ(1−μ) (n + precision)/(1 + precision) with μ = σ(f); the
    limit precision → ∞ is the binomial distribution.  Not log-concave for every y.

    Parameters
    ----------
    precision : float, default=10.0
        Larger values mean less overdispersion; learned.
    """

    precision: ArrayField = positive(default=10.0)

    name: ClassVar[str] = "beta_binomial"
    about: ClassVar[str] = "successes in a known number of trials, overdispersed compared with binomial"
    support: ClassVar[str] = "counts"
    columns: ClassVar[tuple[str, ...]] = ("successes", "trials")
    keywords: ClassVar[tuple[str, ...]] = ("trials",)
    rule: ClassVar[Rule] = Landmark(points=96)

    def _logs(self, f: Array) -> tuple[Array, Array]:
        """Return log a and log b of the Beta(a, b) distribution of the probability."""
        p = jnp.log(self.precision)
        return p + jax.nn.log_sigmoid(f), p + jax.nn.log_sigmoid(-f)

    def log_prob(self, y: Array, f: Array) -> Array:
        """log C(n, k) + log B(k + a, n − k + b) − log B(a, b), with Γ(a) = Γ(1 + a)/a where a may be close to 0."""
        k, n = y[..., 0], y[..., 1]
        log_a, log_b = self._logs(f)
        a, b = jnp.exp(log_a), jnp.exp(log_b)
        choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        whole = gammaln(self.precision) - gammaln(n + self.precision)
        return choose + whole + _log_rising_factorial(a, log_a, k) + _log_rising_factorial(b, log_b, n - k)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The f with μ = (k + ½)/(n + 1), and the standard deviation of the log odds there.

        This standard deviation is about √(1/k + 1/(n−k) + 1/a + 1/b).
        """
        total = y[..., 1] + 1.0
        share = (y[..., 0] + 0.5) / total
        centre = jnp.log(share) - jnp.log1p(-share)
        width = jnp.sqrt((1 / total + 1 / self.precision) / (share * (1 - share)))
        return centre, jnp.minimum(width, 2.0)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """The log odds ±log(1 + precision): log p bends near a = 1 and b = 1, on a scale of 1."""
        turn = jnp.broadcast_to(jnp.log1p(jnp.asarray(self.precision, y.dtype)), y.shape[:-1])
        return jnp.stack([turn, -turn]), jnp.ones((2, *turn.shape), turn.dtype)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        centre, width = self.landmark(y)
        return centre, jnp.minimum(width, 1.2)

    def row(self, value: Array, side: Array | None = None) -> Array:
        side = jnp.ones_like(value) if side is None else jnp.broadcast_to(side, value.shape)
        return jnp.stack([value, side], axis=-1)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        return Binomial().level(y, weight)

    def response_mean(self, f: Array, side: Array | float | None = None) -> Array:
        share = jax.nn.sigmoid(f)
        return share if side is None else side * share

    def response_var(self, f: Array, side: Array | float | None = None) -> Array:
        one = jax.nn.sigmoid(f) * jax.nn.sigmoid(-f)
        return one if side is None else side * one * (side + self.precision) / (1 + self.precision)

    def cdf(self, y: Array, f: Array) -> Array:
        """Σ_{j ≤ k} p(j) by the ratio of neighbouring terms, starting from the nearer of 0 and n."""
        k, n = jnp.broadcast_arrays(jnp.floor(y[..., 0]), y[..., 1])
        inside = (k >= 0) & (k < n)
        k, n = jnp.where(inside, k, 0.0), jnp.where(inside, n, 1.0)
        mirrored = 2 * k + 1 > n
        last = jnp.where(mirrored, n - k - 1, k)
        a, b = (jnp.exp(log) for log in self._logs(jnp.where(mirrored, -f, f)))
        last, n, a, b = jnp.broadcast_arrays(last, n, a, b)
        first = self.log_prob(jnp.stack([jnp.zeros_like(n), n], axis=-1), jnp.where(mirrored, -f, f))

        def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            j, log_term, total = state
            ratio = (n - j) * (a + j) / ((j + 1) * (b + n - j - 1))
            log_term = log_term + jnp.log(jnp.where(j < last, ratio, 1.0))
            return j + 1, log_term, jnp.where(j < last, jnp.logaddexp(total, log_term), total)

        start = (jnp.zeros((), f.dtype), first, first)
        share = jnp.exp(lax.while_loop(lambda state: state[0] < jnp.max(last), add, start)[2])
        return jnp.where(inside, jnp.where(mirrored, 1 - share, share), jnp.where(y[..., 0] < 0, 0.0, 1.0))

    def sample(self, key: Array, f: Array, side: Array | None = None) -> Array:
        first, second = jax.random.split(key)
        a, b = (jnp.exp(log) for log in self._logs(f))
        share = jax.random.beta(first, a, b, f.shape, f.dtype)
        trials = jnp.broadcast_to(1.0 if side is None else side, f.shape).astype(f.dtype)
        return jax.random.binomial(second, trials, share, dtype=f.dtype)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if np.any(y != np.floor(y)) or np.any(y[..., 0] < 0) or np.any(y[..., 1] < 1) or np.any(y[..., 0] > y[..., 1]):
            raise ValueError(
                "BetaBinomial: successes and trials must be whole numbers with 0 ≤ successes ≤ trials, trials ≥ 1."
            )


def _log_rising_factorial(a: Array, log_a: Array, k: Array) -> Array:
    """Return log Γ(a + k)/Γ(a) for k = 0, 1, …, accurate also for a close to 0."""
    some = k > 0
    return jnp.where(some, gammaln(a + jnp.where(some, k, 1.0)) - gammaln(1 + a) + log_a, 0.0)
