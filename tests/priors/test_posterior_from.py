"""A posterior from the factor of a fit is that of its sites, for precisions of any sign, and for uncorrelated rows."""

import numpy as np
import pytest

from sitewise import kernels, means
from sitewise.priors import ClassPrior, FullPrior
from sitewise.sites import Sites

X = np.random.default_rng(0).normal(size=(9, 2))
NEW = np.random.default_rng(1).normal(size=(4, 2))


def both(prior, sites, X=X):
    gram = prior.gram(X)
    factor = gram.condition_with_factor(sites, np.ones(len(X), bool))[1]
    return prior.posterior_from(gram, factor, X, sites), prior.posterior(X, sites)


@pytest.mark.parametrize("least", [0.3, -0.2])
def test_precisions_of_any_sign(least):
    rng = np.random.default_rng(2)
    sites = Sites(rng.normal(size=9), np.where(np.arange(9) % 3 == 1, least, rng.uniform(0.5, 2.0, 9)))
    found, wanted = both(FullPrior(kernels.Matern52(0.8, 1.3), means.Constant(0.4)), sites)
    assert (found.sign is None) == (least > 0)
    weight = rng.normal(size=(2, 1, 1, 4))
    for name, args in (("marginals", (NEW,)), ("joint", (NEW,)), ("sums", (NEW[None], weight))):
        for one, other in zip(getattr(found, name)(*args), getattr(wanted, name)(*args), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("least", [0.3, -0.2])
@pytest.mark.parametrize("far", [True, False])
def test_rows_that_are_far_apart_are_uncorrelated(least, far):
    rows = np.column_stack([np.arange(9.0) * (1e3 if far else 0.5), np.zeros(9)])
    prec = np.where(np.arange(9) % 3 == 1, least, 1.0)
    for q in both(FullPrior(kernels.RBF(1.0)), Sites(np.ones(9), prec), rows):
        assert q.uncorrelated() is far
    if least > 0:
        several = ClassPrior(kernels.RBF(1.0)).posterior(rows, Sites(np.ones((3, 9)), np.tile(prec, (3, 1))))
        assert several.uncorrelated() is far
