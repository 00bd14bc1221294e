import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from sitewise.numerics.quadrature import gaussian_cdf
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf

POINTS = [-1e4, -300.0, -40.0, -30.0, -20.1, -12.3, -5.0, -1.0, -1e-6, 0.0, 1e-6, 0.7, 3.0, 9.0, 30.0]


def _reference(z: float, order: int) -> float:
    with mpmath.workdps(60):
        value = mpmath.diff(lambda t: mpmath.log(mpmath.ncdf(t)), mpmath.mpf(z), order, h=mpmath.mpf(10) ** -14)
        return float(value)


@pytest.mark.parametrize("order", range(4))
def test_log_cdf_and_three_derivatives_against_mpmath(order):
    function = log_cdf
    for _ in range(order):
        function = jax.grad(function)
    points = [z for z in POINTS if z > -100] if order else POINTS[1:]
    got = np.array([float(function(jnp.asarray(z))) for z in points])
    want = np.array([_reference(z, order) for z in points])
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-15)


def test_no_clamping():
    assert float(log_cdf(jnp.asarray(-40.0))) == pytest.approx(-804.608442, abs=1e-5)
    assert np.all(np.isfinite(jax.vmap(jax.grad(jax.grad(log_cdf)))(jnp.asarray([-1e8, -1e3, 0.0, 1e3, 1e8]))))


def test_an_accelerator_runs_the_series_without_a_loop(monkeypatch):
    """The host launches every step of a loop there; the numbers stay the same."""
    z = jnp.linspace(-40.0, 5.0, 101)
    looped = jax.make_jaxpr(lambda z: gaussian_cdf._log_cdf(2, z))(z)
    before = gaussian_cdf._log_cdf(2, z)
    monkeypatch.setattr(gaussian_cdf, "on_accelerator", lambda: True)
    unrolled = jax.make_jaxpr(lambda z: gaussian_cdf._log_cdf(2, z))(z)
    assert any(name in str(looped) for name in ("while", "scan")) and "while" not in str(unrolled)
    np.testing.assert_allclose(gaussian_cdf._log_cdf(2, z), before, rtol=1e-13)
