"""Padding, row order and integer weights change nothing."""

import functools

import jax
import numpy as np
import pytest

from cases import EVIDENCES, LIKELIHOODS, METHODS, problem
from sitewise import Data, Model, evidence, kernels, posterior

ROWS = 13
READ = {**EVIDENCES, "power": evidence.power_ep(0.5)}


def _everything(method, model, data, X_new):
    solution = method.solve(model, data)
    q = posterior(model, data, solution.sites)
    return {k: e(model, data, solution.sites) for k, e in READ.items()}, q.f(X_new), solution


ENGINES = {"host": _everything, "traced": functools.partial(jax.jit, static_argnums=0)(_everything)}


def _same(a, b, atol):
    for key in READ:
        np.testing.assert_allclose(a[0][key], b[0][key], atol=atol, err_msg=key)
    np.testing.assert_allclose(a[1][0], b[1][0], atol=atol)
    np.testing.assert_allclose(a[1][1], b[1][1], atol=atol)


CASES = [(method, likelihood, "host") for method in METHODS for likelihood in LIKELIHOODS]
CASES += [("vi", "poisson", "traced")]


@pytest.mark.parametrize(("method", "likelihood", "engine"), CASES)
def test_padding_row_order_and_integer_weights(method, likelihood, engine):
    solve = functools.partial(ENGINES[engine], METHODS[method])
    X, y = problem(likelihood, ROWS)
    X_new = X[:4] + 0.1
    model = Model.full(kernels.Matern52([0.8, 1.1], 1.5), LIKELIHOODS[likelihood])
    plain = solve(model, Data.of(X, y), X_new)
    assert plain[2].code == 0
    _same(plain, solve(model, Data.of(X, y).pad(20), X_new), 1e-10)
    order = np.random.default_rng(3).permutation(ROWS)
    _same(plain, solve(model, Data.of(X[order], y[order]), X_new), 1e-10)
    # A weight of 2 is two copies of the row, a weight of 0 is none.
    weight = np.array([1, 3, 0, 1, 4, 1, 1, 1, 3, 2, 1, 2, 0])
    copies = np.repeat(np.arange(ROWS), weight)
    weighted = solve(model, Data.of(X, y, weight), X_new)
    repeated = solve(model, Data.of(X[copies], y[copies]), X_new)
    assert weighted[2].code == repeated[2].code == 0
    _same(weighted, repeated, 1e-7)


@pytest.mark.parametrize("engine", ENGINES)
def test_fractional_weights_are_powers_of_the_likelihood(engine):
    """Gaussian noise of variance s²/w is the w-th power of noise s², up to the normaliser."""
    from sitewise import EP, likelihoods

    X, y = problem("gaussian", ROWS)
    weight = np.full(ROWS, 0.25)
    kernel = kernels.Matern52(0.8, 1.5)
    a = ENGINES[engine](EP(), Model.full(kernel, likelihoods.Gaussian(0.4)), Data.of(X, y, weight), X[:4])
    b = ENGINES[engine](EP(), Model.full(kernel, likelihoods.Gaussian(0.8)), Data.of(X, y), X[:4])
    np.testing.assert_allclose(a[1][0], b[1][0], atol=1e-9)
    np.testing.assert_allclose(a[1][1], b[1][1], atol=1e-9)
    assert a[2].code == 0
    # log p^w = w log p: the same Gaussian up to Σ [½(1−w) log 2πs² − ½ log w].
    shift = ROWS * (0.5 * 0.75 * np.log(2 * np.pi * 0.16) - 0.5 * np.log(0.25))
    for key in ("laplace", "elbo", "ep", "power"):
        assert a[0][key] - shift == pytest.approx(float(b[0][key]), abs=1e-8), key


@pytest.mark.parametrize("method", ["EP", "VI"])
def test_gradients_with_less_than_one_copy_of_every_row(method):
    """Rows that only fill up a program are copies of the first, whose cavity was that of a whole copy: NaN."""
    import sitewise
    from sitewise import evidence, likelihoods, value_and_grad

    data = Data.of([[0.1], [0.7], [2.0]], [0.3, -1.2, 3.0], [0.02, 0.5, 0.3])
    kernel = kernels.Matern52(1.0, 9.0)

    def value(scale):
        inference = getattr(sitewise, method)(tol=1e-12)
        return value_and_grad(inference, evidence.ep)(Model.full(kernel, likelihoods.Gaussian(scale)), data)

    up, down = (float(value(0.05 + h)[0]) for h in (1e-6, -1e-6))
    assert float(value(0.05)[1].likelihood.scale) == pytest.approx((up - down) / 2e-6, rel=1e-6)
