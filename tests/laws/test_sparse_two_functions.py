"""Laws of the sparse prior of two latent functions: Z = X is the full prior, gradients, engines, weights, the bound."""

import numpy as np
import pytest

import gradients
from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, means, posterior, value_and_grad
from sitewise.likelihoods import VaryingParameter
from sitewise.testing import check_posterior

KERNELS = [kernels.RBF(0.8, 1.2), kernels.Matern52(1.5, 0.6)]
MEANS = [means.Constant(0.1), means.Constant(-0.7)]
NOISE = VaryingParameter(likelihoods.Gaussian(0.5), "scale")
FEW = np.linspace(-2, 2, 4)[:, None]


def noisy(rows, weight=None):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2, 2, rows))[:, None]
    return Data.of(X, np.sin(2 * X[:, 0]) + np.exp(-1 + 0.5 * X[:, 0]) * rng.normal(size=rows), weight)


def sparse(Z=FEW, jitter=1e-9):
    return Model.sparse(KERNELS, NOISE, Z, MEANS, jitter=jitter)


def test_inducing_inputs_at_the_rows_give_the_full_prior():
    data = noisy(8)
    full, at_rows = Model.full(KERNELS, NOISE, MEANS), sparse(np.asarray(data.X), jitter=0.0)
    for method, reading in (
        (VI(), evidence.elbo), (VI(), evidence.ep), (VI(), evidence.loo), (EP(), evidence.ep),
        (Laplace(), evidence.laplace),
    ):  # fmt: skip
        one, other = (float(reading(m, data, method.solve(m, data).sites)) for m in (full, at_rows))
        np.testing.assert_allclose(one, other, atol=1e-7, err_msg=reading.name)
    new = [[0.3], [5.0]]
    one, other = (posterior(m, data, VI().solve(m, data).sites) for m in (full, at_rows))
    for a, b in zip(one.f(new), other.f(new), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_the_elbo_is_a_lower_bound_on_that_of_more_inputs():
    data = noisy(12)
    of = [evidence.elbo(m, data, VI().solve(m, data).sites) for m in (sparse(), sparse(np.asarray(data.X)))]
    assert of[0] < of[1] - 0.01


@pytest.mark.parametrize(
    "method, reading, gradient",
    [
        (VI(), evidence.elbo, "fixed"),
        (EP(), evidence.ep, "fixed"),
        (VI(), evidence.ep, "implicit"),
        (Laplace(), evidence.laplace, "implicit"),
    ],
    ids=["vi-elbo", "ep", "vi-ep", "laplace"],
)
def test_gradients_are_finite_differences(method, reading, gradient):
    data, model = noisy(8), sparse()
    both = value_and_grad(method, reading, gradient)
    gradients.equals_differences(both, model, data, every=True)


def test_both_engines_agree():
    data, model = noisy(8), sparse()
    both = value_and_grad(VI(), evidence.elbo, "implicit")
    gradients.engines_agree(both, model, data)


def test_a_weight_is_a_number_of_copies():
    once, model = noisy(6), sparse()
    X, y = np.asarray(once.X), np.asarray(once.y)
    copies = Data.of(np.concatenate([X, X[:2]]), np.concatenate([y, y[:2]]))
    weighted = noisy(6, [2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    for reading in (evidence.elbo, evidence.ep):
        one, other = (reading(model, d, VI().solve(model, d).sites) for d in (copies, weighted))
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_posterior_contract():
    check_posterior(sparse(np.linspace(-2, 2, 5)[:, None]).prior, X=np.linspace(-2, 2, 7)[:, None], latents=2)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="all features are stored; leave keep out"):
        Model.sparse(KERNELS, NOISE, FEW, MEANS, keep=10)
    with pytest.raises(ValueError, match="Inducing inputs must be a table with 1 columns"):
        evidence.elbo(sparse(np.zeros((3, 2))), noisy(4), VI().solve(sparse(), noisy(4)).sites)
    with pytest.raises(ValueError, match="Only a likelihood of two latent functions takes a list of means"):
        Model.sparse(kernels.RBF(), likelihoods.Gaussian(), FEW, MEANS)
