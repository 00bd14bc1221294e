"""The integral of a Gaussian times exp(a z − b log(1 + eᶻ)) on NumPy arrays, against 40 digits."""

import mpmath
import numpy as np
import pytest

from sitewise.numerics.quadrature.tilted_logistic import slopes_by_var, tilted_by_logistic


def exact(a: float, b: float, m: float, v: float) -> list[float]:
    """Return ℓ, its first four derivatives in m, and E[log(1 + eᶻ)], from moments of the tilted density."""
    with mpmath.workdps(40):
        v = mpmath.mpf(v)
        mode = mpmath.findroot(
            lambda z: a - b / (1 + mpmath.exp(-z)) - (z - m) / v,
            (m + v * (a - b) - 1e-3, m + v * a + 1e-3),
            solver="anderson",
            tol=1e-20,
        )

        def log_p(z):
            return a * z - b * mpmath.log1p(mpmath.exp(z)) - (z - m) ** 2 / (2 * v)

        width = 1 / mpmath.sqrt(1 / v + b * mpmath.exp(-mode) / (1 + mpmath.exp(-mode)) ** 2)
        ends = [mode + width * k for k in (-60, -30, -15, -8, -4, 0, 4, 8, 15, 30, 60)]

        def integral(function):
            return mpmath.quad(lambda z: function(z) * mpmath.exp(log_p(z) - log_p(mode)), ends)

        total = integral(lambda z: 1)
        mean = integral(lambda z: z) / total
        c2, c3, c4 = (integral(lambda z, k=k: (z - mean) ** k) / total for k in (2, 3, 4))
        value = mpmath.log(total) + log_p(mode) - mpmath.log(2 * mpmath.pi * v) / 2
        softplus = integral(lambda z: mpmath.log1p(mpmath.exp(z))) / total
        slopes = ((mean - m) / v, (c2 / v - 1) / v, c3 / v**3, (c4 - 3 * c2**2) / v**4)
        return [float(x) for x in (value, *slopes, softplus)]


@pytest.mark.parametrize(
    ("a", "b", "m", "v"),
    [(0, 1, 0.2, 1), (1, 1, -3, 0.01), (3, 10, 0.3, 4), (7, 7.3, 1, 2), (50, 1000, 2, 9), (0, 20, -5, 1e-6)],
)
def test_value_and_derivatives_equal_forty_digits(a, b, m, v):
    found = tilted_by_logistic(*(np.array([float(x)]) for x in (a, b, m, v)))
    np.testing.assert_allclose([found.log_integral[0], *found.slopes[:, 0], found.softplus[0]], exact(a, b, m, v), 1e-9)


def test_rows_of_any_shape_and_order_are_those_of_each_row():
    rng = np.random.default_rng(0)
    b = rng.integers(1, 40, (7, 5)).astype(float)
    a, m, v = np.floor(b * rng.uniform(size=b.shape)), rng.normal(0, 3, b.shape), np.exp(rng.uniform(-10, 4, b.shape))
    together = tilted_by_logistic(a, b, m, v)
    assert together.slopes.shape == (4, 7, 5)
    for at in np.ndindex(b.shape):
        alone = tilted_by_logistic(*(np.array([one[at]]) for one in (a, b, m, v)))
        np.testing.assert_allclose(together.slopes[(slice(None), *at)], alone.slopes[:, 0], rtol=1e-8, atol=1e-11)
        assert together.log_integral[at] == pytest.approx(alone.log_integral[0], abs=1e-12)


def test_derivatives_in_the_variance():
    a, b, m, v, step = (np.array([x]) for x in (2.0, 5.0, 0.7, 1.3, 1e-5))
    up, down = (tilted_by_logistic(a, b, m, v + sign * step).slopes for sign in (1, -1))
    found = slopes_by_var(tilted_by_logistic(a, b, m, v).slopes)
    np.testing.assert_allclose(found, (up[:2] - down[:2]) / (2 * step), rtol=1e-8)


def test_an_integrand_too_wide_for_the_nodes_is_left_to_the_compiled_rule():
    one = np.ones(1)
    assert tilted_by_logistic(one, one, 0 * one, 1e6 * one) is None
    assert tilted_by_logistic(one, one, np.nan * one, one) is None
