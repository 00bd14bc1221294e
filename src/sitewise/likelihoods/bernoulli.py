"""Bernoulli likelihoods for two classes, y > 0 and y ≤ 0, with probit (Φ) or logit link."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy import special

from sitewise.arrays.engine import namespace
from sitewise.likelihoods.base import Likelihood, Power, is_one
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf, log_cdf_slopes, log_cdf_values
from sitewise.numerics.quadrature.gaussian_rules import expect_with_slopes
from sitewise.types import module


def _sign(y: Array) -> Array:
    return jnp.where(y > 0, 1.0, -1.0).astype(y.dtype)


def check_labels(name: str, y: ArrayLike) -> None:
    """Raise ValueError unless two classes are coded as −1 and 1, or as 0 and 1."""
    values = np.asarray(y)
    if not (np.all(np.isin(values, (-1, 1))) or np.all(np.isin(values, (0, 1)))):
        found = np.unique(values).tolist()
        raise ValueError(
            f"{name}: y must hold the labels −1 and 1, or 0 and 1, but holds "
            f"{', '.join(f'{v:g}' for v in found[:4])}{', …' if len(found) > 4 else ''}; code the two classes as "
            "np.where(y == positive, 1, -1)."
        )


@module
class _Bernoulli(Likelihood):
    support: ClassVar[str] = "classes"
    log_concave: ClassVar[bool] = True

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        check_labels(type(self).__name__, y)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        xp = namespace(y)
        return xp.zeros_like(y), xp.ones_like(y)

    def response_mean(self, f: Array) -> Array:
        return jnp.exp(self.log_prob(jnp.ones_like(f), f))

    def response_var(self, f: Array) -> Array:
        ones = jnp.ones_like(f)
        return jnp.exp(self.log_prob(ones, f) + self.log_prob(-ones, f))

    def cdf(self, y: Array, f: Array) -> Array:
        return jnp.where(y < 0, 0.0, jnp.where(y < 1, 1 - self.response_mean(f), 1.0))

    def sample(self, key: Array, f: Array) -> Array:
        return jax.random.bernoulli(key, self.response_mean(f)).astype(f.dtype)


@module
class BernoulliProbit(_Bernoulli):
    """Binary classification with the probit link, p(y | f) = Φ(±f)."""

    name: ClassVar[str] = "probit"
    about: ClassVar[str] = "classes, with the probit link"

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_cdf(_sign(y) * f)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Φ(±m/√(1+v)) for power 1 (R&W eq. 3.82)."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        return log_cdf(_sign(y) * mean / jnp.sqrt(1 + var))

    def response_mean_values(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(special.ndtr(f))

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        sign = np.where(y > 0, 1.0, -1.0)
        found = log_cdf_slopes(sign * f)
        found[1::2] *= sign
        return found

    def expected_log_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        if self.quadrature is not None:
            return None
        sign = np.where(y > 0, 1.0, -1.0)
        found = expect_with_slopes(log_cdf_values, sign * mean, var)
        found[1::2] *= sign
        return found

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return derivatives of ℓ = log Φ(z), z = ±m u, u² = 1/(1+v): ∂u/∂v = −½ u³ and ∂z/∂v = −½ z u²."""
        if self.quadrature is not None:
            return None
        u = np.where(y > 0, 1.0, -1.0) / np.sqrt(1 + var)
        z = u * mean
        value, h, h1, h2 = log_cdf_slopes(z)
        square = u * u
        return np.stack(
            [
                value, u * h, square * h1, square * u * h2,
                -0.5 * u * square * (h + z * h1), -0.5 * square**2 * (2 * h1 + z * h2),
            ]
        )  # fmt: skip


_MAX_EQUAL_VARIANCE = 25.0  # of f, for equally spaced nodes
_PROBIT_VARIANCE = 1e6  # variance of f above which a probit link replaces the logit link


@module
class BernoulliLogit(_Bernoulli):
    """Binary classification with the logit link (logistic regression), p(y | f) = 1/(1 + exp(∓f))."""

    name: ClassVar[str] = "logit"
    about: ClassVar[str] = "classes, with the logit link"

    def log_prob(self, y: Array, f: Array) -> Array:
        return -jax.nn.softplus(-_sign(y) * f)

    def response_mean_values(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(special.expit(f))

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Quadrature; for large v the closed form Φ(±m/√(v + π²/3)), whose error is O(v⁻²)."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        wide = var > _PROBIT_VARIANCE
        usual = super().log_expected_prob(y, mean, jnp.where(wide, _PROBIT_VARIANCE, var), power)
        return jnp.where(wide, log_cdf(_sign(y) * mean / jnp.sqrt(var + jnp.pi**2 / 3)), usual)

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return derivatives of log σ(z), z = ±f: 1 − σ, −σ(1 − σ), −σ(1 − σ)(1 − 2σ)."""
        sign = np.where(y > 0, 1.0, -1.0)
        z = sign * f
        other = special.expit(-z)  # 1 − σ
        bend = other * special.expit(z)
        return np.stack([special.log_expit(z), sign * other, -bend, sign * bend * (1 - 2 * other)])

    def expected_log_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        if self.quadrature is not None:
            return None
        sign = np.where(y > 0, 1.0, -1.0)
        found = expect_with_slopes(special.log_expit, sign * mean, var)
        found[1::2] *= sign
        return found

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return derivatives of ℓ = log E[σ(z)], z ~ N(±m, v), by equally spaced nodes; None for wide Gaussians.

        By σ(z) = eᶻ σ(−z), ℓ(m, v) = m + v/2 + ℓ(−m − v, v).  The right-hand side is used for ±m < −v/2, where E[σ]
        is small and the quadrature would lose digits.
        """
        if self.quadrature is not None or var.max(initial=0.0) > _MAX_EQUAL_VARIANCE:
            return None
        sign = np.where(y > 0, 1.0, -1.0)
        z = sign * mean
        low = z < -0.5 * var
        h0, h1, h2, h3, h4 = expect_with_slopes(special.expit, np.where(low, -z - var, z), var)
        value, first, bend = np.log(h0), h1 / h0, h2 / h0
        second = bend - first**2
        third = h3 / h0 - 3 * first * bend + 2 * first**3
        first_by_var = 0.5 * (h3 / h0 - first * bend)
        second_by_var = 0.5 * (h4 / h0 - bend**2) - 2 * first * first_by_var
        return np.stack(
            [
                value + np.where(low, z + 0.5 * var, 0.0),
                sign * np.where(low, 1 - first, first),
                second,
                sign * np.where(low, -third, third),
                sign * np.where(low, second - first_by_var, first_by_var),
                np.where(low, second_by_var - third, second_by_var),
            ]
        )
