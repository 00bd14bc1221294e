"""One fitted latent function: prior × sites at the training rows.

`Latent` here and `Sampled` in sampled.py have the same methods: at(X), joint(X), draw(seed, X, samples).  Both have
`model` for the hyperparameters and `data` for the rows; predictions need nothing else.  Training rows are padded to a
`bucket`, so that folds share compiled programs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.data import Data, bucket
from sitewise.estimators.mixture import Functions, Mixture, by_block, padded, repeated
from sitewise.inference import Inference, Solution
from sitewise.inference.loop import solve
from sitewise.inference.start import first_sites, pad_rows
from sitewise.learning.base import all_evidences
from sitewise.model import Model
from sitewise.predict import Posterior, posterior
from sitewise.priors.classes import ClassPosterior
from sitewise.priors.full import FullPosterior
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites


class Left(NamedTuple):
    """Each row left out: mean and (co)variance of f there without it, and the influence of the row on the posterior."""

    mean: np.ndarray
    var: np.ndarray
    influence: np.ndarray


_posterior = jax.jit(posterior)
_marginals = jax.jit(lambda q, X: q.f(X))
_joint = jax.jit(lambda q, X: q.f_joint(X))
_draw = jax.jit(lambda q, key, X, samples: q.f_samples(key, X, samples), static_argnums=3)


@jax.jit
def _leave_out(model: Model, data: Data, sites: Sites) -> tuple[jax.Array, jax.Array, jax.Array]:
    q = model.prior.gram(data.X).condition(sites.scaled(data.weight))
    share = jnp.minimum(data.weight, 1.0)
    left = q.cavity(sites, share)
    return left.mean, left.f_var, q.influence(sites, share)


@dataclasses.dataclass(frozen=True)
class Latent:
    """`data` and `sites` are padded; the posterior is derived from them, and derived again after unpickling."""

    model: Model
    data: Data
    sites: Sites
    posterior: Posterior

    @staticmethod
    def of(model: Model, data: Data, sites: Sites) -> Latent:
        rows = bucket(data.rows)
        data = data.pad(rows)
        with working_precision():
            sites = Sites(*(np.asarray(pad_rows(a, rows)) for a in sites))
            q = jax.tree.map(np.asarray, _posterior(model, data, sites))
        return Latent(model, data, sites, q)

    def __reduce__(self) -> tuple[Any, ...]:
        return Latent.of, (self.model, self.data, self.sites)

    def rows_uncorrelated(self) -> bool:
        """Whether no row is correlated with another: B = I + W½KW½ is diagonal up to rounding."""
        q = self.posterior.latent
        if np.sum(self.data.weight > 0) <= 1:
            return False
        if isinstance(q, ClassPosterior):
            H = np.abs(np.asarray(q.H))  # L⁻¹W½, diagonal where L is
            return bool(np.max(np.tril(H, -1)) < 1e-6 * np.max(H))
        if isinstance(q, FullPosterior):
            L = np.asarray(q.L)
            return bool(np.max(np.abs(np.tril(L, -1))) < 1e-6 * np.max(np.diag(L) ** 2 - 1))
        return False

    def evidences(self) -> dict[str, float]:
        with working_precision():
            return all_evidences(self.model, self.data, self.sites)

    def at(self, X: np.ndarray) -> Mixture:
        """The marginals of f at new rows."""
        with working_precision():
            return Mixture.gaussian(self.model.likelihood, *by_block(lambda X: _marginals(self.posterior, X), X))

    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance matrix of f; for several latent functions, those of each, on a leading axis."""
        rows, latents = len(X), self.model.likelihood.latents
        with working_precision():
            mean, cov = (np.asarray(a) for a in _joint(self.posterior, padded(X, bucket(rows))))
        if latents > 1:
            every = np.arange(latents)
            mean, cov = (
                mean.reshape(latents, -1),
                cov.reshape(latents, -1, latents, len(mean) // latents)[every, :, every],
            )
        return mean[..., :rows], cov[..., :rows, :rows]

    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        """Joint draws of f; several latent functions are on the second axis."""
        with working_precision():
            f = np.asarray(_draw(self.posterior, jax.random.key(seed), padded(X, bucket(len(X))), samples))
        if self.model.likelihood.latents > 1:
            f = np.moveaxis(f, 0, 1)
        return Functions(repeated(self.model.likelihood, samples), f[..., : len(X)])

    def leave_out(self) -> Left:
        """The distinct training rows, and padding, each left out."""
        with working_precision():
            return Left(*(np.asarray(a) for a in _leave_out(self.model, self.data, self.sites)))


def infer(method: Inference, model: Model, data: Data, known: Sites, at: np.ndarray) -> tuple[Latent, Solution]:
    """Sites of `data` at the hyperparameters of `model`; rows `at` start from the sites `known`."""
    filled = data.pad(bucket(data.rows))
    with working_precision():
        start = Sites(*(np.array(a) for a in first_sites(model.likelihood, filled)))
        start.nat1[..., at], start.prec[..., at] = known
        solution = solve(method, model, filled, start)
    return Latent.of(model, data, Sites(*(np.asarray(a)[..., : data.rows] for a in solution.sites))), solution
