"""Expected softmax probability E[softmax(f)_k] of a Gaussian vector f, as a one-dimensional integral.

softmax_k(f) is the probability that f_k plus Gumbel noise is the largest.  With u = e^{−s} in Γ(a) = ∫ u^{a−1}e^{−u}du,

    softmax_k(f)^a = 1/Γ(a) ∫ e^{a(f_k − s)} Π_c exp(−e^{f_c − s}) ds            for every power a > 0,

so for independent f_c ~ N(m_c, v_c), with F(s; m, v) = E_{N(m,v)}[exp(−e^{f − s})], and since e^{af} shifts the mean,

    E[softmax_k^a] = 1/Γ(a) ∫ e^{a(m_k − s) + a²v_k/2} F(s; m_k + a v_k, v_k) Π_{c≠k} F(s; m_c, v_c) ds.

Both integrals are one-dimensional integrals of log-concave functions, computed on the log scale without under- or
overflow.  Softmax depends on differences only.  A covariance V is therefore replaced by independent variances d with
d_c + d_e ≈ Var(f_c − f_e) for all pairs (`independent_variances`).  This is exact for independent f plus any common
part, always for two classes, and for three classes where the resulting variances are positive.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import gammaln, logsumexp
from jax.typing import ArrayLike

_INNER_POINTS, _INNER_REACH = 32, 6.0  # nodes in f, and their range around the mode in standard deviations
_OUTER_POINTS = 64  # nodes in s
_OUTER_DEPTH = 28.0  # the nodes in s end where the integrand is e^−28 of its largest value
_MIN_VARIANCE_SHARE = 1e-6  # the smallest independent variance, as a share of the mean variance


def wright_omega(x: jax.Array) -> jax.Array:
    """Return ω > 0 with ω + log ω = x, to about 1e-8; used to place nodes and never differentiated."""
    small = jnp.exp(jnp.minimum(x, 1.0))
    start = jnp.where(x < -1, small / (1 + small), jnp.where(x > 2, x - jnp.log(jnp.maximum(x, 2.0)), 0.55 + 0.4 * x))
    w = jnp.maximum(start, jnp.finfo(x.dtype).tiny)

    def newton(_: jax.Array, w: jax.Array) -> jax.Array:  # in log ω
        step = jnp.clip((x - w - jnp.log(w)) / (1 + w), -5, 5)
        return jnp.maximum(w * jnp.exp(step), jnp.finfo(x.dtype).tiny)

    return lax.fori_loop(0, 4, newton, w)


def _survival(s: jax.Array, mean: jax.Array, var: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log F(s; m, v) and its derivatives in m and v.

    The integrand peaks at f = m − ω with curvature (1 + ω)/v, where ω + log ω = m − s + log v, and bends at f = s.
    """
    sd = jnp.sqrt(var)
    omega = wright_omega(mean - s + jnp.log(var))
    mode, narrow = mean - omega, sd / jnp.sqrt(1 + omega)
    spacing = jnp.minimum(jnp.sqrt(1 + (mode - s) ** 2), 2 * sd)
    coarse = spacing > 2.5 * narrow
    reach = _INNER_REACH * sd
    centre = jnp.clip(jnp.where(coarse, mode, s), mode - 1.5 * reach, mode + 1.5 * reach)
    width = jnp.where(coarse, narrow, jnp.ones_like(sd))
    f, logc = _nodes(centre, mode - reach, mode + reach, 2 * sd, jnp.minimum(width, 2 * sd), _INNER_POINTS)
    pull = (f - mean) / var
    heights = logc - 0.5 * pull * (f - mean) - jnp.exp(jnp.minimum(f - s, 700.0))
    top = jnp.max(heights, axis=0)
    mass = jnp.exp(heights - top)
    total = jnp.sum(mass, axis=0)
    by_mean = jnp.sum(mass * pull, axis=0) / total
    by_var = 0.5 * (jnp.sum(mass * pull**2, axis=0) / total - 1 / var)
    return top + jnp.log(total) - 0.5 * jnp.log(2 * np.pi * var), by_mean, by_var


@jax.custom_jvp
def log_survival(s: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    """Return log F(s; m, v) = log E_{N(m,v)}[exp(−e^{f−s})], elementwise; differentiable once, in mean and var."""
    return _survival(s, mean, var)[0]


@log_survival.defjvp
def _log_survival_jvp(
    primals: tuple[jax.Array, jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    # `_survival` returns the derivatives with the value; differentiating the sum over nodes would repeat its work.
    value, by_mean, by_var = _survival(*primals)
    return value, by_mean * tangents[1] + by_var * tangents[2]


def _approximate_log_survival(s: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    """Return log F by Laplace's method (Asmussen, Jensen & Rojas-Nandayapa 2016), accurate enough to place nodes."""
    omega = wright_omega(mean - s + jnp.log(var))
    return -0.5 * omega * (omega + 2) / var - 0.5 * jnp.log1p(omega)


def _outer_nodes(power: jax.Array, mean: jax.Array, var: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return nodes and log weights in s on a leading axis; classes are on the last axis of mean and var.

    The integrand is log-concave in s: its mode is found by bisection of the slope, its ends by bisection of the height.
    """

    def height(s: jax.Array) -> jax.Array:
        return jnp.sum(_approximate_log_survival(s[..., None], mean, var), axis=-1) - power * s

    def slope(s: jax.Array) -> jax.Array:
        omega = wright_omega(mean - s[..., None] + jnp.log(var))
        return jnp.sum(omega / var + 0.5 * omega / (1 + omega) ** 2, axis=-1) - power

    def bisect(is_left: Callable[[jax.Array], jax.Array], low: jax.Array, high: jax.Array) -> jax.Array:
        def halve(_: jax.Array, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            left = is_left(middle)
            return jnp.where(left, middle, low), jnp.where(left, high, middle)

        low, high = lax.fori_loop(0, 40, halve, (low, high))
        return 0.5 * (low + high)

    sd = jnp.sqrt(var)
    log_power = jnp.log(power)
    low = jnp.max(mean - var * power[..., None] - 12 * sd, axis=-1) - 12 - jnp.abs(log_power)
    high = jnp.max(mean + 12 * sd, axis=-1) + 12 + jnp.abs(log_power)
    mode = bisect(lambda s: slope(s) > 0, low, high)
    top = height(mode) - _OUTER_DEPTH
    reach = _OUTER_DEPTH / power + (high - low)
    left = bisect(lambda s: height(s) < top, mode - reach, mode)
    right = bisect(lambda s: height(s) > top, mode, mode + reach)
    step = 1e-3 * (right - left)
    curvature = (slope(mode - step) - slope(mode + step)) / (2 * step)
    scale = (right - left) / 8
    width = jnp.clip(1 / jnp.sqrt(jnp.maximum(curvature, 1e-300)), 1e-3 * scale, scale)
    return _nodes(mode, left, right, scale, width, _OUTER_POINTS)


def _nodes(
    centre: jax.Array, low: jax.Array, high: jax.Array, scale: jax.Array, width: jax.Array, points: int
) -> tuple[jax.Array, jax.Array]:
    """Return nodes and log weights of the trapezoidal rule in t, x = centre + scale·asinh((width/scale) sinh t).

    The nodes x lie between low and high.  Their spacing is proportional to `width` at the centre, grows geometrically
    and never exceeds a fraction of `scale`.
    """
    ratio = width / scale
    first, last = (jnp.arcsinh(jnp.sinh((end - centre) / scale) / ratio) for end in (low, high))
    u = np.linspace(0.0, 1.0, points).reshape((-1,) + (1,) * centre.ndim)
    # exp and log instead of sinh, cosh and arcsinh are several times as fast, and nodes need not be accurate.
    up = jnp.exp(first + (last - first) * u)
    bent = 0.5 * ratio * (up - 1 / up)
    root = jnp.sqrt(1 + bent**2)
    slope = 0.5 * ratio * (up + 1 / up) / root
    x = centre + scale * jnp.sign(bent) * jnp.log(jnp.abs(bent) + root)
    return x, jnp.log(scale * slope * (last - first) / (points - 1))


def log_win(winner: jax.Array, mean: jax.Array, var: jax.Array, power: ArrayLike = 1.0) -> jax.Array:
    """Return log E[softmax_k(f)^power], f_c ~ N(mean_c, var_c) independent; `winner` is one-hot, classes last."""
    power = jnp.broadcast_to(jnp.asarray(power, mean.dtype), mean.shape[:-1])
    moved = mean + winner * power[..., None] * var
    own_mean, own_var = jnp.sum(winner * mean, axis=-1), jnp.sum(winner * var, axis=-1)
    s, logc = lax.stop_gradient(_outer_nodes(power, moved, var))

    def at(node: tuple[jax.Array, jax.Array]) -> jax.Array:
        s, logc = node
        return logc - power * s + jnp.sum(log_survival(s[..., None], moved, var), axis=-1)

    # One node in s at a time: the rule in f alone has temporaries of 40 numbers per row and class.
    heights = lax.map(at, (s, logc))
    return power * own_mean + 0.5 * power**2 * own_var - gammaln(power) + logsumexp(heights, axis=0)


def independent_variances(cov: jax.Array) -> jax.Array:
    """Return d with d_c + d_e ≈ Var(f_c − f_e) by least squares over all pairs; classes on the last two axes."""
    classes = cov.shape[-1]
    diagonal = jnp.diagonal(cov, axis1=-2, axis2=-1)
    pairs = diagonal[..., :, None] + diagonal[..., None, :] - 2 * cov
    rows = jnp.sum(pairs, axis=-1)
    total = jnp.sum(rows, axis=-1, keepdims=True) / (2 * (classes - 1))
    d = 0.5 * rows if classes == 2 else (rows - total) / (classes - 2)
    return jnp.maximum(d, jnp.maximum(_MIN_VARIANCE_SHARE * total / classes, jnp.finfo(cov.dtype).tiny ** 0.5))
