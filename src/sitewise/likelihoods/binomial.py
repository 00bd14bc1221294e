"""Binomial likelihood: successes in a given number of trials, each with probability σ(f) or Φ(f)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammaln
from jax.typing import ArrayLike
from scipy import special

from sitewise.likelihoods.base import Likelihood
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf
from sitewise.numerics.quadrature.gaussian_rules import expect_with_slopes
from sitewise.numerics.quadrature.tilted_logistic import slopes_by_var, tilted_by_logistic
from sitewise.types import module, static


@module
class Binomial(Likelihood):
    """Binomial regression: successes in a known number of trials.

    y has the columns successes and trials.

    Parameters
    ----------
    link : str, default="logit"
        "logit" or "probit".
    """

    link: str = static(default="logit", kw_only=True)

    name: ClassVar[str] = "binomial"
    about: ClassVar[str] = "successes in a known number of trials"
    support: ClassVar[str] = "counts"
    log_concave: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = ("successes", "trials")
    keywords: ClassVar[tuple[str, ...]] = ("trials",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in ("logit", "probit"):
            raise ValueError(f"Binomial: link must be 'logit' or 'probit', got {self.link!r}.")

    def _log_success(self, f: Array) -> Array:
        return jax.nn.log_sigmoid(f) if self.link == "logit" else log_cdf(f)

    def log_prob(self, y: Array, f: Array) -> Array:
        k, n = y[..., 0], y[..., 1]
        choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return choose + k * self._log_success(f) + (n - k) * self._log_success(-f)

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        if self.link != "logit":
            return None
        k, n = y[..., 0], y[..., 1]
        chance = special.expit(f)
        bend = n * chance * special.expit(-f)
        value = _log_choose(k, n) + k * special.log_expit(f) + (n - k) * special.log_expit(-f)
        return np.stack([value, k - n * chance, -bend, -bend * (1 - 2 * chance)])

    def expected_log_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return derivatives of log C(n, k) + k m + n E[log σ(−f)]."""
        if self.quadrature is not None or self.link != "logit":
            return None
        k, n = y[..., 0], y[..., 1]
        found = n * expect_with_slopes(special.log_expit, -mean, var)
        found[1::2] *= -1
        found[0] += _log_choose(k, n) + k * mean
        found[1] += k
        return found

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        if self.quadrature is not None or self.link != "logit":
            return None
        k, n = y[..., 0], y[..., 1]
        found = tilted_by_logistic(k, n, mean, var)
        if found is None:
            return None
        return np.stack([_log_choose(k, n) + found.log_integral, *found.slopes[:3], *slopes_by_var(found.slopes)])

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The f with probability (k + ½)/(n + 1), and the width 1/√(n p(1−p)) there.

        The width serves for the probit link as well, because p(1−p) ≤ 2(Φ')².
        """
        return self._landmark_with_prior_counts(y, 0.5)

    def _landmark_with_prior_counts(self, y: Array, added: float) -> tuple[Array, Array]:
        """Return centre and width for the share of successes after adding `added` successes and failures."""
        total = y[..., 1] + 2 * added
        p = (y[..., 0] + added) / total
        width = 1 / jnp.sqrt(total * p * (1 - p))
        if self.link == "probit":
            return jax.scipy.stats.norm.ppf(p), jnp.minimum(width, 1.0)
        return jnp.log(p) - jnp.log1p(-p), width

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """The middle of the steep edge exp(−n e^−f) that p has without failures (or successes)."""
        return self._landmark_with_prior_counts(y, 1.5)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """log σ and log Φ bend at 0 for all counts."""
        return jnp.zeros_like(y[..., 0]), jnp.ones_like(y[..., 0])

    def row(self, value: Array, side: Array | None = None) -> Array:
        side = jnp.ones_like(value) if side is None else jnp.broadcast_to(side, value.shape)
        return jnp.stack([value, side], axis=-1)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Return the f of the overall share of successes, with half a success and half a failure added."""
        successes, trials = np.sum(weight * y[..., 0]) + 0.5, np.sum(weight * y[..., 1]) + 1.0
        p = float(successes / trials)
        return float(np.log(p) - np.log1p(-p)) if self.link == "logit" else float(special.ndtri(p))

    def response_mean(self, f: Array, side: Array | float | None = None) -> Array:
        share = jnp.exp(self._log_success(f))
        return share if side is None else side * share

    def response_var(self, f: Array, side: Array | float | None = None) -> Array:
        one = jnp.exp(self._log_success(f) + self._log_success(-f))
        return one if side is None else side * one

    def cdf(self, y: Array, f: Array) -> Array:
        k, n = jnp.floor(y[..., 0]), y[..., 1]
        inside = (k >= 0) & (k < n)
        k, n = jnp.where(inside, k, 0.0), jnp.where(inside, n, 1.0)
        below = betainc(n - k, k + 1, jnp.exp(self._log_success(-f)))
        return jnp.where(inside, below, jnp.where(y[..., 0] < 0, 0.0, 1.0))

    def sample(self, key: Array, f: Array, side: Array | None = None) -> Array:
        p = self.response_mean(f)
        if side is None:
            return jax.random.bernoulli(key, p).astype(f.dtype)
        return jax.random.binomial(key, jnp.broadcast_to(side, f.shape), p, dtype=f.dtype)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if np.any(y != np.floor(y)) or np.any(y[..., 0] < 0) or np.any(y[..., 1] < 1) or np.any(y[..., 0] > y[..., 1]):
            raise ValueError(
                "Binomial: successes and trials must be whole numbers with 0 ≤ successes ≤ trials, trials ≥ 1."
            )


def _log_choose(k: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))
