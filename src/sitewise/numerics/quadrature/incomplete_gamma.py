"""The upper incomplete gamma function for arguments of any size: distribution functions of large counts.

The series of JAX take about √a steps, hours for the quantiles of counts of 10⁸.  From a = MIN_EXPANDED on, Temme's
uniform expansion has an error below 1e-9, with μ = x/a − 1 and η²/2 = μ − log(1 + μ), η of the sign of μ:

    Q(a, x) = ½ erfc(η √(a/2)) + exp(−a η²/2) / √(2πa) · (1/μ − 1/η)
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.special import erfc, gammaincc

from sitewise.arrays.engine import Array

MIN_EXPANDED = 1e4  # arguments a for which the expansion is used
_MAX_SERIES_MU = 1e-2  # |μ| below which η comes from its series
_SERIES_TERMS = 8  # of this series
_MIN_DIRECT_MU = 1e-4  # |μ| below which 1/μ − 1/η comes from its series


def upper_gamma_share(a: Array, x: Array) -> Array:
    """Return Q(a, x) = Γ(a, x) / Γ(a), for a ≥ 1 and x ≥ 0."""
    large = a > MIN_EXPANDED
    below = gammaincc(jnp.where(large, 1.0, a), jnp.where(large, 1.0, x))
    return jnp.where(large, _temme(jnp.where(large, a, 2 * MIN_EXPANDED), jnp.where(large, x, 2 * MIN_EXPANDED)), below)


def _temme(a: Array, x: Array) -> Array:
    mu = jnp.minimum(x / a, 1e300) - 1.0
    near = jnp.where(jnp.abs(mu) < _MAX_SERIES_MU, mu, 0.0)
    series = sum(2.0 * (-near) ** k / (k + 2) for k in range(_SERIES_TERMS))  # η²/μ²
    far = jnp.where(jnp.abs(mu) < _MAX_SERIES_MU, 1.0, mu)
    eta = jnp.where(
        jnp.abs(mu) < _MAX_SERIES_MU, near * jnp.sqrt(series), jnp.sign(far) * jnp.sqrt(2 * (far - jnp.log1p(far)))
    )
    away = jnp.abs(mu) > _MIN_DIRECT_MU
    first = jnp.where(away, 1 / jnp.where(away, mu, 1.0) - 1 / jnp.where(away, eta, 1.0), mu / 12 - 1 / 3)
    return 0.5 * erfc(eta * jnp.sqrt(a / 2)) + jnp.exp(-0.5 * a * eta**2) / jnp.sqrt(2 * jnp.pi * a) * first
