"""Algorithm 1 on m inducing inputs as made for the printed Table 3: one dense site for all of them.

    q(u) ∝ N(u; 0, K_uu) exp(λ₁ᵀu − ½ uᵀΛu),    A = K_uu⁻¹ K_uf,    λ_i(θ) = site of row i at q's marginals under θ
    E    20 natural-gradient steps of (λ₁, Λ) at rate 0.1
    M    20 Adam steps of ℓ and σ² on the ELBO (`dense-elbo`) or EP's evidence (`dense-ep`) at fixed (λ₁, Λ)
    end  all variables settled, 1 000 rounds, or (`dense-ep`) the evidence fell; then the previous round is kept

`dense-ep` removes λ_i(θ) from q in every cavity although q contains the sites of the E-step.  The M-step moves these
λ_i with θ, so that its objective is the evidence only at the θ of the E-step.  The text describes sites held fixed.

The inducing inputs are centres of k-means from a permutation with seed 42.  Folds are trained together.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.cluster.vq import kmeans2
from scipy.special import log_ndtr

from sitewise import kernels
from sitewise.learning.vem import Adam
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf
from sitewise.process.precision import working_precision
from sitewise_icml2023.batch_algebra import inverse_factor, unit_distances
from sitewise_icml2023.many_fits import stack
from sitewise_icml2023.protocols import Fold
from sitewise_icml2023.sampled import FLOOR

STEPS, RATE, LEARNING_RATE, ROUNDS = 20, 0.1, 0.01, 1000
JITTER, SMALL_JITTER = 1e-6, 1e-9
SEED = 42
LEAST_SLOPE = 1e-8  # E[∂² log p]/2 is kept below −LEAST_SLOPE
LEAST_CAVITY = 1e-5
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Rows(NamedTuple):
    """Training rows of a fold; `weight` is 0 for padded rows.  `Z` are the inducing inputs."""

    X: Any
    y: Any
    weight: Any
    Z: Any


class State(NamedTuple):
    """λ₁, Λ, the softplus inverse of (ℓ, σ²), and Adam's moments."""

    nat1: Any
    prec: Any
    vector: Any
    adam: Adam


class Prior(NamedTuple):
    """K_uu with jitter, the inverse of its factor C, C, Σ log C_ii, A = K_uu⁻¹ K_uf, the diagonal of K_fu A, and σ²."""

    K: jax.Array
    inverse: jax.Array
    C: jax.Array
    log_C: jax.Array
    A: jax.Array
    explained: jax.Array
    variance: jax.Array


class Posterior(NamedTuple):
    """The mean of q(u), ½ log|S| and tr(K⁻¹S) of its covariance S, and per row aᵀ mean and aᵀ S a."""

    mean: jax.Array
    half_log_det: jax.Array
    trace: jax.Array
    row_mean: jax.Array
    row_var: jax.Array


def inducing_inputs(X: np.ndarray, number: int) -> np.ndarray:
    """Return the centres of k-means."""
    if len(X) <= number:
        return X
    random = np.random.RandomState(SEED)
    return kmeans2(X[random.permutation(len(X))], number, minit="points", seed=random)[0]


def _distances(X: jax.Array, Z: jax.Array) -> jax.Array:
    return unit_distances(jnp.concatenate([Z, X]))[: len(Z)]


def _prior(vector: jax.Array, d2: jax.Array, jitter: float = JITTER) -> Prior:
    lengthscale, variance = jax.nn.softplus(vector)
    K = variance * kernels.Matern52().shape(d2 / lengthscale**2)
    m = len(K)
    Kuu, Kuf = K[:, :m] + jitter * jnp.eye(m), K[:, m:]
    inverse, log_C = inverse_factor(Kuu)
    half = inverse @ Kuf
    return Prior(Kuu, inverse, Kuu @ inverse.T, log_C, inverse.T @ half, jnp.sum(half**2, axis=0), variance)


def _posterior(prior: Prior, nat1: jax.Array, prec: jax.Array) -> Posterior:
    """S = (K⁻¹ + Λ)⁻¹ = C (I + CᵀΛC)⁻¹ Cᵀ."""
    inverse, log_B = inverse_factor(jnp.eye(len(nat1)) + prior.C.T @ prec @ prior.C)
    root = inverse @ prior.C.T
    half = root @ prior.A
    mean = root.T @ (root @ nat1)
    trace = jnp.sum(inverse**2)
    return Posterior(mean, prior.log_C - log_B, trace, prior.A.T @ mean, jnp.sum(half**2, axis=0))


def _slopes(mean: jax.Array, var: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The derivatives of E[log p] by mean and variance, the latter below −LEAST_SLOPE."""
    by_mean, by_var = jax.grad(lambda m, v: jnp.sum(_expected(m, v, y)), argnums=(0, 1))(mean, var)
    return by_mean, jnp.minimum(by_var, -LEAST_SLOPE)


def _at_points(mean: jax.Array, var: jax.Array, y: jax.Array) -> jax.Array:
    return log_cdf(y * (mean + jnp.sqrt(var) * POINTS[:, None]))


def _expected(mean: jax.Array, var: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.asarray(WEIGHTS) @ _at_points(mean, var, y)


def evidence(which: str, vector: jax.Array, d2: jax.Array, rows: Rows, nat1: jax.Array, prec: jax.Array) -> jax.Array:
    """The objective of the M-step, as computed for the printed table."""
    prior = _prior(vector, d2)
    q = _posterior(prior, nat1, prec)
    var = prior.variance - prior.explained + q.row_var
    if which == "dense-elbo":
        kl = 0.5 * (q.trace + jnp.sum((prior.inverse @ q.mean) ** 2) - len(nat1)) + prior.log_C - q.half_log_det
        return jnp.sum(rows.weight * _expected(q.row_mean, var, rows.y)) - kl
    by_mean, by_var = _slopes(q.row_mean, var, rows.y)
    site_nat1, site_prec = by_mean - 2 * q.row_mean * by_var, -2 * by_var
    left = jnp.maximum(1 - site_prec * q.row_var, LEAST_CAVITY)
    cavity_var = q.row_var + site_prec * q.row_var**2 / left
    cavity_mean = q.row_mean + q.row_var * (q.row_mean * site_prec - site_nat1) / left
    sites = (
        -0.5 * jnp.log(left) + 0.5 * site_prec * q.row_mean**2 / left + 0.5 * site_nat1**2 * cavity_var
        - site_nat1 * q.row_mean * (1 + q.row_var * site_prec / left)
    )  # fmt: skip
    values = _at_points(cavity_mean, prior.variance - prior.explained + cavity_var, rows.y)
    tilted = jax.scipy.special.logsumexp(values, axis=0, b=WEIGHTS[:, None])
    return q.half_log_det + 0.5 * q.mean @ nat1 - prior.log_C + jnp.sum(rows.weight * (tilted + sites))


def _round(which: str, rows: Rows, state: State) -> tuple[State, jax.Array]:
    d2 = _distances(rows.X, rows.Z)
    prior = _prior(state.vector, d2)
    A = _prior(state.vector, d2, SMALL_JITTER).A
    at_Z = prior.K - JITTER * jnp.eye(len(prior.K))

    def natural(now: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], None]:
        nat1, prec = now
        q = _posterior(prior, nat1, prec)
        by_mean, by_var = _slopes(q.row_mean, prior.variance - prior.explained + q.row_var, rows.y)
        site = -2 * (A * (rows.weight * by_var)) @ A.T
        # The mean at the inducing inputs is predicted as at any other input, without jitter.
        mean_at_Z = at_Z @ (prior.inverse.T @ (prior.inverse @ q.mean))
        slope = A @ (rows.weight * by_mean) + site @ mean_at_Z
        prec = (1 - RATE) * prec + RATE * site + SMALL_JITTER * jnp.eye(len(nat1))
        return ((1 - RATE) * nat1 + RATE * slope, prec), None

    (nat1, prec), _ = lax.scan(natural, (state.nat1, state.prec), None, length=STEPS)
    slope = jax.grad(lambda vector: evidence(which, vector, d2, rows, nat1, prec))

    def adam_step(now: tuple[jax.Array, Adam], _: None) -> tuple[tuple[jax.Array, Adam], None]:
        vector, adam = now
        adam = adam.after(slope(vector))
        return (vector + LEARNING_RATE * adam.direction(), adam), None

    (vector, adam), _ = lax.scan(adam_step, (state.vector, state.adam), None, length=STEPS)
    return State(nat1, prec, vector, adam), evidence(which, vector, d2, rows, nat1, prec)


@functools.partial(jax.jit, static_argnums=0)
def _rounds(which: str, rows: Rows, states: State) -> tuple[State, jax.Array, jax.Array]:
    """A round of all folds, its evidence, and whether nothing moved."""
    new, value = jax.vmap(functools.partial(_round, which))(rows, states)
    pairs = list(zip(new[:3], states[:3], strict=True))
    return new, value, jax.vmap(lambda pairs: jnp.all(jnp.stack([jnp.allclose(a, b) for a, b in pairs])))(pairs)


@functools.partial(jax.jit, static_argnums=0)
def _start_value(which: str, rows: Rows, state: State) -> jax.Array:
    return evidence(which, state.vector, _distances(rows.X, rows.Z), rows, state.nat1, state.prec)


@jax.jit
def _predict(rows: Rows, state: State, X: jax.Array) -> tuple[jax.Array, jax.Array]:
    prior = _prior(state.vector, _distances(X, rows.Z))
    q = _posterior(prior, state.nat1, state.prec)
    return q.row_mean, prior.variance - prior.explained + q.row_var


def rows_of(which: str, number: int, folds: Sequence[Fold], max_rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Return the results of the fits of folds, trained in one program."""
    size = max(len(fold.y) for fold in folds)
    first = float(np.log(np.expm1(1.0)))
    with working_precision():
        each, states = [], []
        for fold in folds:
            wide = (0, size - len(fold.y))
            each.append(Rows(
                np.pad(fold.X, (wide, (0, 0))), np.pad(fold.y, wide, constant_values=1.0),
                np.pad(np.ones(len(fold.y)), wide), inducing_inputs(fold.X, number),
            ))  # fmt: skip
            m = len(each[-1].Z)
            vector = np.full(2, first)
            states.append(State(np.zeros(m), 1e-20 * np.eye(m), vector, Adam.start(vector)))
        stacked, state = stack(each), stack(states)
        values = [[float(_start_value(which, rows, one))] for rows, one in zip(each, states, strict=True)]
        running, reasons, kept = dict.fromkeys(range(len(folds))), [""] * len(folds), list(states)
        for _ in range(max_rounds):
            new, value, settled = _rounds(which, stacked, state)
            moved = jax.tree.map(np.asarray, new)
            for i in list(running):
                values[i].append(float(value[i]))
                fell = which == "dense-ep" and not values[i][-1] >= values[i][-2]
                if not (fell or (settled[i] and which == "dense-ep")):
                    kept[i] = jax.tree.map(lambda a: a[i], moved)  # noqa: B023
                if fell or settled[i]:
                    reasons[i] = "the evidence fell" if fell else "converged"
                    del running[i]
            state = new
            if not running:
                break
        return [
            _row(fold, rows, one, trace, why)
            for fold, rows, one, trace, why in zip(folds, each, kept, values, reasons, strict=True)
        ]


def _row(fold: Fold, rows: Rows, state: State, values: list[float], reason: str) -> dict[str, Any]:
    mean, var = map(np.asarray, _predict(rows, state, fold.X_test))
    z = mean / np.sqrt(1 + var)
    lengthscale, variance = np.log1p(np.exp(np.asarray(state.vector))).tolist()
    density = np.clip(log_ndtr(fold.y_test * z), np.log(FLOOR), np.log1p(-FLOOR))
    return {
        "test_loglik": float(density.mean()),
        "test_acc": float(np.mean((z > 0) == (fold.y_test > 0))),
        "objective": max(values) if reason == "the evidence fell" else values[-1],
        "theta": {"kernel.lengthscale": lengthscale, "kernel.variance": variance},
        "converged": bool(reason) and bool(np.all(np.isfinite(density))),
        "reason": reason or "stopped early: the cap on rounds was reached",
        "rounds": len(values) - 1,
    }
