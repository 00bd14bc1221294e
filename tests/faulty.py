"""Faults to plant in tests of the conformance suites."""

import jax


@jax.custom_jvp
def wrong_slope(x):
    """x, with a derivative that is 0.7 of the right one."""
    return x


@wrong_slope.defjvp
def _wrong_slope_jvp(primals, tangents):
    return primals[0], 0.7 * tangents[0]
