"""Shares of the harmonics in exp(x (cos t − 1)), by ratios of modified Bessel functions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special

from sitewise.runtime.engine import Array

_MORE = 40  # orders beyond the last one that is asked for; shares of higher orders are taken for 0


def harmonic_shares(x: Array, highest: int) -> Array:
    """q_0 … q_J of exp(x (cos t − 1)) = Σ_j q_j cos(j t):  q_0 = e⁻ˣI_0(x),  q_j = 2 e⁻ˣI_j(x),  Σ_j q_j = 1.

    The ratios I_j/I_{j−1} = x/(2j + x I_{j+1}/I_j) follow downwards from a high order, which is stable and does not
    overflow; the sum gives the scale.
    """
    ratios, ratio = [], jnp.zeros_like(x)
    for j in range(highest + _MORE, 0, -1):
        ratio = x / (2 * j + x * ratio)
        ratios.append(ratio)
    shares = jnp.concatenate([jnp.ones((1, *x.shape), x.dtype), 2 * jnp.cumprod(jnp.stack(ratios[::-1]), axis=0)])
    return shares[: highest + 1] / shares.sum(axis=0)


def share_beyond(x: float, highest: int) -> float:
    """Σ_{j > J} q_j: the largest error of the sum up to J."""
    return float(2 * np.sum(special.ive(np.arange(highest + 1, highest + 1 + _MORE), x)))
