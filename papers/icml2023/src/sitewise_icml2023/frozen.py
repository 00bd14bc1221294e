"""The EP of the printed tables: sites frozen while the hyperparameters are learned.

    1  EP's sites λ at the starting θ
    2  θ ← argmax log Z_q(λ, θ),   log Z_q = log ∫ N(f; 0, K_θ) Π exp(nat1_i f_i − ½ prec_i f_i²) df,   λ held
    3  predictions at that θ, with the sites of the start

Step 2 is the marginal likelihood of a regression on the pseudo-observations nat1/prec with noise 1/prec.  It is what
the library that made the column maximises: its optimiser does not run EP again before it ends.  The terms of EP's
evidence that are left out, Σ log of the tilted normaliser, do depend on θ; so this is no ascent of EP's evidence.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np

from sitewise import EP, Data, Model, Nested, evidence
from sitewise.learning.base import SiteFit
from sitewise.parameters import Trainable
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites
from sitewise_icml2023.lbfgs import search

REASON = "converged: EP's sites were held at those of the start"


@functools.partial(jax.jit, static_argnums=0)
def _loss(
    trainable: Trainable, vector: jax.Array, model: Model, data: Data, sites: Sites
) -> tuple[jax.Array, jax.Array]:
    def negative(v: jax.Array) -> jax.Array:
        prior = trainable.from_vector(model, v).prior
        return -prior.gram(data.X).condition(sites).log_z

    return jax.value_and_grad(negative)(vector)


def fit(model: Model, data: Data) -> SiteFit:
    """Train as the printed EP was; the kernel is moved on the softplus scale, by L-BFGS."""
    at_theta = Nested(EP(), evidence.ep, fixed=("kernel.*",))
    start = at_theta.fit(model, data)
    with working_precision():
        padded = data.to_bucket()
        sites = Sites(*(np.pad(np.asarray(part), (0, padded.rows - data.rows)) for part in start.sites))
        trainable = Trainable.of(model, transform="softplus")

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = _loss(trainable, vector, model, padded, sites)
            return float(value), np.asarray(slope)

        moved, found = search(model, trainable, loss)
    converged = bool(found.success and start.converged)
    reason = REASON if converged else f"stopped early: {found.message}"
    return dataclasses.replace(
        start,
        model=moved,
        method="ep-frozen",
        objective=-found.fun,
        converged=converged,
        reason=reason,
        rounds=found.nit,
    )
