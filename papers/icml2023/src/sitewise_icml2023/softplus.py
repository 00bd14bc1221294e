"""Laplace's method as the printed tables searched: L-BFGS on the softplus scale, from ℓ = σ² = 1.

The objective and its exact gradient are those of the library; only the search differs.  With one lengthscale it ends
where the library's does.  With one a feature there are many maxima, and lengthscales without a finite one: which is
found depends on the scale on which the search steps (`Nested` searches on the log scale, by another quasi-Newton rule).
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise import Data, Laplace, Model, Nested, evidence, value_and_grad
from sitewise.learning.base import SiteFit
from sitewise.parameters import Trainable
from sitewise.runtime.precision import working_precision
from sitewise_icml2023.lbfgs import search


def fit(model: Model, data: Data) -> SiteFit:
    """Train the kernel of the model on Laplace's evidence."""
    read = value_and_grad(Laplace(), evidence.laplace, has_aux=True)
    with working_precision():
        trainable = Trainable.of(model, transform="softplus")
        sites = None

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal sites
            at, pull = jax.vjp(lambda v: trainable.from_vector(model, v), vector)
            (value, solution), slope = read(jax.tree.map(np.asarray, at), data, sites)
            if solution.outcome.settled:
                sites = solution.sites
            (by_vector,) = pull(jax.tree.map(lambda a, g: np.asarray(g, np.asarray(a).dtype), at, slope))
            return -float(value), -np.asarray(by_vector)

        moved, found = search(model, trainable, loss)
    end = Nested(Laplace(), evidence.laplace, fixed=("kernel.*",)).fit(moved, data)
    reason = "converged" if found.success else f"stopped early: {found.message}"
    return dataclasses.replace(
        end,
        method="laplace-softplus",
        reason=reason,
        converged=bool(found.success and end.converged),
        rounds=found.nit,
    )
