"""Von Mises likelihood for angles in radians: y = f + von Mises noise, where y and y + 2π are the same angle.

    p(y | f) = exp(κ cos(y − f)) / (2π I₀(κ)),    κ = concentration

f is an angle on the line, not on the circle: it may pass ±π without a jump.  log p is not concave, because p has a mode
in every turn.  Inference starts from the turn around f = 0: every y is taken between −π and π.  Angles must therefore
be given relative to their mean direction.  Estimators subtract the mean direction, so that a fit does not depend on the
zero direction; with `Model`, subtract it from y (`level` returns it).  Predictions of y are on the line as well: near
f, and beyond ±π if f is beyond ±π.

With f ~ N(m, v) and d = y − m,

    E[log p]  = κ e^(−v/2) cos d − log 2πI₀(κ)
    E[p^a]    = E[exp(aκ cos(y − f))] / (2πI₀(κ))^a
    E[exp(κ cos(y − f))] = I₀(κ) (1 + 2 Σ_n (I_n/I₀)(κ) e^(−n²v/2) cos nd)

The series is used for v > ½, where 14 terms suffice for every κ and d: the sum is at least 4·10⁻⁴, so that no digits
are lost to cancellation.  For v ≤ ½ the expectation is a quadrature (`numerics.quadrature.cosine_rule`).  A
smoothed likelihood exp E_{N(f; s, r)}[log p(y|f)] is a von Mises density with κ e^(−r/2) in place of κ, up to a factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import i0e
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power, derivatives
from sitewise.numerics.quadrature.cosine_rule import MAX_VARIANCE, CosineRule
from sitewise.numerics.quadrature.gaussian_rules import log_expect_exp, tilted_moments
from sitewise.types import ArrayField, module, positive

T = TypeVar("T")

_HARMONICS = 14  # terms of the series for E[p]; they suffice for variances of f above `MAX_VARIANCE`
_CDF_TERMS = 60  # of the series for the distribution function, enough for concentrations up to `_MAX_CDF_CONCENTRATION`
_MAX_CDF_CONCENTRATION = 80.0
_TURN = 2 * np.pi
_EXTRA_ORDERS = 150  # above the highest wanted order, where the downward recursion of Bessel ratios starts


def wrapped(angle: Array) -> Array:
    """Return the angle in the turn from −π to π."""
    return angle - _TURN * jnp.round(angle / _TURN)


def _bessel_ratios(kappa: Array, highest: int) -> Array:
    """Return I_n(κ)/I₀(κ) for n = 1, …, highest on a leading axis, by I_n/I_{n−1} = κ/(2n + κ I_{n+1}/I_n).

    The recursion contracts slowly where κ is much larger than n.  It therefore starts from the uniform expansion of
    I_{ν+1}/I_ν in 1/ν (Debye), with z = κ/ν and p = 1/√(1 + z²):

        z [1/(1 + 1/p) − p²/(2ν) − p³(1 − 5p²)/(8ν²)] + O(κ⁻³)

    It is a `scan`, because an unrolled loop would take a minute to compile.
    """

    def down(ratio: Array, n: Array) -> tuple[Array, Array]:
        ratio = kappa / (2 * n + kappa * ratio)
        return ratio, ratio

    orders = jnp.arange(highest + _EXTRA_ORDERS, 0, -1, dtype=kappa.dtype)
    top = highest + _EXTRA_ORDERS
    z = kappa / top
    p = 1 / jnp.sqrt(1 + z**2)
    first = z * (1 / (1 + 1 / p) - p**2 / (2 * top) - p**3 * (1 - 5 * p**2) / (8 * top**2))
    return jnp.cumprod(lax.scan(down, first, orders)[1][::-1], axis=0)[:highest]


def _width(kappa: Array) -> Array:
    return jnp.minimum(1 / jnp.sqrt(kappa), 1.0)


def _log_expected_shape(y: Array, mean: Array, var: Array, kappa: Array) -> Array:
    """Return log E_{N(mean, var)}[exp(κ (cos(y − f) − 1))]."""
    wide = _log_series(y - mean, var, kappa)
    narrow = _by_quadrature(log_expect_exp, y, mean, var, kappa)
    return jnp.where(var > MAX_VARIANCE, wide, narrow)


def _log_series(d: Array, var: Array, kappa: Array) -> Array:
    """Return log(e^(−κ) I₀(κ) (1 + 2 Σ_n (I_n/I₀) e^(−n²v/2) cos nd)) for v > ½; for v ≤ ½ the value at v = ½."""
    var = jnp.where(var > MAX_VARIANCE, var, MAX_VARIANCE)
    column = (-1,) + (1,) * d.ndim
    n = jnp.arange(1, _HARMONICS + 1, dtype=d.dtype).reshape(column)
    ratios = _bessel_ratios(kappa, _HARMONICS)
    ratios = ratios.reshape(column) if kappa.ndim == 0 else ratios
    terms = ratios * jnp.exp(-0.5 * n**2 * var) * jnp.cos(n * d)
    return jnp.log(i0e(kappa)) + jnp.log1p(2 * jnp.sum(terms, axis=0))


def _by_quadrature(method: Callable[..., T], y: Array, mean: Array, var: Array, kappa: Array) -> T:
    """Apply a method of `gaussian_rules` to κ (cos(y − f) − 1), for v ≤ ½."""
    y, mean, var, kappa = jnp.broadcast_arrays(y, mean, jnp.where(var > MAX_VARIANCE, MAX_VARIANCE, var), kappa)
    return method(
        lambda f: -2 * kappa * jnp.sin(0.5 * (y - f)) ** 2, mean, var, rule=CosineRule(kappa), centre=y, width=y
    )


@module
class VonMises(Likelihood):
    """Circular regression: angles in radians with von Mises noise.

    Parameters
    ----------
    concentration : float, default=1.0
        Larger values mean less noise; learned.
    """

    concentration: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "von_mises"
    about: ClassVar[str] = "angles in radians"
    period: ClassVar[float | None] = _TURN

    def _log_height(self) -> Array:
        """log p at its maximum f = y."""
        return -jnp.log(_TURN * i0e(self.concentration))

    def log_prob(self, y: Array, f: Array) -> Array:
        """κ (cos d − 1) = −2κ sin²(d/2)."""
        return self._log_height() - 2 * self.concentration * jnp.sin(0.5 * (y - f)) ** 2

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return wrapped(y), jnp.broadcast_to(_width(jnp.asarray(self.concentration, y.dtype)), y.shape)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        d = y - mean
        lost = -jnp.expm1(-0.5 * var) * jnp.cos(d) + 2 * jnp.sin(0.5 * d) ** 2
        return self._log_height() - self.concentration * lost

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        if self.quadrature is not None:
            return super().log_expected_prob(y, mean, var, power)
        kappa = power * jnp.asarray(self.concentration, y.dtype)
        return power * self._log_height() + _log_expected_shape(y, mean, var, kappa)

    def tilted_moments(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        if self.quadrature is not None:
            return super().tilted_moments(y, mean, var, power)
        kappa = power * jnp.asarray(self.concentration, y.dtype)
        slope, bend = derivatives(lambda m: _log_series(y - m, var, kappa), mean)
        narrow = _by_quadrature(tilted_moments, y, mean, var, kappa)
        wide = var > MAX_VARIANCE
        return jnp.where(wide, var * slope, narrow[0]), jnp.where(wide, 1 + var * bend, narrow[1])

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        if self.quadrature is not None:
            return super().log_expected_smoothed_prob(y, mean, var, resid, power, start)
        kappa = jnp.asarray(self.concentration, y.dtype) * jnp.exp(-0.5 * resid)
        lost = -jnp.expm1(-0.5 * resid) * self.concentration
        return power * (self._log_height() - lost) + _log_expected_shape(y, mean, var, power * kappa)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Return the mean direction of the angles."""
        return float(np.arctan2(np.sum(weight * np.sin(y)), np.sum(weight * np.cos(y))))

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        """A von Mises distribution, with κ from the length R of the mean direction: κ ≈ R(2 − R²)/(1 − R²)."""
        from scipy import stats

        mean = np.mean(np.exp(1j * np.asarray(y)))
        length = min(float(np.abs(mean)), 1 - 1e-12)
        return stats.vonmises(max(length * (2 - length**2) / (1 - length**2), 1e-6), loc=float(np.angle(mean)))

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
