"""Posterior of hyperparameters and latent values, and predictions averaged over it.

    samples = sample(model, data, priors={"kernel.lengthscale": LogNormal(0, 1)})
    print(samples.summary());  samples.log_density(X_new, y_new)

Chains run by surrogate-data slice sampling (see `surrogate`).  Positive parameters without a prior are log-uniform
within their bounds, as in the paper.  Warm-up learns the directions and widths of the slices from the spread of the
chains; then they are held, and every draw counts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.data import Data
from sitewise.inference import EP
from sitewise.inference.loop import solve
from sitewise.mcmc import diagnostics, new_rows, surrogate
from sitewise.model import Model
from sitewise.numerics.small_matrices import principal_axes
from sitewise.parameters import Trainable
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites

_CHUNK = 25  # sweeps a compiled call; the same program serves warm-up and sampling of any length
_FIRST_WIDTH = 2.0
PREDICT_FROM = 1000  # draws; neighbours in a chain are alike, and each costs a Cholesky factorisation


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _chunk(trainable: Trainable, priors: tuple, moves: int, batch: int, model, data, sites, bounds, states, runs):
    """`_CHUNK` sweeps of every chain; `runs` = (keys, directions, thin)."""
    keys, directions, thin = runs
    target = surrogate.Posterior(trainable, priors, model, data, sites, bounds)

    def chain(arguments):
        state, key = arguments

        def draw(state, t):
            def one(i, carry):
                state, spent = carry
                key_sweep = jax.random.fold_in(jax.random.fold_in(key, t), i)
                state, info = surrogate.sweep(key_sweep, target, state, directions, moves)
                return state, jax.tree.map(jnp.add, spent, info)

            none = surrogate.Info(jnp.zeros((), jnp.int64), jnp.zeros((), jnp.int64))
            state, info = lax.fori_loop(0, thin, one, (state, none))
            return state, (state, info)

        return lax.scan(draw, state, jnp.arange(_CHUNK))

    # Without parameters there is an empty array among the states, which `lax.map` cannot cut into batches.
    return lax.map(chain, (states, keys), batch_size=batch if trainable.size else None)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _starts(trainable: Trainable, priors: tuple, model, data, sites, bounds, keys, vectors) -> surrogate.State:
    target = surrogate.Posterior(trainable, priors, model, data, sites, bounds)
    return lax.map(lambda each: surrogate.start(each[0], target, each[1]), (keys, vectors))


@jax.jit
def _log_density(likelihood, mean, var, y):
    """log p(y) averaged over the components, as log-mean-exp."""

    def component(total, part):
        likelihood, mean, var = part
        return jnp.logaddexp(total, likelihood.log_expected_prob(y, mean, var)), None

    total, _ = lax.scan(component, jnp.full(y.shape, -jnp.inf), (likelihood, mean, var))
    return total - jnp.log(mean.shape[0])


@dataclasses.dataclass(frozen=True)
class HyperSamples:
    """Draws of the hyperparameters, `vectors` (chains, draws, parameters), and of the whitened latent values `z`.

    `limits` are the bounds of the vector, `evaluations` the mean number of evaluations of a slice, `stuck` the share of
    moves that each chain gave up.
    """

    model: Model
    data: Data
    trainable: Trainable
    vectors: np.ndarray
    z: np.ndarray
    limits: np.ndarray
    evaluations: float
    stuck: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        """`vectors` of all chains in a row."""
        chains, draws, size = self.vectors.shape
        return self.vectors.reshape(chains * draws, size)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Constrained values by name, each (chains, draws, ...)."""
        with working_precision():
            named = jax.vmap(self.trainable.constrained)(jnp.asarray(self.flat))
        return {k: np.asarray(v).reshape(*self.vectors.shape[:2], *v.shape[1:]) for k, v in named.items()}

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """Mean and standard deviation (of the unconstrained value), R-hat, bulk and tail ESS of every parameter."""
        out = {}
        for label, x in zip(self.trainable.labels, np.moveaxis(self.vectors, -1, 0), strict=True):
            out[label] = {
                "mean": float(x.mean()), "sd": float(x.std()), "rhat": diagnostics.rhat(x),
                "bulk_ess": diagnostics.bulk_ess(x), "tail_ess": diagnostics.tail_ess(x),
            }  # fmt: skip
        return out

    @property
    def at_bound(self) -> tuple[str, ...]:
        """Parameters with more than a hundredth of the draws in the outermost hundredths between their bounds."""
        flat = self.flat
        low, high = self.limits.T
        share = np.mean(np.minimum(flat - low, high - flat) < 0.01 * (high - low), axis=0)
        return tuple(label for label, s in zip(self.trainable.labels, share, strict=True) if s > 0.01)

    def problems(self, rhat: float = 1.01, ess: float = 100) -> list[str]:
        """What speaks against these chains, in plain words; empty if nothing does.

        The limits of R-hat and of the effective draws a chain are those of Vehtari et al. (2021).
        """
        found = []
        for label, d in self.diagnostics().items():
            least = min(d["bulk_ess"], d["tail_ess"])
            if not d["rhat"] <= rhat:
                found.append(
                    f"{label}: the chains disagree, R-hat {d['rhat']:.3f} is above {rhat}. Draw longer chains."
                )
            if least < ess * self.vectors.shape[0]:
                found.append(f"{label}: {least:.0f} effective draws are below {ess} a chain. Draw longer chains.")
        for label in self.at_bound:
            found.append(f"{label}: draws pile up at a bound, so that the bound decides. Give it a prior.")
        for chain in np.flatnonzero(self.stuck > 0.01):
            found.append(f"Chain {chain} gave up {self.stuck[chain]:.1%} of its moves: the posterior may be singular.")
        return found

    def summary(self) -> str:
        lines = [f"{'':28s} {'mean':>9s} {'sd':>8s} {'R-hat':>7s} {'bulk':>7s} {'tail':>7s}   (log scale if positive)"]
        for label, d in self.diagnostics().items():
            moments = f"{d['mean']:9.3f} {d['sd']:8.3f} {d['rhat']:7.3f}"
            lines.append(f"{label:28s} {moments} {d['bulk_ess']:7.0f} {d['tail_ess']:7.0f}")
        return "\n".join(lines + (self.problems() or ["No problems found."]))

    def given(self, pick: np.ndarray) -> tuple:
        """Arguments of the functions in `prediction`, for the draws numbered `pick` of all chains in a row."""
        z = self.z.reshape(len(self.flat), -1)
        return self.trainable, self.model, self.data, self.flat[pick], z[pick]

    def spaced(self, draws: int = PREDICT_FROM) -> np.ndarray:
        """Numbers of at most `draws` draws, evenly spaced over all chains."""
        total = len(self.flat)
        return np.unique(np.linspace(0, total - 1, min(draws, total)).astype(int))

    def log_density(self, X, y, draws: int = PREDICT_FROM) -> np.ndarray:
        """log p(y|X) of each row, averaged over (at most `draws`) draws of hyperparameters and latent values."""
        with working_precision():
            X, y = jnp.asarray(X, jnp.float64), jnp.asarray(y, jnp.float64)
            return np.asarray(_log_density(*new_rows.marginals(*self.given(self.spaced(draws)), X), y))

    def probability(self, X, draws: int = PREDICT_FROM) -> np.ndarray:
        """P(y = 1 | X) for a two-class likelihood."""
        return np.exp(self.log_density(X, np.ones(len(X)), draws))

    def to_arviz(self) -> Any:
        """The draws as ArviZ InferenceData (needs arviz)."""
        try:
            import arviz
        except ImportError as problem:
            raise ImportError("to_arviz needs the package arviz; install it with pip install arviz.") from problem
        if int(arviz.__version__.split(".")[0]) >= 1:  # groups became one dictionary in ArviZ 1.0
            return arviz.from_dict({"posterior": self.parameters})
        return arviz.from_dict(posterior=self.parameters)


def sample(
    model: Model,
    data: Data,
    *,
    priors: Mapping[str, Any] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: tuple[str, ...] = (),
    train: tuple[str, ...] = (),
    sites: Sites | None = None,
    chains: int = 4,
    warmup: int = 200,
    draws: int = 1000,
    thin: int = 1,
    moves: int = 3,
    spread: float = 0.5,
    seed: int = 0,
    batch: int = 1,
    callback: Callable[[int, int], None] | None = None,
) -> HyperSamples:
    """Draw from p(θ, f | y).  Start from a fitted model if you can; chains start within `spread` of it (log scale).

    `sites` decide where f starts, and set the surrogate data's noise and the ellipses of f; by default they are EP's,
    solved again at the middle of the chains after every chunk of the warm-up.  `moves` of f follow every sweep over θ;
    `batch` chains run side by side (on a GPU: all).  `warmup` and `draws` are rounded up to
    whole chunks of 25 sweeps.
    """
    model.likelihood.check(data.y)
    with working_precision():
        padded = data.to_bucket()
        trainable = Trainable.of(model, fixed, train)
        trainable.check_priors(priors or {})
        adapt = sites is None
        limits = jnp.asarray(trainable.limits(bounds or {}))
        if sites is None:
            found = solve(EP(), model, padded)
            # Sites that have not settled may lie anywhere; without any, chains start from the prior.
            sites = found.sites if found.outcome.settled else jax.tree.map(jnp.zeros_like, found.sites)
        pad = padded.rows - sites.nat1.shape[0]
        sites = Sites(*(jnp.nan_to_num(jnp.pad(jnp.asarray(a), (0, pad))) for a in sites))
        key_start, key_z, key_run = jax.random.split(jax.random.key(seed), 3)
        start = jnp.clip(trainable.to_vector(model), limits[:, 0], limits[:, 1])
        moved = start + spread * jax.random.normal(key_start, (chains, trainable.size))
        priors_key = tuple(sorted((priors or {}).items()))
        states = _starts(
            trainable, priors_key, model, padded, sites, limits,
            jax.random.split(key_z, chains), jnp.clip(moved, limits[:, 0], limits[:, 1]),
        )  # fmt: skip
        chunks = -(-warmup // _CHUNK), -(-draws // _CHUNK)
        directions = _FIRST_WIDTH * jnp.eye(trainable.size)
        history: list[np.ndarray] = []
        kept: list[tuple] = []
        for i in range(sum(chunks)):
            keys = jax.random.split(jax.random.fold_in(key_run, i), chains)
            warm = i < chunks[0]
            states, (path, info) = _chunk(
                trainable, priors_key, moves, min(batch, chains), model, padded, sites, limits, states,
                (keys, directions, 1 if warm else thin),
            )  # fmt: skip
            if warm:
                history.append(np.asarray(path.vector))
                directions = _directions(np.concatenate(history[len(history) // 2 :], axis=1))
                if adapt:
                    middle = jnp.asarray(np.median(np.concatenate(history[-1]), axis=0))
                    sites = solve(EP(), trainable.from_vector(model, middle), padded, sites).sites
            else:
                kept.append(jax.tree.map(np.asarray, (path.vector, path.z, info)))
            if callback is not None:
                callback(i + 1, sum(chunks))
        vectors, z = (np.concatenate([k[j] for k in kept], axis=1) for j in range(2))
        evaluations = np.concatenate([k[2].evaluations for k in kept], axis=1)
        stuck = np.concatenate([k[2].stuck for k in kept], axis=1)
        sweeps = 2 * thin * vectors.shape[1] * max(trainable.size, 1)
        return HyperSamples(
            model=model,
            data=jax.tree.map(np.asarray, padded),
            trainable=trainable,
            vectors=vectors,
            z=z,
            limits=np.asarray(limits),
            evaluations=float(evaluations.sum() / sweeps / chains),
            stuck=stuck.sum(axis=1) / sweeps,
        )


def _directions(vectors: np.ndarray) -> jax.Array:
    """Principal axes of the draws so far, four standard deviations long."""
    if vectors.shape[-1] == 0:
        return jnp.zeros((0, 0))
    flat = vectors.reshape(-1, vectors.shape[-1])
    spreads, axes = principal_axes(np.atleast_2d(np.cov(flat.T)) + 1e-6 * np.eye(flat.shape[1]))
    return jnp.asarray((axes * np.clip(4 * spreads, 0.1, 10.0)).T)
