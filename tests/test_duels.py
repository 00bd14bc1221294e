from types import SimpleNamespace

import numpy as np
import pytest

import sitewise as sw
from sitewise import duels, kernels, likelihoods
from sitewise.explain.decomposition import predict_utility
from sitewise.inference.solve import solve
from sitewise.predict import posterior

ITEMS = np.linspace(-1.5, 1.5, 7)[:, None]
UTILITY = np.sin(ITEMS[:, 0])


def test_choices_become_duels():
    X, y = duels.best_of(ITEMS, [(2, [0, 2, 5]), (1, [1, 6])])
    np.testing.assert_array_equal(X, np.column_stack([ITEMS[[2, 2, 1]], ITEMS[[0, 5, 6]]]))
    np.testing.assert_array_equal(y, [1, 1, 1])
    with pytest.raises(ValueError, match="no choice"):
        duels.best_of(ITEMS, [(1, [1])])


def test_utilities_of_a_fitted_estimator():
    rng = np.random.default_rng(0)
    first, second = rng.integers(7, size=(2, 80))
    second = np.where(first == second, (second + 1) % 7, second)
    X = duels.pairs(ITEMS, first, second)
    won = UTILITY[first] - UTILITY[second] + rng.normal(size=80) > 0
    model = sw.GPClassifier(kernels.Pairwise(kernels.RBF())).fit(X, won)
    mean, sd = model.predict_utility(ITEMS)
    assert np.sum(mean) == pytest.approx(0.0, abs=1e-10) and np.all(sd > 0)
    assert np.array_equal(np.argsort(mean), np.argsort(UTILITY))
    cov = model.predict_utility(ITEMS, return_cov=True)[1]
    np.testing.assert_allclose(np.diag(cov), sd**2)
    swapped = np.column_stack([X[:, 1:], X[:, :1]])
    np.testing.assert_allclose(model.predict_proba(swapped)[:, 1], model.predict_proba(X)[:, 0], atol=1e-10)


def test_ties_in_both_orders_are_the_likelihood_of_one():
    """At symmetric cut points, two half rows have the posterior of one row."""
    X = duels.pairs(ITEMS, [0, 1, 5, 6], [3, 2, 4, 0])
    rank = np.array([0.0, 1, 1, 2])
    model = sw.Model.full(kernels.Pairwise(kernels.RBF()), likelihoods.Ordinal(-0.4, [0.8]))
    both = sw.Data.of(*duels.symmetric(X, rank))
    one, two = (posterior(model, d, solve(sw.VI(), model, d).sites) for d in (sw.Data.of(X, rank), both))
    for found, wanted in zip(two.utility().f(ITEMS), one.utility().f(ITEMS), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    fit = sw.Nested(sw.VI(), sw.evidence.elbo, fixed=("kernel.*",)).fit(model, both)
    cuts = np.asarray(fit.model.likelihood.cuts())
    assert cuts[0] == pytest.approx(-cuts[1], abs=1e-3)


@pytest.mark.parametrize(("functions", "classes"), [(3, 1), (1, 3)])
def test_models_of_several_latent_functions_have_no_utilities(functions, classes):
    """Several functions: one per class, or joint classes with several functions in one likelihood."""
    one = SimpleNamespace(model=SimpleNamespace(likelihood=SimpleNamespace(latents=classes)))
    model = sw.GPClassifier()
    model._column_names, model._latents = (lambda: ["a"]), [one] * functions
    with pytest.raises(ValueError, match="one latent function; this model has several"):
        predict_utility(model, [[0.0], [1.0]], False)
