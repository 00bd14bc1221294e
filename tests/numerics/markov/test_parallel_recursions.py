"""Recursions by doubling, which an accelerator uses, give the numbers of the loops."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import kernels, means
from sitewise.arrays import sweeps
from sitewise.priors import MarkovPrior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

KERNELS = [kernels.Matern12(0.8), kernels.Cosine(1.9) * kernels.Matern32(1.1) + kernels.Constant(0.3)]


@pytest.mark.parametrize("kernel", KERNELS, ids=["one state", "five states"])
def test_they_are_the_loops(monkeypatch, kernel):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 9, (37, 1))
    X[4:7] = X[20]
    nat1, prec, x = rng.normal(size=37), rng.gamma(0.5, 3.0, 37), rng.normal(size=37)
    prec[3], prec[8] = 0.0, -0.1
    prior = MarkovPrior(kernel, means.Constant(0.4))

    def everything(prior, X, sites, x):
        gram, pull = prior.gram_with_pull(X)
        q, factor = gram.condition_with_factor(sites, None)
        cov, by_q = gram.covariance(sites, factor), q._replace(mean=x, var=x**2, log_z=0.7)
        slope = jax.grad(lambda prec: prior.gram(X).condition(Sites(sites.nat1, prec)).var @ x)(sites.prec)
        return q, cov.times(x), cov.squared_times(x), slope, pull(gram.pull(sites, factor, q, by_q))

    with working_precision():
        given = prior, *jax.tree.map(jnp.asarray, (X, Sites(nat1, prec), x))
        wanted = jax.jit(everything)(*given)
        monkeypatch.setattr(sweeps, "on_accelerator", lambda: True)
        found = jax.jit(lambda *args: everything(*args))(*given)
        loops = re.findall(r"length=(\d+)", str(jax.make_jaxpr(lambda *args: everything(*args))(*given)))
        assert loops and set(loops) == {"6"}  # log₂ 38 rounds: no loop along the rows
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-10)
