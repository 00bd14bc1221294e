"""L3. Evidence surfaces: an evidence at every point of a (lengthscale, magnitude) grid.

One compiled program walks a row of the grid (constant σ).  Every point starts from the likelihood's own
sites, so its value does not depend on the grid it is part of, and every point carries its own outcome.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.data import Data, bucket
from sitewise.evidence import Evidence
from sitewise.inference import Inference
from sitewise.inference.driver import initial_sites, iterate
from sitewise.kernels import Matern52, Stationary
from sitewise.likelihoods import BernoulliProbit, Likelihood
from sitewise.precision import working_precision
from sitewise.priors import FullPrior


class Surface(NamedTuple):
    """Arrays of shape (len(log_sigma), len(log_lengthscale))."""

    evidence: np.ndarray
    code: np.ndarray
    steps: np.ndarray
    residual: np.ndarray


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _row(method: Inference, evidence: Evidence, kernel: type[Stationary], likelihood, data, log_ls, log_sigma):
    def point(log_l):
        prior = FullPrior(kernel(lengthscale=jnp.exp(log_l), variance=jnp.exp(2 * log_sigma)))
        found, solution = iterate(method, likelihood, prior.gram(data.X), data, initial_sites(likelihood, data))
        value = evidence.read(likelihood, data, found.q, solution.sites)
        return value, solution.code, solution.stats.steps, solution.stats.residual

    return lax.map(point, log_ls)


def evidence_surface(
    method: Inference,
    evidence: Evidence,
    data: Data,
    log_lengthscale: np.ndarray,
    log_sigma: np.ndarray,
    *,
    likelihood: Likelihood | None = None,
    kernel: type[Stationary] = Matern52,
    done: Callable[[], None] | None = None,
) -> Surface:
    """θ ↦ evidence(θ, λ*(θ)) on the grid; `done` is called after each row."""
    likelihood = BernoulliProbit() if likelihood is None else likelihood
    rows = []
    with working_precision():
        padded = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data.pad(bucket(data.rows)))
        for value in log_sigma:
            row = _row(method, evidence, kernel, likelihood, padded, jnp.asarray(log_lengthscale, float), float(value))
            rows.append(jax.tree.map(np.asarray, row))
            if done is not None:
                done()
    return Surface(*(np.stack(column) for column in zip(*rows, strict=True)))
