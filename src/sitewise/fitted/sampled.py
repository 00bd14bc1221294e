"""One latent function represented by draws (method="mcmc"): the methods of `Latent`, averaged over the draws."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data, bucket
from sitewise.fitted.mixture import Functions, Mixture, by_block, padded
from sitewise.likelihoods import Likelihood
from sitewise.mcmc import HyperSamples, new_rows
from sitewise.model import Model
from sitewise.process.precision import working_precision


@dataclasses.dataclass(frozen=True)
class Sampled:
    """Draws of the hyperparameters and of the latent function."""

    samples: HyperSamples

    @property
    def model(self) -> Model:
        """The model at the median of every hyperparameter: a summary; predictions average over the draws instead."""
        samples = self.samples
        with working_precision():
            middle = samples.trainable.from_vector(samples.model, np.median(samples.flat, axis=0))
            return jax.tree.map(np.asarray, middle)

    @property
    def data(self) -> Data:
        return self.samples.data

    def rows_uncorrelated(self) -> bool:
        """Not examined; the diagnostics of the chains report problems."""
        return False

    def at(self, X: np.ndarray) -> Mixture:
        """The marginals of f at new rows, with one component for every draw."""
        given = self.samples.given(self.samples.spaced())
        found: list[Likelihood] = []

        def block(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            likelihood, mean, var = new_rows.marginals(*given, X)
            found.append(likelihood)  # the same for every block
            return mean.T, var.T

        with working_precision():
            mean, var = by_block(block, X)
        return Mixture(jax.tree.map(np.asarray, found[0]), mean, var)

    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance matrix of f."""
        rows = len(X)
        with working_precision():
            mean, cov = new_rows.joint(*self.samples.given(self.samples.spaced()), padded(X, bucket(rows)))
        return np.asarray(mean)[:rows], np.asarray(cov)[:rows, :rows]

    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        """Joint draws of f, each with its own hyperparameters, chosen among the draws at random."""
        pick = np.random.default_rng(seed).integers(len(self.samples.flat), size=samples)
        with working_precision():
            key, new = jax.random.key(seed), padded(X, bucket(len(X)))
            likelihood, f = new_rows.functions(*self.samples.given(pick), key, new)
        return Functions(jax.tree.map(np.asarray, likelihood), np.asarray(f)[:, : len(X)])
