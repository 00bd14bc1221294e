"""The search of the printed tables for Laplace and EP: L-BFGS on the softplus scale, of at most 1000 calls."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from scipy.optimize import OptimizeResult, minimize

from sitewise import Model
from sitewise.parameters import Trainable

LOWEST = -36.0  # on the softplus scale, where positive numbers end in double precision
CALLS = 1000


def search(
    model: Model, trainable: Trainable, loss: Callable[[np.ndarray], tuple[float, np.ndarray]]
) -> tuple[Model, OptimizeResult]:
    """The model where the loss, given with its slope, is least, and how the search ended."""
    first = np.asarray(trainable.to_vector(model))
    limits = [(LOWEST, None)] * len(first)
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=limits, options={"maxfun": CALLS})
    return jax.tree.map(np.asarray, trainable.from_vector(model, found.x)), found
