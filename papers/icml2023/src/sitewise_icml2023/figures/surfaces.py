"""Evidence and predictive-density surfaces over (log ℓ, log σ), with the MCMC gold standard: Figs. 1, 2 and 6–9.

Isotropic Matérn-5/2, probit; the paper's rows of each set (fold 3 of seed 42, published protocol; sonar and usps have
a split of their own).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise import evidence
from sitewise.data import Data
from sitewise.inference import EP, VI, Inference, Laplace
from sitewise.inference.loop import iterate
from sitewise.inference.start import initial_sites
from sitewise.kernels import Matern52
from sitewise.likelihoods import BernoulliProbit
from sitewise.mcmc.ais import Annealing
from sitewise.mcmc.points import Points, default_batch, sample_points
from sitewise.model import Model
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite
from sitewise.parameters import Trainable
from sitewise.predict import posterior
from sitewise.process.device import on_accelerator
from sitewise.process.precision import working_precision
from sitewise_icml2023 import protocols
from sitewise_icml2023.sources import find
from sitewise_icml2023.suites import FOUR

SETS = ("ionosphere", "parkinsons", "monks-2", "sonar", "usps")
METHODS = FOUR
_PAIRS = ((Laplace(), (evidence.laplace,)), (EP(), (evidence.ep,)), (VI(), (evidence.elbo, evidence.ep)))
_FLOOR = np.log(1e-12)


class Grid(NamedTuple):
    """The axes of a surface."""

    log_lengthscale: np.ndarray
    log_sigma: np.ndarray

    @property
    def vectors(self) -> np.ndarray:
        """Unconstrained hyperparameters of every point: log ℓ, log σ²; σ is the outer axis."""
        log_l, log_s = np.meshgrid(self.log_lengthscale, self.log_sigma)
        return np.stack([log_l.ravel(), 2 * log_s.ravel()], axis=1)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.log_sigma), len(self.log_lengthscale)


def square(points: int = 21) -> Grid:
    """The paper's grid: log ℓ and log σ in [−1, 5]."""
    axis = np.linspace(-1.0, 5.0, points)
    return Grid(axis, axis)


def rows(name: str, directory: Path | None = None) -> protocols.Fold:
    """Training and test rows of the paper's surface for this set."""
    if name in ("sonar", "usps"):
        with np.load(find(name, directory), allow_pickle=False) as saved:
            return protocols.Fold(saved["train_X"], saved["train_Y"].ravel(), saved["test_X"], saved["test_Y"].ravel())
    return protocols.fold(name, "published", 42, 3, directory)


def model(points: int | None = None) -> Model:
    """The model of the surfaces; `points` asks for Gauss–Hermite quadrature of that order, as published."""
    rule = None if points is None else GaussHermite(points)
    return Model.full(Matern52(), BernoulliProbit(quadrature=rule))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _approximate(
    pair: tuple[Inference, tuple[evidence.Evidence, ...]],
    trainable: Trainable,
    batch: int,
    model: Model,
    data: Data,
    X_new: jax.Array,
    y_new: jax.Array,
    vectors: jax.Array,
) -> tuple[list[jax.Array], jax.Array, jax.Array, jax.Array]:
    """Evidences, test log densities, outcome and steps of one inference method at every point."""
    method, reads = pair

    def point(vector: jax.Array) -> tuple[list[jax.Array], jax.Array, jax.Array, jax.Array]:
        here = trainable.from_vector(model, vector)
        start = initial_sites(here.likelihood, data)
        found, solution, *_ = iterate(method, here.likelihood, here.prior.gram(data.X), data, start)
        density = posterior(here, data, solution.sites).log_density(X_new, y_new)
        values = [e.read(here.likelihood, data, found.q, solution.sites) for e in reads]
        return values, density, solution.code, solution.stats.steps

    return lax.map(point, vectors, batch_size=batch)


def approximate(
    fold: protocols.Fold,
    vectors: np.ndarray,
    batch: int | None = None,
    done: Callable[[str], None] | None = None,
    chunk: int = 21,
    start: Model | None = None,
    methods: Sequence[str] = ("laplace", "ep", "vi"),
) -> dict[str, np.ndarray]:
    """Laplace, EP, VI and hybrid (VI's sites, EP's evidence) at every point, from one start each.

    `done` gets a sentence after each piece; on a CPU a piece has `chunk` points, elsewhere all.
    """
    out: dict[str, list[np.ndarray]] = {}
    with working_precision():
        data = Data.of(fold.X, fold.y)
        padded = data.to_bucket()
        start = start or model()
        trainable = Trainable.of(start)
        batch = batch or default_batch(padded.rows, len(vectors))
        step = len(vectors) if on_accelerator() else chunk
        for pair in (pair for pair in _PAIRS if pair[0].name in methods):
            name = pair[0].name
            for at in range(0, len(vectors), step):
                part = np.resize(vectors[at : at + step], (min(step, len(vectors)), 2))  # one shape, one program
                keep = min(step, len(vectors) - at)
                found = _approximate(
                    pair, trainable, min(batch, len(part)), start, padded, jnp.asarray(fold.X_test),
                    jnp.asarray(fold.y_test), jnp.asarray(part),
                )  # fmt: skip
                values, density, code, steps = jax.tree.map(lambda a: np.asarray(a)[:keep], found)  # noqa: B023
                pieces = {f"{name}_evidence": values[0], f"{name}_log_density": density, f"{name}_code": code}
                pieces[f"{name}_steps"] = steps
                if name == "vi":
                    pieces["hybrid_evidence"] = values[1]
                for key, piece in pieces.items():
                    out.setdefault(key, []).append(piece)
                if done is not None:
                    done(f"{name}: {at + keep} of {len(vectors)} points")
    return {key: np.concatenate(pieces) for key, pieces in out.items()}


def gold(
    fold: protocols.Fold,
    vectors: np.ndarray,
    *,
    chains: int = 16,
    steps: int = 256,
    max_steps: int = 4096,
    target_se: float = 0.3,
    draws: int = 32,
    seed: int = 0,
    block: int | None = None,
    batch: int | None = None,
    store: Path | None = None,
    done: Callable[[str], None] | None = None,
) -> Points:
    """log Z with standard errors and test log densities by annealed importance sampling; resumable with `store`."""
    start = model()
    return sample_points(
        start, Data.of(fold.X, fold.y), vectors, (fold.X_test, fold.y_test), trainable=Trainable.of(start),
        annealing=Annealing(chains=chains), steps=steps, max_steps=max_steps, target_se=target_se, draws=draws,
        seed=seed, block=block, batch=batch, store=store, done=done,
    )  # fmt: skip


def mean_density(log_density: np.ndarray) -> np.ndarray:
    """Mean over test rows, no probability below 1e-12."""
    return np.maximum(log_density, _FLOOR).mean(axis=-1)
