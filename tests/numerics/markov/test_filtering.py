"""Chains times sites at the limits: signs of precisions, tiny and huge steps, precise sites, many blocks of rows."""

import jax
import numpy as np
import pytest

from sitewise import kernels, means
from sitewise.priors import FullPrior, MarkovPrior
from sitewise.sites import Sites

KERNEL = kernels.Matern52(1.1, 1.4) + kernels.Constant(0.2)


def both(X, sites, kernel=KERNEL):
    mean = means.Constant(0.3)
    return (prior(kernel, mean).gram(X).condition(sites) for prior in (FullPrior, MarkovPrior))


def same(one, other, rtol=1e-9):
    for name in ("mean", "var", "log_z"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("rows", [1, 2, 129, 300, 600])
def test_rows_in_several_blocks(rows):
    rng = np.random.default_rng(rows)
    X = rng.uniform(0, rows / 5, (rows, 1))
    X[rng.integers(rows, size=rows // 3)] = X[0]
    sites = Sites(rng.normal(size=rows), rng.gamma(0.5, 2.0, rows) * (rng.random(rows) < 0.8))
    same(*both(X, sites))
    x, products = rng.normal(size=rows) * (sites.prec > 0), []
    for prior in (FullPrior(KERNEL), MarkovPrior(KERNEL)):
        gram, pull = prior.gram_with_pull(X)
        q, factor = gram.condition_with_factor(sites, None)
        cov = gram.covariance(sites, factor)
        bar = gram.pull(sites, factor, q, q._replace(mean=x, var=x**2, log_z=np.float64(0.7)))
        products.append((cov.times(x), cov.squared_times(x), *jax.tree.leaves(pull(bar).kernel)))
    for one, other in zip(*products, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9 * np.max(np.abs(one)))


def test_negative_precisions_give_the_right_gaussian_or_none():
    """Also where the product of the first sites alone is none, and only later sites make it one."""
    rng, seen = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(60):
        X = rng.uniform(0, 3, (9, 1))
        sites = Sites(rng.normal(size=9), rng.normal(0.4, 1.0, 9))
        dense, markov = both(X, sites)
        a_gaussian = bool(np.isfinite(dense.log_z))
        seen[a_gaussian] += 1
        assert np.all(np.isfinite(markov.mean)) == np.all(np.isfinite(markov.var)) == a_gaussian
        if a_gaussian and np.max(dense.var) < 50:
            same(dense, markov, 1e-8)
    assert min(seen.values()) > 10
    first = Sites(np.array([0.5, 1.0]), np.array([-4.0, 6.0]))
    same(*both(np.zeros((2, 1)), first))


def test_equal_times_are_one_time():
    rows = 20_000
    sites = Sites(np.full(rows, 0.3), np.full(rows, 0.5))
    found = MarkovPrior(KERNEL).gram(np.full((rows, 1), 7.0)).condition(sites)
    prior = float(KERNEL.variances(np.zeros((1, 1)))[0])
    precision = 1 / prior + 0.5 * rows
    np.testing.assert_allclose(found.var, 1 / precision, rtol=1e-9)
    np.testing.assert_allclose(found.mean, 0.3 * rows / precision, rtol=1e-9)
    assert found.log_z == pytest.approx(-0.5 * np.log(prior * precision) + 0.5 * (0.3 * rows) ** 2 / precision)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_steps_of_a_billionth_and_of_a_billion_lengthscales(size):
    """Nearly equal rows share all they know; distant ones share nothing."""
    kernel = (kernels.Matern12, kernels.Matern32, kernels.Matern52)[size - 1](1.0, 2.0)
    X = np.array([0.0, 1e-9, 2e-9, 1e9, 2e9])[:, None]
    sites = Sites(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.full(5, 2.0))
    found = MarkovPrior(kernel).gram(X).condition(sites)
    near, far = 1 / (0.5 + 6.0), 1 / 2.5
    np.testing.assert_allclose(found.var, [near, near, near, far, far], rtol=1e-7)
    np.testing.assert_allclose(found.mean, [6 * near, 6 * near, 6 * near, 4 * far, 5 * far], rtol=1e-7)


@pytest.mark.parametrize(("precision", "told"), [(1e9, False), (1e14, True)])
def test_very_precise_sites_keep_their_digits(precision, told):
    """Noise of 1e-7 on a smooth line.  log_z is then a difference of numbers of 1e14, and this is told."""
    time = np.linspace(0, 5, 40)[:, None]
    prec, y = np.full(40, precision), np.sin(time[:, 0])
    gram = MarkovPrior(kernels.Matern32(1.0, 1.0)).gram(time)
    q, factor = gram.condition_with_factor(Sites(prec * y, prec), None)
    np.testing.assert_allclose(q.mean, y, atol=1e3 / precision)
    np.testing.assert_allclose(q.var, 1 / precision, rtol=1e-5)
    assert (gram.rounding_error(Sites(prec * y, prec), q, factor) > 1e-3) == told


def test_a_variance_that_is_a_difference_is_told():
    """That of a row without a site at the time of a precise one."""
    gram = MarkovPrior(kernels.Matern32(1.0, 1.0)).gram(np.zeros((2, 1)))
    sites = Sites(np.array([0.0, 1.0]), np.array([0.0, 1e14]))
    assert gram.rounding_error(sites, *gram.condition_with_factor(sites, None)) > 1e-3
