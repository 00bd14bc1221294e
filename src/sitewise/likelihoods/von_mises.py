"""Von Mises likelihood for angles in radians: y = f + von Mises noise, where y and y + 2π are the same angle.

    p(y | f) = exp(κ cos(y − f)) / (2π I₀(κ)),    κ = concentration

f is an angle on the line, not on the circle: it may pass ±π without a jump.  log p is not concave, because p has a mode
in every turn.  The turn of the posterior is determined by the prior mean, which starts at the mean direction.
Predictions of y are on the line as well: near f, and beyond ±π if f is beyond ±π.

    E[log p] = κ e^(−v/2) cos(y − m) − log 2πI₀(κ)
    E[p]     = (1 + 2 Σ_n (I_n/I₀) e^(−n²v/2) cos n(y − m)) / 2π
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import i0e
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive

_SERIES_VARIANCE = 0.5  # variance of f above which `_HARMONICS` terms of the series for E[p] suffice
_HARMONICS = 14
_CDF_TERMS = 60  # of the series for the distribution function, enough for concentrations up to `_MAX_CDF_CONCENTRATION`
_MAX_CDF_CONCENTRATION = 80.0
_TURN = 2 * np.pi
_EXTRA_ORDERS = 40  # above the highest wanted order, where the downward recursion of Bessel ratios starts


def _bessel_ratios(kappa: Array, highest: int) -> Array:
    """Return I_n(κ)/I₀(κ) for n = 1, …, highest on a leading axis, by I_n/I_{n−1} = κ/(2n + κ I_{n+1}/I_n).

    The recursion is a `scan`, because an unrolled loop would take a minute to compile.
    """

    def down(ratio: Array, n: Array) -> tuple[Array, Array]:
        ratio = kappa / (2 * n + kappa * ratio)
        return ratio, ratio

    orders = jnp.arange(highest + _EXTRA_ORDERS, 0, -1, dtype=kappa.dtype)
    return jnp.cumprod(lax.scan(down, jnp.zeros_like(kappa), orders)[1][::-1], axis=0)[:highest]


@module
class VonMises(Likelihood):
    """Von Mises noise of angles in radians, with a learned concentration κ."""

    concentration: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "von_mises"
    about: ClassVar[str] = "angles in radians"
    period: ClassVar[float | None] = _TURN
    rule: ClassVar[Rule] = Landmark(points=120)

    def _log_height(self) -> Array:
        """log p at its maximum f = y."""
        return -jnp.log(_TURN * i0e(self.concentration))

    def log_prob(self, y: Array, f: Array) -> Array:
        """κ (cos d − 1) = −2κ sin²(d/2)."""
        return self._log_height() - 2 * self.concentration * jnp.sin(0.5 * (y - f)) ** 2

    def landmark(self, y: Array) -> tuple[Array, Array]:
        width = jnp.minimum(1 / jnp.sqrt(jnp.asarray(self.concentration, y.dtype)), 1.0)
        return y, jnp.broadcast_to(width, y.shape)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """The modes of this turn and of the two neighbouring turns."""
        centre, width = self.landmark(y)
        return jnp.stack([centre, centre - _TURN, centre + _TURN]), jnp.stack([width] * 3)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        d = y - mean
        lost = -jnp.expm1(-0.5 * var) * jnp.cos(d) + 2 * jnp.sin(0.5 * d) ** 2
        return self._log_height() - self.concentration * lost

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Quadrature in the turn of the mean; for large variances the series, with power · κ in place of κ."""
        if self.quadrature is not None:
            return super().log_expected_prob(y, mean, var, power)
        near = y + _TURN * lax.stop_gradient(jnp.round((mean - y) / _TURN))
        wide = var > _SERIES_VARIANCE
        usual = super().log_expected_prob(near, mean, jnp.where(wide, _SERIES_VARIANCE, var), power)
        kappa = power * jnp.asarray(self.concentration, near.dtype)
        column = (-1,) + (1,) * near.ndim
        n = jnp.arange(1, _HARMONICS + 1, dtype=near.dtype).reshape(column)
        ratios = _bessel_ratios(kappa, _HARMONICS)
        ratios = ratios.reshape(column) if kappa.ndim == 0 else ratios
        damped = ratios * jnp.exp(-0.5 * n**2 * jnp.where(wide, var, 1.0)) * jnp.cos(n * (near - mean))
        total = i0e(kappa) * jnp.maximum(1 + 2 * jnp.sum(damped, axis=0), 1e-300)
        return jnp.where(wide, jnp.log(total) + power * self._log_height(), usual)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        """The mean direction."""
        return float(np.arctan2(np.sum(weight * np.sin(y)), np.sum(weight * np.cos(y))))

    def response_mean(self, f: Array) -> Array:
        return f

    def response_var(self, f: Array) -> Array:
        """E[d²] = π²/3 + 4 Σ_n (−1)ⁿ I_n/(I₀ n²); for high concentrations (1 + 1/2κ)/κ, nearly Gaussian."""
        kappa = jnp.minimum(jnp.asarray(self.concentration, f.dtype), _MAX_CDF_CONCENTRATION)
        n = jnp.arange(1, _CDF_TERMS + 1, dtype=f.dtype)
        series = jnp.pi**2 / 3 + 4 * jnp.sum((-1) ** n * _bessel_ratios(kappa, _CDF_TERMS) / n**2)
        sharp = (1 + 0.5 / self.concentration) / self.concentration
        return jnp.broadcast_to(jnp.where(self.concentration > _MAX_CDF_CONCENTRATION, sharp, series), f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        """½ + d/2π + Σ_n I_n/(I₀ nπ) sin(nd) for |d| = |y − f| ≤ π.

        For high concentrations Φ(b sin(d/2)) with b = √(2/π) e^κ/I₀(κ), with an error below 1e-5.
        """
        d = jnp.clip(y - f, -jnp.pi, jnp.pi)
        kappa = jnp.minimum(jnp.asarray(self.concentration, d.dtype), _MAX_CDF_CONCENTRATION)
        n = jnp.arange(1, _CDF_TERMS + 1, dtype=d.dtype)
        weight = _bessel_ratios(kappa, _CDF_TERMS) / (jnp.pi * n)
        column = (-1,) + (1,) * d.ndim
        series = 0.5 + d / _TURN + jnp.sum(weight.reshape(column) * jnp.sin(n.reshape(column) * d), axis=0)
        sharp = norm.cdf(np.sqrt(2 / np.pi) / i0e(self.concentration) * jnp.sin(0.5 * d))
        return jnp.clip(jnp.where(self.concentration > _MAX_CDF_CONCENTRATION, sharp, series), 0.0, 1.0)

    def sample(self, key: Array, f: Array) -> Array:
        """Draw by rejection from a wrapped Cauchy distribution (Best & Fisher 1979)."""
        kappa = jnp.asarray(self.concentration, f.dtype)
        tau = 1 + jnp.sqrt(1 + 4 * kappa**2)
        rho = (tau - jnp.sqrt(2 * tau)) / (2 * kappa)
        r = jnp.where(kappa < 1e-3, 1 / kappa, (1 + rho**2) / (2 * jnp.where(rho == 0, 1.0, rho)))

        def attempt(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            key, done, cosine = state
            key, first, second = jax.random.split(key, 3)
            z = jnp.cos(jnp.pi * jax.random.uniform(first, f.shape, f.dtype))
            u = jax.random.uniform(second, f.shape, f.dtype, minval=1e-300)
            new = (1 + r * z) / (r + z)
            c = kappa * (r - new)
            taken = ~done & ((c * (2 - c) > u) | (jnp.log(c / u) + 1 - c >= 0))
            return key, done | taken, jnp.where(taken, new, cosine)

        key, own = jax.random.split(key)
        start = (key, jnp.zeros(f.shape, bool), jnp.ones(f.shape, f.dtype))
        _, _, cosine = lax.while_loop(lambda state: ~jnp.all(state[1]), attempt, start)
        side = jax.random.rademacher(own, f.shape, f.dtype)
        return f + side * jnp.arccos(jnp.clip(cosine, -1.0, 1.0))

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.abs(np.asarray(y)) > _TURN + 1e-6):
            raise ValueError(
                "VonMises: y must hold angles in radians between −2π and 2π; convert degrees by np.radians(y)."
            )
