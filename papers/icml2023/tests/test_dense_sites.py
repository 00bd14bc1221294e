"""The printed sparse Algorithm 1: at one θ its dense site becomes that of VI, its objectives those of the library."""

import numpy as np
import pytest

from cases import problem
from sitewise import VI, Data, Model, evidence, kernels, likelihoods, posterior
from sitewise.errors import UserError
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite
from sitewise.process.precision import working_precision
from sitewise_icml2023 import dense_sites, variants
from sitewise_icml2023.protocols import Fold


def fold(rows, seed):
    X, y = problem("probit", rows + 20, seed=seed)
    X, y = np.asarray(X), np.asarray(y)
    return Fold(X[:rows], y[:rows], X[rows:], y[rows:])


@pytest.fixture
def at_one_theta(monkeypatch):
    """Steps of θ of length zero."""
    monkeypatch.setattr(dense_sites, "LEARNING_RATE", 0.0)
    dense_sites._rounds.clear_cache()
    yield
    dense_sites._rounds.clear_cache()


def test_the_fixed_point_is_that_of_sparse_vi(at_one_theta):
    part = fold(60, 3)
    found = {m: dense_sites.rows_of(m, 12, [part], max_rounds=30)[0] for m in variants.DENSE}
    with working_precision():
        Z = dense_sites.inducing_inputs(part.X, 12)
        likelihood = likelihoods.BernoulliProbit(quadrature=GaussHermite(20))
        model, data = Model.sparse(kernels.Matern52(), likelihood, Z), Data.of(part.X, part.y)
        sites = VI().solve(model, data).sites
        assert found["dense-elbo"]["objective"] == pytest.approx(float(evidence.elbo(model, data, sites)), abs=1e-3)
        assert found["dense-ep"]["objective"] == pytest.approx(float(evidence.ep(model, data, sites)), abs=1e-3)
        density = posterior(model, data, sites).log_density(part.X_test, part.y_test)
    assert found["dense-elbo"]["test_loglik"] == pytest.approx(float(np.mean(density)), abs=1e-4)


def test_a_padded_row_changes_nothing():
    whole = fold(40, 1)
    short = whole._replace(X=whole.X[:-3], y=whole.y[:-3])
    (alone,) = dense_sites.rows_of("dense-ep", 8, [short], max_rounds=3)
    beside = dense_sites.rows_of("dense-ep", 8, [whole, short], max_rounds=3)[1]
    assert alone["objective"] == pytest.approx(beside["objective"], rel=1e-9)
    assert alone["theta"]["kernel.lengthscale"] == pytest.approx(beside["theta"]["kernel.lengthscale"], rel=1e-9)


def test_it_needs_inducing_inputs():
    with pytest.raises(UserError, match="needs inducing inputs"):
        variants.parse("dense-ep")
    assert variants.parse("dense-ep@m500").inducing == 500
