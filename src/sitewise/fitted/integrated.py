"""A latent function with integrated hyperparameters: one Gaussian approximation per node of the integral."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from scipy import special

from sitewise.data import Data
from sitewise.fitted.function import HyperLaw
from sitewise.fitted.latent import Latent, Pickled, Result, same_form
from sitewise.fitted.mixture import Functions, Mixture
from sitewise.learning.integration import Integrated, Node
from sitewise.parameters import Trainable
from sitewise.predict import Posterior
from sitewise.process import memory

NEGLIGIBLE_WEIGHT = 1e-4  # nodes of smaller weight are left out


@dataclasses.dataclass(frozen=True)
class IntegratedLatent(Latent):
    """Predictions averaged over all parts; sites, evidences and influences belong to the optimum of one kernel.

    parts   one `Latent` per node, or per averaged kernel
    weight  weight per part; the sum is 1
    """

    parts: tuple[Latent, ...]
    weight: np.ndarray

    @staticmethod
    def made(main: Latent, parts: tuple[Latent, ...], weight: np.ndarray) -> IntegratedLatent:
        return IntegratedLatent(main.model, main.data, main.sites, main.posterior, parts, weight)

    @staticmethod
    def at_nodes(main: Latent, data: Data, found: Integrated) -> IntegratedLatent:
        """Return the mixture over the nodes of an integral."""
        return IntegratedLatent.of_parts(main, IntegratedLatent.nodes(data, found))

    @staticmethod
    def nodes(data: Data, found: Integrated) -> list[tuple[float, Latent]]:
        """Return the latent functions of the nodes with their weights; nodes of negligible weight are left out."""
        return [(node.weight, _part(data, node)) for node in found.nodes if node.weight > NEGLIGIBLE_WEIGHT]

    @staticmethod
    def of_parts(main: Latent, parts: Sequence[tuple[float, Latent]]) -> IntegratedLatent:
        """Return the mixture of latent functions with these weights."""
        kept = [(w, latent) for w, latent in parts if w > NEGLIGIBLE_WEIGHT]
        if main.model.prior.dense:  # every part keeps its own matrix for predictions
            memory.require_full(main.data.rows, main.model.likelihood.latents, len(kept))
        weight = np.array([w for w, _ in kept])
        return IntegratedLatent.made(main, tuple(latent for _, latent in kept), weight / np.sum(weight))

    def stored(self) -> dict[str, Any]:
        models = [part.model for part in self.parts]
        return super().stored() | {
            "priors": [m.prior for m in models], "likelihoods": [m.likelihood for m in models],
            "sites": [tuple(map(np.asarray, part.sites)) for part in self.parts], "weight": self.weight,
        }  # fmt: skip

    def posteriors(self) -> tuple[list[Posterior], np.ndarray]:
        """Return one posterior per node."""
        return [part.posterior for part in self.parts], self.weight

    def hyper_law(self, trainable: Callable[[], Trainable]) -> HyperLaw:
        """Return a normal distribution with the moments of the nodes that have the kernel of `model`."""
        learned = trainable()
        vector = np.asarray(learned.to_vector(self.model))
        alike = [same_form(part.model, self.model) for part in self.parts]
        nodes = np.array([learned.to_vector(part.model) for part in itertools.compress(self.parts, alike)])
        weight = self.weight[alike] / np.sum(self.weight[alike])

        def interval(factors: np.ndarray, level: float) -> tuple[float, float, float]:
            reach = float(special.ndtri(0.5 + level / 2))
            moved = (nodes - vector) @ factors
            centre = float(weight @ moved)
            error = float(np.sqrt(weight @ (moved - centre) ** 2))
            return error, centre - reach * error, centre + reach * error

        return HyperLaw(learned, vector, interval)

    def changed(self, change: Callable[[Latent], tuple[Latent, Result]]) -> tuple[Latent, list[Result]]:
        main, result = change(Latent(self.model, self.data, self.sites, self.posterior))
        parts, results = zip(*map(change, self.parts), strict=True)
        return IntegratedLatent.made(main, parts, self.weight), [result, *results]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.to_pickle(), self.parts, self.weight)

    def at(self, X: np.ndarray) -> Mixture:
        """Return the marginals of f at new rows, with one component per node."""
        return Mixture.combined([part.at(X) for part in self.parts], self.weight)

    def by_kernel(self) -> list[tuple[float, Latent]]:
        """Return one function with its weight per part if kernels are averaged, else the function at the optimum."""
        if all(same_form(part.model, self.model) for part in self.parts):
            return super().by_kernel()
        return list(zip(self.weight.tolist(), self.parts, strict=True))

    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, covs = (np.stack(a) for a in zip(*(part.joint(X) for part in self.parts), strict=True))
        mean = np.einsum("k,k...->...", self.weight, means)
        gap = means - mean
        return mean, np.einsum("k,k...->...", self.weight, covs + gap[..., :, None] * gap[..., None, :])

    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        """Draw f jointly; each draw belongs to a node chosen by its weight."""
        counts = np.random.default_rng(seed).multinomial(samples, self.weight)
        each = [part.draw(seed + k, X, int(n)) for k, (part, n) in enumerate(zip(self.parts, counts, strict=True)) if n]
        return Functions(_stacked([one.likelihood for one in each]), np.concatenate([one.f for one in each]))


def _part(data: Data, node: Node) -> Latent:
    """Return the latent function of a node, from the factor of its inference if there is one."""
    if node.posterior is None:
        return Latent.of(node.model, data, node.sites)
    posterior = Posterior(node.posterior, node.model.likelihood, node.model.prior.mean)
    return Latent(node.model, data, node.sites, posterior)


def _stacked(likelihoods: list[Any]) -> Any:
    """Concatenate likelihoods along the leading axis of their parameters."""
    return jax.tree.map(lambda *a: np.concatenate(a), *likelihoods)


def _unpickled(own: Pickled, parts: tuple[Latent, ...], weight: np.ndarray) -> IntegratedLatent:
    return IntegratedLatent.unpickled(own, parts=parts, weight=weight)
