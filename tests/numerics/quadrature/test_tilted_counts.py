"""The integral of a Gaussian times a Poisson likelihood on NumPy arrays, against 40 digits and the compiled rule."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from sitewise.likelihoods import Poisson
from sitewise.numerics.quadrature.tilted_counts import tilted_by_count


def exact(y: float, m: float, v: float) -> list[float]:
    """Return ℓ, its first three derivatives in m, and ∂ℓ'/∂v and ∂ℓ''/∂v, from moments of the tilted density."""
    with mpmath.workdps(40):
        mode = float(tilted_by_count(*np.array([[y], [m], [v]]))[0][0])
        step = mpmath.mpf(min(0.1 / np.sqrt(1 / v + np.exp(mode)), 0.05))
        below, above = 14 * min(np.sqrt(v), 5 / np.exp(0.5 * mode)), 14 / np.sqrt(1 / v + np.exp(mode))
        nodes = [mode + k * step for k in range(-int(below / step), int(above / step))]
        p = [mpmath.exp(y * f - mpmath.exp(f) - (f - m) ** 2 / (2 * mpmath.mpf(v))) for f in nodes]
        moments = [step * sum((f - m) ** k * weight for f, weight in zip(nodes, p, strict=True)) for k in range(5)]
        one, two, three, four = (moment / moments[0] for moment in moments[1:])
        k2 = two - one**2
        k3 = three - 3 * one * two + 2 * one**3
        k4 = four - 4 * three * one + 6 * two * one**2 - 3 * one**4 - 3 * k2**2
        v = mpmath.mpf(v)
        value = mpmath.log(moments[0]) - mpmath.loggamma(y + 1) - mpmath.log(2 * mpmath.pi * v) / 2
        first, second, third, fourth = one / v, k2 / v**2 - 1 / v, k3 / v**3, k4 / v**4
        by_var = third / 2 + first * second, fourth / 2 + second**2 + first * third
        return [float(x) for x in (value, first, second, third, *by_var)]


@pytest.mark.parametrize("y", [0.0, 3.0, 50.0])
@pytest.mark.parametrize(("m", "v"), [(-3.0, 1e-3), (-3.0, 4.0), (0.5, 0.2), (2.0, 1.5), (4.0, 0.05)])
def test_value_and_derivatives_equal_forty_digits(y: float, m: float, v: float) -> None:
    found = Poisson().log_expected_prob_slopes(np.array([y]), np.array([m]), np.array([v]))[:, 0]
    np.testing.assert_allclose(found, exact(y, m, v), rtol=1e-8, atol=1e-10)


def test_rows_of_every_width_equal_the_compiled_rule() -> None:
    rng = np.random.default_rng(0)
    v = np.concatenate([np.exp(rng.uniform(-12, 5, 400)), [1e-12, 200.0]])
    m, exposure = rng.normal(0, 2, v.size), rng.uniform(0.1, 10, v.size)
    y = np.stack([rng.poisson(np.exp(np.minimum(m + 0.3 * rng.normal(size=v.size), 8))), exposure], axis=1).astype(
        float
    )
    likelihood = Poisson(exposure=True)
    found = likelihood.log_expected_prob_slopes(y, m, v)
    shift, ratio = likelihood.tilted_moments(jnp.asarray(y), jnp.asarray(m), jnp.asarray(v))
    np.testing.assert_allclose(found[0], likelihood.log_expected_prob(jnp.asarray(y), m, v), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(v * found[1], shift, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(1 + v * found[2], ratio, rtol=1e-8, atol=1e-9)


def test_an_integrand_too_wide_for_the_nodes_is_left_to_the_compiled_rule() -> None:
    assert tilted_by_count(np.array([0.0]), np.array([-100.0]), np.array([1e6])) is None
    assert tilted_by_count(np.array([0.0]), np.array([np.nan]), np.array([1.0])) is None


def test_derivatives_of_log_p_and_of_its_expectation() -> None:
    y, m, v = np.array([0.0, 2.0, 1e6]), np.array([-1.0, 1.0, 13.8]), np.array([0.5, 1.0, 1e-6])
    likelihood, step = Poisson(), 1e-5
    one, expected = likelihood.log_prob_slopes(y, m), likelihood.expected_log_prob_slopes(y, m, v)
    np.testing.assert_allclose(one[0], likelihood.log_prob(jnp.asarray(y), jnp.asarray(m)), rtol=1e-13)
    np.testing.assert_allclose(expected[0], likelihood.expected_log_prob(jnp.asarray(y), m, v), rtol=1e-13)
    for k, (values, at) in enumerate([(one, lambda m: likelihood.log_prob_slopes(y, m))] * 3):
        numeric = (at(m + step)[k] - at(m - step)[k]) / (2 * step)
        np.testing.assert_allclose(values[k + 1], numeric, rtol=1e-6, atol=1e-3)
    numeric = (likelihood.expected_log_prob_slopes(y, m, v + 1e-8)[0] - expected[0]) / 1e-8
    np.testing.assert_allclose(0.5 * expected[2], numeric, rtol=1e-4, atol=1e-4)


def test_the_softplus_link_has_no_closed_form() -> None:
    one = np.ones(1)
    softplus = Poisson(link="softplus")
    assert softplus.log_prob_slopes(one, one) is None
    assert softplus.expected_log_prob_slopes(one, one, one) is None
    assert softplus.log_expected_prob_slopes(one, one, one) is None
