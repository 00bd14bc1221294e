"""A prior with a sparse precision equals the dense prior with the same covariance, under every method and evidence."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict

import jax
import numpy as np
import pytest

import cases
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
from sitewise.arrays.engine import to_host
from sitewise.parameters import values, with_values
from sitewise.parts import chains
from sitewise.priors.precision import assembly
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

GRAPH = {0: [1, 2], 1: [2], 2: [3], 3: [], 4: [5], 5: [], 6: []}
ROWS = 14
SITES_TOL = 1e-11  # residual of the sites: an error of the sites changes a gradient in proportion


def everything() -> list[parts.Part]:
    return [
        parts.Map((0, 1), kernels.Matern32([0.9, 1.4], 0.8), neighbours=20),
        parts.Levels(2, variance=0.5),
        parts.Levels((2, 3), slope=0, variance=0.3),
        parts.Area(3, GRAPH, variance=0.7, share=0.6),
        parts.Area(3, GRAPH, model="icar", variance=0.2),
        parts.Series(1, kernels.Matern52(1.1, 0.6), by=2),
        parts.Linear((0, 1), variance=[0.4, 0.2]),
        parts.Season(1, period=2.5, lengthscale=0.9, variance=0.4),
        parts.Spline(0, knots=(-2, -0.5, 0, 0.7, 2), variance=0.5, slope_variance=2.0),
        parts.Spline(0, by=1, knots=(-2, -0.5, 0.7, 2), variance=0.2, slope_variance=0.3),
        parts.SplineLevels(1, by=2, knots=(-2, -0.5, 0.7, 2), variance=0.3, slope_variance=0.2),
        parts.VaryingCoefficients(2, slopes=(0, 1), variance=(0.4, 0.2, 0.3), coupling=(0.5, -0.3, 0.8)),
        parts.Tensor((0, 1), knots=((-1, 0, 0.4, 1), (-2, -1, 0, 1, 2)), variance=(0.2, 0.3, 0.1), slope_variance=1.0),
        parts.Constant(variance=2.0),
    ]


def table(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, 2)), rng.integers(0, 3, rows), rng.integers(0, 7, rows)]).astype(float)
    X[-2] = X[0]  # a repeated row
    X[-1, :2] = X[1, :2]  # a repeated place
    return X


def pair_of_models(likelihood: str) -> tuple[Model, Model]:
    """The same model by its precision and by its covariance matrix."""
    own, mean = cases.LIKELIHOODS[likelihood], means.Constant(0.3)
    return Model.latent(everything(), own, mean), Model.full(kernels.Sum(tuple(everything())), own, mean)


PAIRS = {
    "laplace": (Laplace(), evidence.laplace),
    "ep": (EP(), evidence.ep),
    "vi": (VI(), evidence.elbo),
    "hybrid": (VI(), evidence.ep),
    "loo": (VI(), evidence.loo),
}
LIKELIHOODS = ("student-t", "probit", "poisson", "logit", "gaussian")


# Every pair once, every likelihood once: each combination compiles programs of its own.
@pytest.mark.parametrize(("pair", "likelihood"), list(zip(PAIRS, LIKELIHOODS, strict=True)))
def test_value_gradient_and_predictions_equal_dense_algebra(pair: str, likelihood: str) -> None:
    X = table()
    y = cases.observations(likelihood, np.sin(X[:, 0]), np.random.default_rng(1))
    data = Data.of(X, y, weight=np.linspace(0.5, 2.0, ROWS))
    method, number = dataclasses.replace(PAIRS[pair][0], tol=SITES_TOL), PAIRS[pair][1]
    found, want = (value_and_grad(method, number, has_aux=True)(model, data) for model in pair_of_models(likelihood))
    np.testing.assert_allclose(found[0][0], want[0][0], rtol=1e-9)
    for one, other in zip(jax.tree.leaves(found[1]), jax.tree.leaves(want[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    new = np.concatenate([table(6, seed=4), X[:2], [[0.3, 9.0, 5.0, 6.0], [0.3, 9.5, 5.0, 11.0]]])  # new levels, area
    latent, full = (
        posterior(model, data, out[0][1].sites)
        for model, out in zip(pair_of_models(likelihood), (found, want), strict=True)
    )
    for one, other in zip((*latent.f(new), *latent.f_joint(new)), (*full.f(new), *full.f_joint(new)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", [kernels.Matern12(0.8), kernels.Matern32([0.9, 1.4]), kernels.Matern52(0.7, 1.5)])
def test_a_map_with_all_neighbours_equals_the_full_gp(kernel: kernels.Kernel) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    data, own = Data.of(X, rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)), likelihoods.Poisson()
    models = Model.latent(parts.Map((0, 1), kernel, neighbours=29), own), Model.full(kernel, own)
    found, want = (value_and_grad(EP(tol=SITES_TOL), evidence.ep)(model, data) for model in models)
    np.testing.assert_allclose(found[0], want[0], rtol=1e-9)
    for one, other in zip(jax.tree.leaves(found[1]), jax.tree.leaves(want[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def separable() -> dict[str, parts.Part]:
    places = parts.Map((0, 1), kernels.Matern32([0.8, 1.3], 0.7), neighbours=39)
    time = parts.Series(2, kernels.Matern32(1.1, 0.9))
    return {
        "space and time": parts.Product((places, time)),
        "independent trends": parts.Product(
            (parts.Levels(3, variance=0.6), parts.Series(2, kernels.Matern52(1.0, 0.8)))
        ),
        "trends of neighbouring areas": parts.Product((parts.Area(3, GRAPH, share=0.6), time)),
        "the area second": parts.Product(
            (parts.Series(2, kernels.Matern12(0.8, 0.4)), parts.Area(3, GRAPH, model="icar"))
        ),
        "an effect that varies in space": parts.Product((places, parts.Linear(2, variance=0.3))),
    }


@pytest.mark.parametrize("name", separable())
def test_a_product_of_parts_equals_the_product_of_their_covariances(name: str) -> None:
    part, own, rng = separable()[name], likelihoods.Poisson(), np.random.default_rng(8)
    X = np.column_stack([rng.normal(size=(40, 2)).round(1), 0.7 * rng.integers(0, 8, 40), rng.integers(0, 7, 40)])
    X[:, :2] = X[rng.integers(0, 9, 40), :2]
    data = Data.of(X, rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float))
    models = Model.latent([part, parts.Constant()], own), Model.full(kernels.Sum((part, parts.Constant())), own)
    found, want = (value_and_grad(EP(tol=SITES_TOL), evidence.ep, has_aux=True)(m, data) for m in models)
    np.testing.assert_allclose(found[0][0], want[0][0], rtol=1e-9)
    for one, other in zip(jax.tree.leaves(found[1]), jax.tree.leaves(want[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    shift = np.repeat([[0, 0, 0, 0], [0.1, 0, 0, 0], [0, 0, 0.2, 0], [0.1, 0.2, 10, 0]], 3, axis=0)
    new = X[:12] + shift
    latent, full = (posterior(m, data, out[0][1].sites) for m, out in zip(models, (found, want), strict=True))
    for one, other in zip((*latent.f(new), *latent.f_joint(new)), (*full.f(new), *full.f_joint(new)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


def test_the_gradient_of_a_product_with_a_map_of_few_neighbours_equals_differences() -> None:
    rng = np.random.default_rng(9)
    X = np.column_stack([np.repeat(rng.uniform(0, 3, (10, 2)), 4, axis=0), np.tile(np.arange(4.0), 10)])
    data = Data.of(X, rng.poisson(2.0, 40).astype(float))
    places = parts.Map((0, 1), kernels.Matern52(0.8, 1.3), neighbours=3)
    part = parts.Product((places, parts.Series(2, kernels.Matern32(1.5, 0.8))))
    model, at = Model.latent(part, likelihoods.Poisson()), value_and_grad(EP(tol=1e-12), evidence.ep)
    slopes = values(at(model, data)[1])
    for path, value in values(model).items():
        moved = [float(at(with_values(model, {path: value + sign * 1e-5}), data)[0]) for sign in (1, -1)]
        np.testing.assert_allclose(slopes[path], (moved[0] - moved[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def test_parts_have_their_own_posteriors() -> None:
    X, sets = table(), [(0,), (3, 4), (5, 8), (10, 11)]
    rng = np.random.default_rng(2)
    latent, full = (to_host(model.prior) for model in pair_of_models("gaussian"))
    with working_precision():
        sites = Sites(rng.normal(size=ROWS), rng.uniform(0.3, 2.0, ROWS))
        new = table(5, seed=3)
        q, p = latent.posterior(X, sites), full.posterior(X, sites)
        for one, other in zip(q.parts_joint(new, sets), p.parts_joint(new, sets), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)
        for chosen in sets:
            one, other = q.part(chosen, means.Zero()).marginals(new), p.part(chosen, means.Zero()).marginals(new)
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("pairs", [0, chains.MAX_TREE_PAIRS])  # a chain of states, and a tree of times
@pytest.mark.parametrize("kernel", [kernels.Matern12(0.7), kernels.Matern32(0.9, 1.3), kernels.Matern52(1.2, 0.8)])
def test_series_equals_markov(kernel: kernels.Kernel, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_TREE_PAIRS", pairs)
    monkeypatch.setattr(assembly, "_kept", OrderedDict())
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.uniform(0, 20, 60).round(0), rng.integers(0, 3, 60)])
    y = rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    data, own = Data.of(X, y), likelihoods.Poisson()
    chain = Model.markov(kernel, own, series=1)
    latent = Model.latent(parts.Series(0, kernel, by=1), own)
    found, want = (value_and_grad(EP(), evidence.ep)(model, data) for model in (latent, chain))
    np.testing.assert_allclose(found[0], want[0], rtol=1e-8)
    np.testing.assert_allclose(jax.tree.leaves(found[1]), jax.tree.leaves(want[1]), rtol=1e-5, atol=1e-6)


SUM = kernels.Matern52(0.3, 0.5) + kernels.Matern32(1.0, 0.8)
CLOSE = {
    "evenly": np.arange(100) * 0.01,
    "very close": np.arange(100) * 1e-6,
    "clusters": np.concatenate([np.linspace(0, 10, 40), 3 + 1e-7 * np.arange(20), 5 + np.linspace(0, 1, 30) ** 6]),
}


@pytest.mark.parametrize("kernel", [kernels.Matern52(1.0, 0.8), SUM])
@pytest.mark.parametrize("name", CLOSE)
def test_close_times_of_a_series_lose_no_digits(name: str, kernel: kernels.Kernel) -> None:
    """Spacings from a hundredth to a ten-millionth of the lengthscale, also beside wide gaps, against a filter."""
    time = np.random.default_rng(6).permutation(CLOSE[name])
    y = np.random.default_rng(7).poisson(np.exp(np.sin(3 * time))).astype(float)
    data, own = Data.of(time[:, None], y), likelihoods.Poisson()
    latent, chain = Model.latent(parts.Series(0, kernel), own), Model.markov(kernel, own)
    found, want = (value_and_grad(EP(tol=SITES_TOL), evidence.ep, has_aux=True)(m, data) for m in (latent, chain))
    np.testing.assert_allclose(found[0][0], want[0][0], rtol=1e-10)
    np.testing.assert_allclose(jax.tree.leaves(found[1]), jax.tree.leaves(want[1]), rtol=1e-8, atol=1e-8)
    new = np.concatenate([time[:20], time[:20] + 3e-8, [-1.0, 20.0]])[:, None]
    one, other = (posterior(m, data, out[0][1].sites).f(new) for m, out in ((latent, found), (chain, want)))
    np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("part", "kernel"),
    [
        (parts.Levels(2, variance=0.7), kernels.Index(2, kappa=0.7)),
        (parts.Linear((0, 1), variance=0.7), kernels.Linear(0.7, active_dims=(0, 1))),
        (parts.Constant(variance=0.7), kernels.Constant(0.7)),
    ],
)
def test_parts_equal_kernels(part: parts.Part, kernel: kernels.Kernel) -> None:
    X = table()
    data = Data.of(X, np.sin(X[:, 0]))
    latent, full = Model.latent(part, likelihoods.Gaussian(0.4)), Model.full(kernel, likelihoods.Gaussian(0.4))
    found, want = (value_and_grad(VI(), evidence.elbo)(model, data) for model in (latent, full))
    np.testing.assert_allclose(found[0], want[0], rtol=1e-9)
    np.testing.assert_allclose(jax.tree.leaves(found[1]), jax.tree.leaves(want[1]), rtol=1e-7, atol=1e-8)


def test_a_season_equals_the_periodic_kernel() -> None:
    X = np.random.default_rng(0).uniform(0, 9, (20, 1))
    with working_precision():
        found = parts.Season(0, period=2.5, harmonics=20, lengthscale=0.8, variance=1.3).matrix(X)
        np.testing.assert_allclose(found, kernels.Periodic(0.8, 2.5, 1.3).matrix(X), rtol=1e-8, atol=1e-10)


def test_rows_at_which_f_is_known_have_no_effect_on_the_rest() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, 40).astype(float)  # a linear effect without an intercept is zero at 0
    y = rng.poisson(np.exp(0.3 * x)).astype(float)
    effects, own, seen = parts.Linear(0, variance=2.0), likelihoods.Poisson(), x > 0
    for method, number in PAIRS.values():
        whole, rest = (Data.of(X[:, None], z) for X, z in ((x, y), (x[seen], y[seen])))
        model = Model.latent(effects, own)
        found, want = (number(model, data, method.solve(model, data).sites) for data in (whole, rest))
        known = np.sum(np.asarray(own.log_prob(y[~seen], np.zeros(np.sum(~seen)))))
        np.testing.assert_allclose(found, want + known, rtol=1e-7)


def test_laplace_converges_with_nearly_flat_priors_of_linear_effects() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([100 * rng.normal(size=60), rng.integers(0, 12, 60)])
    y = rng.poisson(np.exp(0.01 * X[:, 0])).astype(float)
    effects = [parts.Linear(0, variance=1e6), parts.Levels(1, variance=0.5), parts.Constant(variance=1e6)]
    found = Laplace().solve(Model.latent(effects, likelihoods.Poisson()), Data.of(X, y))
    assert found.outcome.ok
    assert found.stats.steps < 20
