"""Standard errors of hyperparameters: against the exact Hessian of Gaussian regression, and what cannot have them."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods, resolve
from sitewise.process.precision import working_precision

RNG = np.random.default_rng(2)
X = RNG.uniform(-3, 3, size=(40, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=40)
DATA = Data.of(X, Y)


def _log_evidence(vector):
    """Gaussian regression with an RBF kernel, written out."""
    lengthscale, variance, noise = jnp.exp(vector)
    d2 = (X - X.T) ** 2 / lengthscale**2
    K = variance * jnp.exp(-0.5 * d2) + noise**2 * jnp.eye(40)
    L = jnp.linalg.cholesky(K)
    white = jax.scipy.linalg.solve_triangular(L, Y, lower=True)
    return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(L)))


@pytest.fixture(scope="module")
def fit():
    return resolve("vi").fit(Model.full(kernels.RBF(), likelihoods.Gaussian(0.5)), DATA)


def test_the_hessian_is_that_of_the_closed_form(fit):
    with working_precision():
        exact = np.asarray(jax.hessian(_log_evidence)(jnp.asarray(fit.curvature.vector)))
    np.testing.assert_allclose(fit.curvature.hessian, exact, rtol=1e-4, atol=1e-4)
    errors = np.sqrt(np.diagonal(np.linalg.inv(-exact)))
    np.testing.assert_allclose(list(fit.curvature.standard_errors.values()), errors, rtol=1e-4)


def test_intervals_are_in_the_units_of_the_parameters_and_reported(fit):
    low, high = fit.curvature.intervals(0.9)["kernel.lengthscale"]
    error = fit.curvature.standard_errors["kernel.lengthscale"]
    value = fit.parameters["kernel.lengthscale"]
    assert low == pytest.approx(value * np.exp(-1.6449 * error), rel=1e-4)
    assert high == pytest.approx(value * np.exp(1.6449 * error), rel=1e-4)
    assert f"kernel.lengthscale = {float(value):.5g} (90 %: {float(low):.3g} to {float(high):.3g})" in fit.report()
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        fit.curvature.intervals(90)


def test_a_parameter_that_the_data_do_not_determine_has_no_upper_end_and_nothing_is_warned_of(fit):
    flat = dataclasses.replace(fit.curvature, hessian=-np.diag([1e-8, 1.0, 1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flat.intervals()["kernel.lengthscale"] == (0.0, np.inf)


def test_a_parameter_at_its_bound_has_none():
    learner = resolve("vi", bounds={"kernel.lengthscale": (0.01, 0.2)})
    fit = learner.fit(Model.full(kernels.RBF(0.1), likelihoods.Gaussian(0.5)), DATA)
    errors = fit.curvature.standard_errors
    assert fit.at_bound == ("kernel.lengthscale",)
    assert np.isnan(errors["kernel.lengthscale"]) and np.isfinite(errors["kernel.variance"])


def test_a_learner_that_climbs_no_profile_says_so():
    model, data = Model.full(kernels.RBF(), likelihoods.BernoulliProbit()), Data.of(X, np.sign(Y))
    fit = resolve("hybrid-vem", max_rounds=2).fit(model, data)
    with pytest.raises(ValueError, match="hybrid-vem holds the sites"):
        fit.curvature  # noqa: B018
