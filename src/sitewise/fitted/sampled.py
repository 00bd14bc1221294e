"""A latent function represented by MCMC draws (method="mcmc"); predictions average over the draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from sitewise.arrays import programs
from sitewise.arrays.engine import to_host
from sitewise.data import Data, bucket
from sitewise.fitted.function import FittedFunction, HyperLaw
from sitewise.fitted.mixture import Functions, Mixture, by_block, padded
from sitewise.likelihoods import Likelihood
from sitewise.mcmc import HyperSamples, new_rows
from sitewise.mcmc.reference import prior_root
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.predict import Posterior
from sitewise.process.precision import working_precision

DRAWS = 50  # draws in `posteriors`: each has its own kernel matrices
_root = programs.jit(lambda model, data: prior_root(model, data)[1])


@dataclasses.dataclass(frozen=True)
class Sampled(FittedFunction):
    """Draws of the hyperparameters and of the latent function."""

    has_sites: ClassVar[bool] = False

    samples: HyperSamples

    @property
    def model(self) -> Model:
        """Return the model at the median of every hyperparameter: a summary, not used for predictions."""
        samples = self.samples
        with working_precision():
            middle = samples.trainable.from_vector(samples.model, np.median(samples.flat, axis=0))
            return jax.tree.map(np.asarray, middle)

    @property
    def data(self) -> Data:
        return self.samples.data

    def stored(self) -> dict[str, Any]:
        """Return the stored values; `sampled` names the sampled hyperparameters."""
        samples = self.samples
        return {
            "prior": samples.model.prior, "likelihood": samples.model.likelihood, "vectors": samples.vectors,
            "z": samples.z, "limits": samples.limits, "accepted": samples.accepted,
            "sampled": [p.name for p in samples.trainable.parameters], "tied": samples.trainable.tied,
        }  # fmt: skip

    def posteriors(self) -> tuple[list[Posterior], np.ndarray]:
        """Return one posterior per draw, for `DRAWS` draws: given hyperparameters and latent values, f is Gaussian."""
        trainable, model, data, vectors, z = self.samples.given(self.samples.spaced(DRAWS))
        X, counted = np.asarray(data.X), np.asarray(data.mask, float)
        found = []
        for vector, white in zip(vectors, z, strict=True):
            here = to_host(trainable.from_vector(model, vector))
            latent = here.prior.given_values(X, np.asarray(_root(here, data)), np.asarray(white), counted)
            found.append(Posterior(latent, here.likelihood, here.prior.mean))
        return found, np.full(len(found), 1 / len(found))

    def hyper_law(self, trainable: Callable[[], Trainable]) -> HyperLaw:
        """Return the distribution given by the draws."""
        draws, vector = self.samples.flat, np.asarray(self.samples.trainable.to_vector(self.model))

        def interval(factors: np.ndarray, level: float) -> tuple[float, float, float]:
            moved = (draws - vector) @ factors
            low, high = np.quantile(moved, [0.5 - level / 2, 0.5 + level / 2])
            return float(np.std(moved)), float(low), float(high)

        return HyperLaw(self.samples.trainable, vector, interval)

    def at(self, X: np.ndarray) -> Mixture:
        """Return the marginals of f at new rows, with one component per draw."""
        given = self.samples.given(self.samples.spaced())
        found: list[Likelihood] = []

        def block(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            likelihood, mean, var = new_rows.marginals(*given, X)
            found.append(likelihood)  # equal for all blocks
            return mean.T, var.T

        with working_precision():
            mean, var = by_block(block, X)
        return Mixture(jax.tree.map(np.asarray, found[0]), mean, var)

    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = len(X)
        with working_precision():
            mean, cov = new_rows.joint(*self.samples.given(self.samples.spaced()), padded(X, bucket(rows)))
        return np.asarray(mean)[:rows], np.asarray(cov)[:rows, :rows]

    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        """Draw f jointly, with the hyperparameters of randomly chosen draws."""
        pick = np.random.default_rng(seed).integers(len(self.samples.flat), size=samples)
        with working_precision():
            key, new = jax.random.key(seed), padded(X, bucket(len(X)))
            likelihood, f = new_rows.functions(*self.samples.given(pick), key, new)
        return Functions(jax.tree.map(np.asarray, likelihood), np.asarray(f)[:, : len(X)])
