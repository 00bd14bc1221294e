"""L4. Evidence and predictive-density surfaces over (log ℓ, log σ), with the MCMC gold standard: Figs. 1, 2 and 6–9.

Isotropic Matérn-5/2, probit; the paper's rows of each set (fold 3 of seed 42, published protocol; sonar and usps have
a split of their own).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise import evidence
from sitewise.bench import protocols
from sitewise.bench.sources import find
from sitewise.data import Data, bucket
from sitewise.inference import EP, VI, Laplace
from sitewise.inference.driver import initial_sites, iterate
from sitewise.kernels import Matern52
from sitewise.likelihoods import BernoulliProbit
from sitewise.mcmc.ais import Annealing
from sitewise.mcmc.surface import Points, default_batch, sample_points
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.precision import working_precision
from sitewise.predict import posterior

SETS = ("ionosphere", "parkinsons", "monks-2", "sonar", "usps")
METHODS = ("laplace", "ep", "vi", "hybrid")
_PAIRS = ((Laplace(), (evidence.laplace,)), (EP(), (evidence.ep,)), (VI(), (evidence.elbo, evidence.ep)))
_FLOOR = np.log(1e-12)
# The paper's colour scale for each set, (low, high) of evidence per row and test log density.
SCALES = {"sonar": (-1.0, -0.2), "usps": (-1.0, 0.0), "monks-2": (-0.9, -0.3)}
_SCALE = (-0.8, 0.0)


class Grid(NamedTuple):
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


def model() -> Model:
    return Model.full(Matern52(), BernoulliProbit())


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _approximate(pair, trainable, batch, model, data, X_new, y_new, vectors):
    """Evidences, test log densities, outcome and steps of one inference method at every point."""
    method, reads = pair

    def point(vector):
        here = trainable.from_vector(model, vector)
        start = initial_sites(here.likelihood, data)
        found, solution, _ = iterate(method, here.likelihood, here.prior.gram(data.X), data, start)
        density = posterior(here, data, solution.sites).log_density(X_new, y_new)
        values = [e.read(here.likelihood, data, found.q, solution.sites) for e in reads]
        return values, density, solution.code, solution.stats.steps

    return lax.map(point, vectors, batch_size=batch)


def approximate(
    fold: protocols.Fold,
    vectors: np.ndarray,
    batch: int | None = None,
    done: Callable[[int], None] | None = None,
    chunk: int = 21,
) -> dict[str, np.ndarray]:
    """Laplace, EP, VI and hybrid (VI's sites, EP's evidence) at every point, from one start each.

    `done` is called with the number of points done; on a CPU they are taken `chunk` at a time, elsewhere at once.
    """
    out: dict[str, list[np.ndarray]] = {}
    with working_precision():
        data = Data.of(fold.X, fold.y)
        padded = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data.pad(bucket(data.rows)))
        start = model()
        trainable = Trainable.of(start)
        batch = batch or default_batch(padded.rows, len(vectors))
        step = chunk if jax.default_backend() == "cpu" else len(vectors)
        for pair in _PAIRS:
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
                    done(keep)
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


def panels(out: dict[str, np.ndarray], grid: Grid, n: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Tables (log σ × log ℓ) of evidences per row and of mean test log densities; with MCMC where `out` has it."""
    evidences = {m: out[f"{m}_evidence"] / n for m in METHODS}
    if "mcmc_log_z" in out:
        evidences = {"mcmc": out["mcmc_log_z"] / n, **evidences}
    densities = {m: mean_density(out[f"{m}_log_density"]) for m in evidences if m != "hybrid"}
    shaped = ({m: values.reshape(grid.shape) for m, values in part.items()} for part in (evidences, densities))
    return next(shaped), next(shaped)


def as_csv(out: dict[str, np.ndarray], grid: Grid) -> str:
    """One line a grid point: log Z with its errors, evidences in nats, mean test log densities."""
    log_l, log_s = np.meshgrid(*grid)
    columns = {"log_lengthscale": log_l.ravel(), "log_sigma": log_s.ravel()}
    columns |= {f"{m}_evidence": out[f"{m}_evidence"] for m in METHODS}
    measured = [m for m in ("mcmc", *METHODS) if f"{m}_log_density" in out]
    columns |= {f"{m}_test_log_density": mean_density(out[f"{m}_log_density"]) for m in measured}
    if "mcmc_log_z" in out:
        told = ("log_z", "se", "lower", "lower_se", "upper", "upper_se", "ess", "steps", "tight")
        columns |= {f"mcmc_{k}": out[f"mcmc_{k}"] for k in told}
    lines = [",".join(columns)]
    lines += [",".join(f"{float(x):.6g}" for x in line) for line in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def draw(name: str, out: dict[str, np.ndarray], grid: Grid, n: int):
    """Evidences above, predictive densities below, on the paper's colour scale; dots are the maxima of the evidences,
    and in VI's density the cross is the hybrid's, which predicts with the same posterior."""
    from matplotlib.figure import Figure

    evidences, densities = panels(out, grid, n)
    best = {m: np.unravel_index(np.nanargmax(table), table.shape) for m, table in evidences.items()}
    gold_standard = "mcmc" in evidences
    wide = len(evidences) + gold_standard
    figure = Figure(figsize=(3.2 * wide, 6.4), layout="constrained")
    axes = figure.subplots(2, wide, sharex=True, sharey=True)
    low, high = SCALES.get(name, _SCALE)
    levels = np.linspace(low, high, 33)
    for line, tables, title in ((axes[0], evidences, "evidence / n"), (axes[1], densities, "test log density")):
        for axis, (method, table) in zip(line, tables.items(), strict=False):
            image = axis.contourf(*grid, np.clip(table, low, high), levels, cmap="Blues_r")
            marks = [(method, "k.")] + ([("hybrid", "kx")] if tables is densities and method == "vi" else [])
            for which, style in marks:
                row, column = best[which]
                axis.plot(grid.log_lengthscale[column], grid.log_sigma[row], style, markersize=9)
            axis.set_title(f"{method}: {title}", fontsize=10)
    if gold_standard:
        extra = (
            (axes[0, -1], out["mcmc_se"], "MCMC standard error (nats)"),
            (axes[1, -2], out["ep_evidence"] - out["mcmc_log_z"], "EP − MCMC (nats)"),
            (axes[1, -1], out["hybrid_evidence"] - out["mcmc_log_z"], "hybrid − MCMC (nats)"),
        )
        for axis, numbers, caption in extra:
            figure.colorbar(axis.pcolormesh(*grid, numbers.reshape(grid.shape)), ax=axis)
            axis.set_title(caption, fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.6, label="evidence per row, test log density")
    for axis in axes.ravel():
        if not axis.has_data():
            axis.set_axis_off()
    for axis in axes[1]:
        axis.set_xlabel("log ℓ")
    for axis in axes[:, 0]:
        axis.set_ylabel("log σ")
    figure.suptitle(f"{name}, n = {n}")
    return figure
