"""Importance sampling from q = prior × sites, on NumPy arrays without a compiled program for every number of rows.

With f = μ + A z and draws z ~ q (`numerics.dense.whitened_sites`), the weights w_j = exp r(f_j) of `reference` have the
mean E w = p(y) / Z_q.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.mcmc.reference import prior_root, terms, usable, whitened
from sitewise.model import Model
from sitewise.numerics.dense.triangular import lower_transposed_solve
from sitewise.rows import of_each_row
from sitewise.sites import Sites


class Weighted(NamedTuple):
    """log Z_q, the log weights of the draws, and the whitened draws, one per row."""

    log_z: float
    log_w: np.ndarray
    z: np.ndarray


def draw(rng: np.random.Generator, model: Model, data: Data, sites: Sites, draws: int) -> Weighted:
    """Return weighted draws from q; all arguments hold NumPy arrays."""
    sites = usable(data, sites)
    mu, A, _ = prior_root(model, data)
    white, log_z = whitened(data, sites, mu, A)
    z = white.z_mean[:, None] + lower_transposed_solve(white.L, rng.standard_normal((data.rows, draws)))
    f = mu[:, None] + A @ z
    rows = terms(_log_prob(model.likelihood, data.y, f), data.weight, sites, f)
    return Weighted(float(log_z), np.sum(rows, axis=0), z.T)


def _log_prob(likelihood: Likelihood, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return log p(y | f) per row and column, without a compiled program if the likelihood has one for NumPy arrays."""
    if type(likelihood).log_prob_slopes is not Likelihood.log_prob_slopes:
        found = likelihood.log_prob_slopes(y[:, None], f)
        if found is not None:
            return np.asarray(found[0])
    return of_each_row(_compiled_log_prob, None, likelihood, y, f)[0]


def _compiled_log_prob(_: None, likelihood: Likelihood, y: Any, f: Any) -> tuple[Any]:
    return (likelihood.log_prob(y[:, None], f),)
