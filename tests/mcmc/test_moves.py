"""Both kernels leave their target invariant: started from exact draws, moments stay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods
from sitewise.mcmc import ais, elliptical, independence_move
from sitewise.mcmc.reference import Target, draw, reference
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import module

CHAINS = 4000


def _setting():
    """Half of the information in the sites, the other half in r; the posterior is Gaussian and known."""
    rng = np.random.default_rng(1)
    X = np.linspace(0, 4, 8)[:, None]  # apart enough for single rows to move
    data = jax.tree.map(jnp.asarray, Data.of(X, rng.normal(size=8)))
    model = Model.full(kernels.Matern32(lengthscale=0.7, variance=2.0), likelihoods.Gaussian(scale=0.6))
    exact = Sites(data.y / 0.36, jnp.full(8, 1 / 0.36))
    half = Sites(0.5 * exact.nat1, 0.5 * exact.prec)
    return model, data, exact, half


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["elliptical", "rowwise"])
@pytest.mark.parametrize("start", ["posterior", "reference"])
def test_gaussian_posterior_is_invariant(kernel, start):
    with working_precision():
        model, data, exact, half = _setting()
        truth = reference(model, data, exact)
        ref = reference(model, data, half)
        target = Target(ref, model.likelihood, data)
        first = draw(jax.random.key(0), truth if start == "posterior" else ref, CHAINS)
        state = elliptical.init(first, target.residual)

        @jax.jit
        def many(key, state):
            def body(i, state):
                key_i = jax.random.fold_in(key, i)
                if kernel == "elliptical":
                    return elliptical.step(key_i, state, target.residual, ref.mean, ref.root)[0]
                return independence_move.step(key_i, state, target, 1.0)

            return jax.lax.fori_loop(0, 20 if start == "posterior" else 150, body, state)

        state = many(jax.random.key(1), state)
        cov = np.asarray(truth.root @ truth.root.T)
        f = np.asarray(state.position)
        sd = np.sqrt(np.diag(cov))
        assert np.max(np.abs(f.mean(axis=1) - np.asarray(truth.mean)) / sd) < 4 / np.sqrt(CHAINS)
        scaled = np.cov(f) / np.outer(sd, sd) - cov / np.outer(sd, sd)
        assert np.max(np.abs(scaled)) < 5 * np.sqrt(2 / CHAINS)
        np.testing.assert_allclose(state.residual, target.residual(state.position), rtol=1e-9)


def test_info_and_cap():
    """A chain that may not shrink at all stays where it is unless its first angle is accepted."""
    with working_precision():
        model, data, _, half = _setting()
        ref = reference(model, data, half)
        target = Target(ref, model.likelihood, data)
        state = elliptical.init(draw(jax.random.key(0), ref, 64), target.residual)
        new, info = elliptical.step(jax.random.key(1), state, target.residual, ref.mean, ref.root, max_shrinks=0)
        stayed = np.asarray(info.angle) == 0
        assert 0 < stayed.sum() < 64
        np.testing.assert_allclose(np.asarray(new.position)[:, stayed], np.asarray(state.position)[:, stayed])


def test_temperatures_are_even_where_the_residual_varies_equally_at_all_of_them():
    """If log p is linear in f, the residual has the same standard deviation at every temperature τ.

    A tenth of the spacing is that of the pilot run, τ = u⁴: the temperature at s solves 0.9 τ + 0.1 τ^¼ = s.
    """

    @module
    class Tilted(likelihoods.Likelihood):
        def log_prob(self, y, f):
            return 0.5 * f

    model, data = Model.full(kernels.RBF(), Tilted()), Data.of([[0.0], [1.0]], [0.0, 0.0])
    ref = reference(model, data, Sites(np.zeros(2), np.zeros(2)))
    knots = ais.pilot_knots(ais.Annealing(chains=64), jax.random.key(0), Target(ref, Tilted(), data), 64)
    even = np.linspace(0, 1, len(knots))
    np.testing.assert_allclose(0.9 * knots + 0.1 * knots**0.25, even, atol=0.05)
