"""Gaussian sites of any sign: dense algebra, finite differences, both engines, and NaN where there is no Gaussian."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise.numerics.dense import gaussian_sites, signed_sites
from sitewise.numerics.dense.gaussian_sites import Conditioned


def problem(seed: int, rows: int = 9, share: float = 0.8):
    """K, b and w with negative precisions, of which some row has none; `share` = 1 makes K⁻¹ + W singular."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    K = 3 * np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=-1)) + 1e-3 * np.eye(rows)
    plus, minus = rng.gamma(1.0, 2.0, rows), np.zeros(rows)
    below, none = np.split(rng.permutation(rows)[: rows // 3 + 1], [rows // 3])
    minus[below], plus[below], plus[none] = rng.uniform(0.2, 1.0, len(below)), 0.0, 0.0
    # K⁻¹ + W₊ − t W₋ becomes singular at the smallest generalised eigenvalue t.
    sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(plus))
    largest = np.max(np.linalg.eigvalsh(np.sqrt(minus)[:, None] * sigma * np.sqrt(minus)))
    return K, rng.normal(size=rows), plus - share * minus / largest


def dense(K, b, w):
    """(Conditioned, Σ) by the textbook's inverses."""
    sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    mean = sigma @ b
    sign, log_det = np.linalg.slogdet(np.eye(len(K)) + K * w)
    assert sign > 0
    return Conditioned(mean, np.diag(sigma), -0.5 * log_det + 0.5 * b @ mean, np.float64(0)), sigma


def traced(K, b, w):
    """As the host's, from a program that does not know the precisions."""
    out, factors = jax.jit(functools.partial(gaussian_sites.condition_on_sites, signed=True))(K, b, w)
    return out, factors


ENGINES = {"host": gaussian_sites.condition_on_sites, "traced": traced}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(6))
def test_dense_algebra(engine, seed):
    K, b, w = problem(seed)
    assert np.any(w < 0) and np.any(w == 0) and np.any(w > 0)
    found, factors = ENGINES[engine](K, b, w)
    wanted, sigma = dense(K, b, w)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(gaussian_sites.covariance(K, w, factors), sigma, atol=1e-8)
    R = np.linalg.inv(np.linalg.inv(np.diag(np.where(w == 0, 1e-13, w))) + K)
    np.testing.assert_allclose(factors.R(), R, atol=1e-8)
    np.testing.assert_allclose(factors.R_times(b), R @ b, atol=1e-8)
    np.testing.assert_allclose(factors.alpha, np.linalg.solve(K, wanted.mean), atol=1e-8)
    mean, alpha = gaussian_sites.mean_on_sites(K, b, w)
    np.testing.assert_allclose(mean.mean, wanted.mean, atol=1e-9)
    np.testing.assert_allclose(alpha, factors.alpha, atol=1e-9)
    assert np.all(mean.var >= wanted.var * (1 - 1e-9))


def test_variances_may_exceed_those_of_the_prior():
    K, b, w = problem(0, share=0.99)
    assert np.any(gaussian_sites.condition_on_sites(K, b, w)[0].var > np.diagonal(K))


@pytest.mark.parametrize("engine", ENGINES)
def test_only_negative_precisions(engine):
    K, b, w = problem(1)
    w = -np.abs(w) * 0.5 / np.max(np.linalg.eigvalsh(np.sqrt(np.abs(w))[:, None] * K * np.sqrt(np.abs(w))))
    for one, other in zip(ENGINES[engine](K, b, w)[0], dense(K, b, w)[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_no_gaussian_is_nan(engine, seed):
    """On either side of the precision at which K⁻¹ + W is singular; no jitter hides it."""
    for share, proper in ((1 - 1e-6, True), (1 + 1e-6, False), (3.0, False)):
        K, b, w = problem(seed, share=share)
        out, _ = ENGINES[engine](K, b, w)
        assert all(np.all(np.isfinite(a)) == proper for a in out[:3])
        assert proper or all(np.all(np.isnan(a)) for a in out[:3])


def test_padding_drops_out():
    K, b, w = problem(3)
    more = np.full((12, 12), 0.7)
    more[:9, :9], more[np.arange(9, 12), np.arange(9, 12)] = K, 2.0
    b2, w2 = np.append(b, np.zeros(3)), np.append(w, np.zeros(3))
    for condition in ENGINES.values():
        found, wanted = condition(more, b2, w2)[0], condition(K, b, w)[0]
        np.testing.assert_allclose(found.mean[:9], wanted.mean, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found.var[:9], wanted.var, rtol=1e-12)
        np.testing.assert_allclose(found.log_z, wanted.log_z, rtol=1e-12)


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 0.0, 1.0), (0.0, 1.0, 0.0)])
def test_pullback_is_that_of_differences(scales):
    K, b, w = problem(4)
    rng = np.random.default_rng(5)
    by_mean, by_var = rng.normal(size=(2, len(b)))
    directions = rng.normal(size=K.shape), rng.normal(size=b.shape), rng.normal(size=w.shape)
    directions = (0.5 * (directions[0] + directions[0].T), *directions[1:])

    def value(K, b, w):
        out = gaussian_sites.gaussian_sites(K, b, w, signed=True)
        return scales[0] * by_mean @ out.mean + scales[1] * by_var @ out.var + scales[2] * out.log_z

    slopes = jax.jit(jax.grad(value, argnums=(0, 1, 2)))(K, b, w)
    for at, (slope, direction) in enumerate(zip(slopes, directions, strict=True)):

        def moved(step, at=at, direction=direction):
            return value(*(a + step * direction if i == at else a for i, a in enumerate((K, b, w))))

        # Richardson's combination of central differences
        fine, coarse = ((moved(h) - moved(-h)) / (2 * h) for h in (1e-4, 2e-4))
        assert abs(np.sum(slope * direction) - (4 * fine - coarse) / 3) <= 1e-6 * (1 + abs(fine))


def test_engines_agree_on_pullbacks_and_on_predictions():
    K, b, w = problem(6)
    rng = np.random.default_rng(7)
    bar = Conditioned(*rng.normal(size=(2, len(b))), np.float64(0.7), np.float64(0.0))
    pulled = {name: gaussian_sites.pull_prior(K, w, *engine(K, b, w), bar) for name, engine in ENGINES.items()}
    for one, other in zip(*pulled.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    host, program = gaussian_sites.site_weights(K, b, w), jax.jit(gaussian_sites.site_weights)(K, b, w)
    for one, other in zip(host, program, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_batches():
    """Problems with and without negative precisions in one program."""
    many = [problem(seed) for seed in range(3)]
    many.append((many[0][0], many[0][1], np.abs(many[0][2])))
    batch = [jnp.asarray(np.stack(each)) for each in zip(*many, strict=True)]
    found = jax.jit(jax.vmap(functools.partial(gaussian_sites.gaussian_sites, signed=True)))(*batch)
    for i, each in enumerate(many):
        for one, other in zip(found, dense(*each)[0], strict=True):
            np.testing.assert_allclose(one[i], other, rtol=1e-8, atol=1e-9)


def test_the_algebra_of_any_sign_without_negative_ones():
    K, b, w = problem(2)
    w = np.abs(w)
    for one, other in zip(traced(K, b, w)[0], gaussian_sites.condition_on_sites(K, b, w)[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_program_that_was_not_told_of_negative_precisions_gives_nan():
    K, b, w = problem(0)
    for function in (gaussian_sites.gaussian_sites, lambda *a: gaussian_sites.mean_on_sites(*a)[0]):
        assert np.all(np.isnan(jax.jit(function)(K, b, w).mean))
        assert np.all(np.isfinite(jax.jit(function)(K, b, np.abs(w)).mean))


def test_programs_for_precisions_of_at_least_zero_hold_one_factorisation():
    K, b, w = problem(0)

    def factorisations(signed):
        function = functools.partial(gaussian_sites.gaussian_sites, signed=signed)
        return str(jax.make_jaxpr(function)(K, b, w)).count("= cholesky ")

    assert (factorisations(False), factorisations(True)) == (1, 2)


@pytest.mark.parametrize("seed", range(3))
def test_signed_factor(seed):
    K, _, w = problem(seed)
    L, order, root, sign, jitter = signed_sites.signed_factor(K, w)
    root_w = np.sqrt(np.abs(w))
    M = np.diag(np.where(w < 0, -1.0, 1.0)) + root_w[:, None] * K * root_w
    np.testing.assert_allclose((L * sign) @ L.T, M[order][:, order], atol=1e-13)
    np.testing.assert_array_equal(L, np.tril(L))
    np.testing.assert_allclose(root**2 * sign, w[order], rtol=1e-14)
    assert jitter == 0
