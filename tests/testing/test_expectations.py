"""The brute force of the conformance tests against closed forms."""

import jax.numpy as jnp
import numpy as np

from sitewise.testing.expectations import brute_force_of_angles


def test_a_cosine_of_an_angle_has_its_closed_form_for_narrow_and_wide_gaussians():
    """E cos(f − a) = cos(m − a) exp(−s²/2); a large factor makes it visible for Gaussians wider than the period."""
    mean, sd, a = np.array([0.7, 0.7, 2.0]), np.array([0.3, 6.0, 6.5]), 0.5
    for m, s in zip(mean, sd, strict=True):
        factor = np.exp(0.5 * s**2)
        first = brute_force_of_angles(lambda f, k=factor: k * jnp.cos(f - a), np.array([m]), np.array([s]), 2 * np.pi)[
            0
        ]
        np.testing.assert_allclose(first, np.cos(m - a), atol=1e-5)
