"""Roots of increasing functions: smooth, with plateaus and steps, and without a root."""

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.numerics.quadrature.crossing import crossing
from sitewise.process.precision import working_precision


def _counted(function, start, closed=None):
    """The result for one start, and how often the function was evaluated, operation by operation."""
    calls = []

    def wrapped(t):
        calls.append(float(t))
        return function(t)

    with working_precision(), jax.disable_jit():
        return float(crossing(wrapped, jnp.asarray(start), closed)), len(calls)


def test_smooth_functions_take_few_evaluations():
    for root in (-300.0, 0.7):
        found, calls = _counted(lambda t, root=root: jnp.tanh(t - root), 0.0)
        np.testing.assert_allclose(found, root, rtol=1e-13, atol=1e-14)
        assert calls < 35  # halving alone takes more than 60


def test_many_at_once():
    roots = np.array([-40.0, -1.0, 0.0, 3.3, 900.0])
    with working_precision():
        found = crossing(lambda t: (t - roots) ** 3, jnp.zeros(5))
        np.testing.assert_allclose(found, roots, atol=2e-12)


def test_steps_and_plateaus():
    """The upper end of a jump is found to rounding, and to a whole number where that is enough."""
    found, _ = _counted(lambda t: jnp.where(t < np.pi, -0.2, 0.7), 0.0)
    assert np.pi <= found <= np.pi * (1 + 1e-14)
    closed = lambda low, high: jnp.floor(high) - jnp.floor(low) <= 1  # noqa: E731
    found, calls = _counted(lambda t: jnp.where(jnp.floor(t) < 17, -0.1, 0.9), 0.0, closed)
    assert np.floor(found) == 17 and calls < 20


def test_never_reached():
    assert _counted(lambda t: -1.0 + 0 * t, 5.0)[0] == 5.0 + 4096
