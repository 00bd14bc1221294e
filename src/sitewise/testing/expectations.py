"""Brute-force expectations of a likelihood under Gaussians: slow, and independent of the library's quadrature."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

_MAX_ERROR = 1e-8  # of an expectation, relative to the larger of 1 and its absolute value


def brute_force(
    log_prob: Callable[[jax.Array], jax.Array], mean: np.ndarray, sd: np.ndarray, centres: np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return E[log p], log E[p] and log E[√p] under each N(mean, sd²).

    Gauss–Legendre quadrature on panels that are fine around the Gaussian and around each centre, up to 30 sd.
    """
    mean, sd = mean[:, None], sd[:, None]
    graded = np.append(width * 0.02 * np.sinh(np.linspace(-15, 15, 401)), 0.0)
    around = (np.asarray(centres)[:, None] + graded).reshape(1, -1) + 0 * mean
    edges = np.concatenate([mean + sd * np.linspace(-30, 30, 401), around], axis=1)
    edges = np.sort(np.clip(edges, mean - 30 * sd, mean + 30 * sd), axis=1)
    x, w = np.polynomial.legendre.leggauss(8)
    middle, half = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    f = (middle[..., None] + half[..., None] * x).reshape(len(mean), -1)
    weight = (half[..., None] * w).reshape(f.shape) * np.exp(-0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    values = np.asarray(log_prob(jnp.asarray(f)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = np.sum(np.where(weight > 0, weight * values, 0.0), axis=1)
        # Only logarithms are used: the mass of N·p may be far in the tail of N, where the weight of N underflows.
        log_weight = (
            np.log((half[..., None] * w).reshape(f.shape) / (sd * np.sqrt(2 * np.pi))) - 0.5 * ((f - mean) / sd) ** 2
        )
        whole, half_power = (logsumexp(log_weight + power * values, axis=1) for power in (1.0, 0.5))
    return first, whole, half_power


def brute_force_of_angles(
    log_prob: Callable[[jax.Array], jax.Array], mean: np.ndarray, sd: np.ndarray, period: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the expectations of `brute_force` for a log p with this period in f.

    The integral is over one period of the wrapped Gaussian density.  The wrapped density is computed as a sum over
    turns for narrow Gaussians, and as a Fourier series for wide Gaussians.
    """
    turns, harmonics = np.arange(-60, 61)[:, None], np.arange(1, 61)[:, None]
    found = []
    for m, s in zip(mean, sd, strict=True):
        grid = (
            m + s * np.linspace(-30, 30, 200_001) if 60 * s < period else m + period * np.linspace(-0.5, 0.5, 200_001)
        )
        if s < period:
            density = np.exp(-0.5 * ((grid - m + period * turns) / s) ** 2).sum(axis=0) / (s * np.sqrt(2 * np.pi))
        else:
            angle = 2 * np.pi * harmonics / period
            density = (1 + 2 * (np.exp(-0.5 * (angle * s) ** 2) * np.cos(angle * (grid - m))).sum(axis=0)) / period
        weight = density * (grid[1] - grid[0])
        weight[[0, -1]] *= 0.5
        values = np.asarray(log_prob(jnp.asarray(grid)))
        with np.errstate(divide="ignore"):
            logs = [float(logsumexp(power * values, b=weight)) for power in (1.0, 0.5)]
        found.append((float(weight @ values), *logs))
    first, whole, half_power = np.array(found).T
    return first, whole, half_power


def unresolved(
    name: str, y: str, mean: np.ndarray, var: np.ndarray, got: np.ndarray, want: np.ndarray
) -> Iterator[str]:
    """Yield a message with the largest error and the region of errors above `_MAX_ERROR`, if there are any."""
    # Values beyond a million nats per row are not covered by the quadrature and do not occur in posteriors.
    counts = np.isfinite(want) & (np.abs(want) < 1e6)
    error = np.where(counts, np.abs(got - want) / np.maximum(1.0, np.abs(want)), 0.0)
    error = np.where(counts & ~np.isfinite(got), np.inf, error)
    wrong = np.flatnonzero(error > _MAX_ERROR)
    if len(wrong):
        j = int(np.argmax(error))
        ends = wrong[np.argmin(var[wrong])], wrong[np.argmax(var[wrong])]
        low, high = (f"N({mean[k]:.4g}, {var[k]:.4g})" for k in ends)
        region = (
            f"{len(wrong)} of {len(var)} Gaussians from {low} to {high} are off" if len(wrong) > 1 else "only there"
        )
        yield (
            f"{name} {got[j]:.10g} for {y} under N({mean[j]:.4g}, {var[j]:.4g}), but brute force gives {want[j]:.10g} "
            f"({region}); check its closed form, or define landmark(y) where log_prob bends most, or give a finer rule "
            "such as quadrature=Landmark(points=200)."
        )
