"""Expectations of a likelihood under Gaussians, by brute force: slow, and independent of the library's quadrature."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp


def brute_force(
    log_prob: Callable[[jax.Array], jax.Array], mean: np.ndarray, sd: np.ndarray, centre: float, width: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E[log p], log E[p] and log E[√p] under each N(mean, sd²).

    Gauss–Legendre on panels that are fine around the Gaussian and around the landmark; panels beyond 30 sd are empty.
    """
    mean, sd = mean[:, None], sd[:, None]
    around = np.append(centre + width * 0.02 * np.sinh(np.linspace(-15, 15, 401)), centre) + 0 * mean
    edges = np.concatenate([mean + sd * np.linspace(-30, 30, 401), around], axis=1)
    edges = np.sort(np.clip(edges, mean - 30 * sd, mean + 30 * sd), axis=1)
    x, w = np.polynomial.legendre.leggauss(6)
    middle, half = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    f = (middle[..., None] + half[..., None] * x).reshape(len(mean), -1)
    weight = (half[..., None] * w).reshape(f.shape) * np.exp(-0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    values = np.asarray(log_prob(jnp.asarray(f)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = np.sum(np.where(weight > 0, weight * values, 0.0), axis=1)
        # The mass of N·p may be far in the tail of N, where its weight underflows: only logarithms are used.
        log_weight = (
            np.log((half[..., None] * w).reshape(f.shape) / (sd * np.sqrt(2 * np.pi))) - 0.5 * ((f - mean) / sd) ** 2
        )
        whole, half_power = (logsumexp(log_weight + power * values, axis=1) for power in (1.0, 0.5))
    return first, whole, half_power
