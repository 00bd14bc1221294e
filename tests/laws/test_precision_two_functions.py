"""Two functions per row that are sums of parts: equal to the dense prior with the same covariances, in everything."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import gradients
from sitewise import (
    EP,
    VI,
    Data,
    Laplace,
    Model,
    evidence,
    kernels,
    likelihoods,
    means,
    parts,
    posterior,
    value_and_grad,
)
from sitewise.arrays.engine import to_host, traced
from sitewise.likelihoods import VaryingParameter
from sitewise.numerics.dense import directions
from sitewise.parameters import values
from sitewise.priors.precision.assembly import Assembly
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.testing import check_posterior

ROWS, SITES_TOL = 14, 1e-11
GRAPH = {0: [1, 2], 1: [2], 2: [3], 3: [], 4: [5], 5: [], 6: []}
MEANS = (means.Constant(0.3), means.Constant(-0.7))


def first_parts() -> list[parts.Part]:
    return [
        parts.Map((0, 1), kernels.Matern32([0.9, 1.4], 0.8), neighbours=20),
        parts.Levels(2, variance=0.5),
        parts.Area(3, GRAPH, variance=0.7, share=0.6),
        parts.Spline(0, knots=(-2, -0.5, 0, 0.7, 2), variance=0.5, slope_variance=2.0),
        parts.Constant(variance=2.0),
    ]


def second_parts() -> list[parts.Part]:
    return [
        parts.Linear((0, 1), variance=[0.2, 0.1]),
        parts.Levels(2, variance=0.2),
        parts.Area(3, GRAPH, model="icar", variance=0.1),
        parts.Series(1, kernels.Matern52(1.1, 0.3), by=2),
        parts.VaryingCoefficients(2, slopes=(0,), variance=(0.1, 0.1), coupling=(0.5,)),
    ]


def table(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, 2)), rng.integers(0, 3, rows), rng.integers(0, 7, rows)]).astype(float)
    X[:, 1] = X[:, 1].round(1)
    X[-1] = X[0]  # a repeated row
    return X


def models(likelihood: likelihoods.Likelihood, parameter: str) -> tuple[Model, Model]:
    """The same model by its precision and by its covariance matrices."""
    own, each = VaryingParameter(likelihood, parameter), (first_parts(), second_parts())
    dense = Model.full([kernels.Sum(tuple(one)) for one in each], own, MEANS)
    return Model.latent(each, own, MEANS), dense


def observed(kind: str, X: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(1)
    if kind == "counts":
        return rng.poisson(np.exp(0.5 + np.sin(X[:, 0]))).astype(float)
    return np.sin(X[:, 0]) + 0.3 * rng.normal(size=len(X))


@pytest.mark.parametrize(
    ("method", "number", "kind"),
    [
        (VI(), evidence.elbo, "values"),
        (VI(), evidence.ep, "counts"),
        (VI(), evidence.loo, "values"),
        (EP(), evidence.ep, "values"),
        (Laplace(), evidence.laplace, "values"),
    ],
    ids=["vi-elbo", "vi-ep", "vi-loo", "ep", "laplace"],
)
def test_value_gradient_and_predictions_equal_dense_algebra(method, number, kind) -> None:
    X = table()
    data = Data.of(X, observed(kind, X), weight=np.linspace(0.5, 2.0, ROWS))
    own = (likelihoods.Gaussian(0.5), "scale") if kind == "values" else (likelihoods.NegativeBinomial(2.0), "shape")
    exact = dataclasses.replace(method, tol=SITES_TOL)
    both = models(*own)
    found, want = (value_and_grad(exact, number, has_aux=True)(model, data) for model in both)
    np.testing.assert_allclose(found[0][0], want[0][0], rtol=1e-8)
    names = values(want[1])
    assert names.keys() == values(found[1]).keys()
    for name, slope in values(found[1]).items():
        np.testing.assert_allclose(slope, names[name], rtol=1e-6, atol=1e-7, err_msg=name)
    new = np.concatenate([table(6, seed=4), X[:2], [[0.3, 9.0, 5.0, 6.0], [0.3, 9.5, 5.0, 11.0]]])  # new levels, area
    latent, full = (posterior(m, data, out[0][1].sites) for m, out in zip(both, (found, want), strict=True))
    for one, other in zip((*latent.f(new), *latent.f_joint(new)), (*full.f(new), *full.f_joint(new)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("indefinite", [False, True])
def test_conditioning_on_blocks_of_any_sign_is_dense_algebra(indefinite: bool) -> None:
    rng = np.random.default_rng(2)
    root = 0.6 * rng.normal(size=(ROWS, 2, 2))
    W = root @ root.swapaxes(1, 2) - (0.1 if indefinite else 0.0) * np.eye(2)
    assert np.any(np.linalg.eigvalsh(W) < 0) == indefinite
    sites = Sites(rng.normal(size=(3, ROWS)), directions.precisions_of_blocks(W))
    with working_precision():
        grams = [to_host(m.prior).gram(table()) for m in models(likelihoods.Gaussian(0.5), "scale")]
        found, want = (gram.condition(sites) for gram in grams)
        for name in ("mean", "var", "log_z", "prior_mean"):
            np.testing.assert_allclose(getattr(found, name), getattr(want, name), rtol=1e-8, atol=1e-8, err_msg=name)
        bound = grams[0].condition_mean(sites)[0]
        np.testing.assert_allclose(bound.mean, found.mean, atol=1e-9)
        assert np.all(bound.var >= found.var * (1 - 1e-9))
        x = rng.normal(size=(3, ROWS))
        products = [g.covariance(sites, g.condition_with_factor(sites, None)[1]) for g in grams]
        for name in ("times", "times_once", "squared_times"):
            one, other = (getattr(cov, name)(x) for cov in products)
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8, err_msg=name)


def test_sites_that_leave_no_gaussian_are_nan() -> None:
    prior = to_host(models(likelihoods.Gaussian(0.5), "scale")[0].prior)
    q = prior.gram(table()).condition(Sites(np.zeros((3, ROWS)), np.full((3, ROWS), -50.0)))
    assert np.isnan(q.log_z)


@pytest.mark.parametrize(
    "method, number, gradient",
    [(VI(), evidence.elbo, "fixed"), (VI(), evidence.ep, "implicit"), (Laplace(), evidence.laplace, "implicit")],
    ids=["vi-elbo", "vi-ep", "laplace"],
)
def test_gradients_are_finite_differences(method, number, gradient) -> None:
    X = table(8)
    data, own = Data.of(X, observed("values", X)), VaryingParameter(likelihoods.Gaussian(0.5), "scale")
    first = [parts.Series(1, kernels.Matern32(0.8, 0.7)), parts.Levels(2, variance=0.5)]
    second = [parts.Linear((0,), variance=0.3), parts.Levels(2, variance=0.2), parts.Constant(variance=1.0)]
    model = Model.latent([first, second], own, MEANS)
    both = value_and_grad(dataclasses.replace(method, tol=1e-10), number, gradient)
    gradients.equals_differences(both, model, data)


def test_a_constant_second_function_is_the_model_of_one_function() -> None:
    X = table()
    data, base = Data.of(X, observed("values", X)), likelihoods.Gaussian(0.4)
    own = VaryingParameter(base, "scale")
    second = means.Constant(own.start_level())
    model = Model.latent([first_parts(), [parts.Constant(variance=1e-10)]], own, [MEANS[0], second])
    plain = Model.latent(first_parts(), base, MEANS[0])
    for method, number in ((VI(), evidence.elbo), (VI(), evidence.loo), (Laplace(), evidence.laplace)):
        found = float(number(model, data, method.solve(model, data).sites))
        want = float(number(plain, data, method.solve(plain, data).sites))
        np.testing.assert_allclose(found, want, atol=1e-6)
    both, one = (posterior(m, data, VI().solve(m, data).sites) for m in (model, plain))
    np.testing.assert_allclose(both.y_mean(X[:3]), one.y_mean(X[:3]), rtol=1e-5)
    np.testing.assert_allclose(both.log_density(X[:3], data.y[:3]), one.log_density(X[:3], data.y[:3]), atol=1e-6)


def test_posterior_contract() -> None:
    prior = models(likelihoods.Gaussian(0.5), "scale")[0].prior
    check_posterior(prior, table(7), latents=2)


def test_each_function_has_its_own_posterior_and_parts() -> None:
    X, new = table(), table(5, seed=3)
    rng = np.random.default_rng(4)
    prior = to_host(models(likelihoods.Gaussian(0.5), "scale")[0].prior)
    root = 0.6 * rng.normal(size=(ROWS, 2, 2))
    sites = Sites(rng.normal(size=(3, ROWS)), directions.precisions_of_blocks(root @ root.swapaxes(1, 2)))
    with working_precision():
        q = prior.posterior(X, sites)
        mean, cov = q.joint(new)
        for number in range(2):
            rows = slice(5 * number, 5 * number + 5)
            one = q.function(number)
            np.testing.assert_allclose(one.joint(new)[0], mean[rows], atol=1e-10)
            np.testing.assert_allclose(one.joint(new)[1], cov[rows, rows], atol=1e-10)
            each, _ = one.parts_joint(new, [(k,) for k in range(5)])
            np.testing.assert_allclose(each.sum(axis=0) + MEANS[number].value, mean[rows], atol=1e-9)
        # tr(ΣQ) and the trace of ΣAᵀWA agree.
        used = [one.effective_parameters(X, sites.prec, [tuple(range(5))])[0] for one in q.each]
        W, blocks = directions.blocks_of_precisions(sites.prec), q.marginals(X)[1]
        np.testing.assert_allclose(sum(used), np.einsum("nab,nba->", W, blocks), rtol=1e-8)


def test_laplace_converges_with_nearly_flat_priors_of_linear_effects() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([100 * rng.normal(size=80), rng.integers(0, 8, 80)])
    y = 0.02 * X[:, 0] + np.exp(-1 + 0.004 * X[:, 0]) * rng.normal(size=80)
    first = [parts.Linear(0, variance=1e4), parts.Levels(1, variance=0.5), parts.Constant(variance=1e4)]
    second = [parts.Linear(0, variance=1e-2), parts.Constant(variance=100.0)]
    model = Model.latent([first, second], VaryingParameter(likelihoods.Gaussian(0.5), "scale"))
    for method in (Laplace(), VI()):
        assert method.solve(model, Data.of(X, y)).outcome.ok


def test_entries_of_pairs_couple_both_functions() -> None:
    """AᵀWA and the forms of its inverse, against dense matrices with three rows of loads per row."""
    rng = np.random.default_rng(5)
    X, each = table(), [*first_parts(), *second_parts()]
    at = Assembly(each, X, [0] * 5 + [1] * 5)
    whole = at.analysis.size
    A = np.stack([at.times(unit) for unit in np.eye(whole)], axis=-1).reshape(-1, whole)
    x, b, w = rng.normal(size=whole), rng.normal(size=(3, ROWS)), rng.normal(size=(3, ROWS))
    np.testing.assert_allclose(at.transposed_times(b), A.T @ b.ravel(), atol=1e-12)
    np.testing.assert_allclose(at.matrix_times(at.site_entries(w), x), A.T @ (w.ravel() * (A @ x)), atol=1e-11)
    S = rng.normal(size=(whole, whole))
    S = S + S.T
    found = at.forms(S[at.analysis.i, at.analysis.j])
    np.testing.assert_allclose(found.ravel(), np.einsum("ij,jk,ik->i", A, S, A), atol=1e-10)


def test_a_traced_program_uses_the_dense_prior() -> None:
    model = models(likelihoods.Gaussian(0.5), "scale")[0]
    X = table()
    data = Data.of(X, observed("values", X))
    sites = VI().solve(model, data).sites
    with traced():
        found = evidence.elbo(model, data, sites)
    np.testing.assert_allclose(found, evidence.elbo(model, data, sites), rtol=1e-9)
