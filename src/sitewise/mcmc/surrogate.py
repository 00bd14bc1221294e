"""Surrogate-data slice sampling of hyperparameters and latent values (Murray & Adams 2010).

θ and f are strongly dependent: with f held, θ can hardly move.  Every row therefore gets a noisy copy of f_i (the
surrogate datum), with the precision π_i that the likelihood itself has there, and θ moves while the copies and the
*whitened deviation* of f from its mean given the copies are held.  In the notation of this library the copies are
Gaussian sites with

    nat1_i = π_i f_i + √π_i ξ_i,  ξ ~ N(0, 1),    prec_i = π_i

so with g = f − μ = A z, K = A Aᵀ and M = I + AᵀΠA = L Lᵀ (`whitened_sites.whitened_sites`), η = Lᵀ(z − z_mean) is
held, and θ is slice-sampled from

    log p(y | f(θ)) + log ∫ N(f; μ, K) Π t_i df + log p(θ),     f(θ) = μ + A(z_mean + L⁻ᵀη).

π is a setting: any fixed values leave the posterior invariant, and good ones make the chains mix.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.data import Data
from sitewise.hyperpriors import HyperPrior
from sitewise.mcmc import elliptical, rowwise
from sitewise.mcmc.reference import Target, prior_root, reference
from sitewise.model import Model
from sitewise.numerics import triangular, whitened_sites
from sitewise.parameters import Trainable
from sitewise.sites import Sites

_MAX_SHRINKS = 60


class State(NamedTuple):
    """Hyperparameters as an unconstrained vector, and the whitened latent values: f = μ + A z."""

    vector: jax.Array
    z: jax.Array


class Info(NamedTuple):
    """Evaluations of the slice, and moves that were given up, over the directions of one sweep."""

    evaluations: jax.Array
    stuck: jax.Array


class Posterior(NamedTuple):
    """The target p(θ, f | y): what stays the same along a chain."""

    trainable: Trainable
    priors: tuple[tuple[str, HyperPrior], ...]
    model: Model
    data: Data
    sites: Sites
    bounds: jax.Array

    def at(self, vector: jax.Array) -> Model:
        return self.trainable.from_vector(self.model, vector)

    def log_prior(self, vector: jax.Array) -> jax.Array:
        """The log density of the vector (`Trainable.log_prior`); −∞ outside the bounds."""
        total = self.trainable.log_prior(vector, self.priors)
        inside = jnp.all((vector >= self.bounds[:, 0]) & (vector <= self.bounds[:, 1]))
        return jnp.where(inside, total, -jnp.inf)

    def log_likelihood(self, model: Model, f: jax.Array) -> jax.Array:
        rows = model.likelihood.log_prob(self.data.y, f)
        return jnp.sum(jnp.where(self.data.mask, self.data.weight * rows, 0.0))


def latent(target: Posterior, state: State) -> jax.Array:
    """f at the training rows."""
    mu, A, _ = prior_root(target.at(state.vector), target.data)
    return mu + A @ state.z


def start(key: jax.Array, target: Posterior, vector: jax.Array) -> State:
    """θ = vector with f drawn from prior × sites: near the posterior as long as the sites suit θ.

    Where they do not suit it, and the likelihood of the draw is zero, f starts near the prior mean.
    """
    model = target.at(vector)
    mu, A, _ = prior_root(model, target.data)
    copies = target.sites.scaled(target.data.weight)
    white = whitened_sites.whitened_sites(A, copies.nat1 - copies.prec * mu, copies.prec)
    noise = jax.random.normal(key, mu.shape, mu.dtype)
    z = white.z_mean + triangular.lower_transposed_solve(white.L, noise)
    return State(vector, jnp.where(jnp.isfinite(target.log_likelihood(model, mu + A @ z)), z, 0.1 * noise))


def _slice(key: jax.Array, target: Posterior, state: State, direction: jax.Array, copies: bool) -> tuple[State, Info]:
    """Move θ along `direction`, whose length is the width of the first bracket; without copies z itself is held."""
    data = target.data
    key_copy, key_height, key_place, key_shrink = jax.random.split(key, 4)
    mu, A, _ = prior_root(target.at(state.vector), data)
    f = mu + A @ state.z
    if copies:
        prec = data.weight * jnp.maximum(target.sites.prec, 0.0)
        nat1 = prec * f + jnp.sqrt(prec) * jax.random.normal(key_copy, f.shape, f.dtype)

        def whitened(mu: jax.Array, A: jax.Array) -> tuple[whitened_sites.Whitened, jax.Array]:
            white = whitened_sites.whitened_sites(A, nat1 - prec * mu, prec)
            return white, white.log_z + jnp.sum(mu * (nat1 - 0.5 * prec * mu))

        white, log_z = whitened(mu, A)
        held = white.L.T @ (state.z - white.z_mean)
    else:
        log_z = jnp.zeros((), f.dtype)

    def height(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        model = target.at(vector)
        mu, A, _ = prior_root(model, data)
        z, log_z = state.z, jnp.zeros((), f.dtype)
        if copies:
            white, log_z = whitened(mu, A)
            z = white.z_mean + triangular.lower_transposed_solve(white.L, held)
        value = target.log_likelihood(model, mu + A @ z) + log_z + target.log_prior(vector)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf), z

    here = target.log_likelihood(target.at(state.vector), f) + log_z + target.log_prior(state.vector)
    floor = here + jnp.log(jax.random.uniform(key_height, (), f.dtype, minval=1e-300))
    low = -jax.random.uniform(key_place, (), f.dtype)

    class Loop(NamedTuple):
        low: jax.Array
        high: jax.Array
        state: State
        moving: jax.Array
        turn: jax.Array

    def body(s: Loop) -> Loop:
        at = s.low + (s.high - s.low) * jax.random.uniform(jax.random.fold_in(key_shrink, s.turn), (), f.dtype)
        vector = state.vector + at * direction
        value, z = height(vector)
        accept = value > floor
        return Loop(
            jnp.where(at < 0, at, s.low),
            jnp.where(at < 0, s.high, at),
            jax.tree.map(lambda new, old: jnp.where(accept, new, old), State(vector, z), s.state),
            ~accept,
            s.turn + 1,
        )

    end = lax.while_loop(
        lambda s: s.moving & (s.turn < _MAX_SHRINKS),
        body,
        Loop(low, low + 1, state, jnp.array(True), jnp.zeros((), jnp.int32)),
    )
    return end.state, Info(end.turn, end.moving.astype(jnp.int32))


def sweep(key: jax.Array, target: Posterior, state: State, directions: jax.Array, moves: int) -> tuple[State, Info]:
    """Move θ along every row of `directions` twice, then f `moves` times at the new θ.

    Once with the copies, which suits rows that the data determine well, and once without: f then scales with K, which
    suits rows whose likelihood is flat, at large magnitudes.
    """
    keys = jax.random.split(key, 2 * directions.shape[0] + 1)
    halves = jnp.split(keys[:-1], 2)
    spent = []
    for copies, half in zip((True, False), halves, strict=True):

        def along(carry: State, arguments: tuple[jax.Array, jax.Array], copies: bool = copies) -> tuple[State, Info]:
            key, direction = arguments
            return _slice(key, target, carry, direction, copies)

        state, info = lax.scan(along, state, (half, directions))
        spent.append(info)
    info = jax.tree.map(lambda a, b: jnp.sum(a) + jnp.sum(b), *spent)
    # The chain of f moves on the ellipses of prior × sites, which is near the posterior as long as the sites suit θ.
    model = target.at(state.vector)
    ref = reference(model, target.data, target.sites)
    fixed = Target(ref, model.likelihood, target.data)
    chain = elliptical.init((ref.prior_mean + ref.prior_root @ state.z)[:, None], fixed.residual)

    def move(i: jax.Array, chain: elliptical.State) -> elliptical.State:
        key_ellipse, key_rows = jax.random.split(jax.random.fold_in(keys[-1], i))
        chain, _ = elliptical.step(key_ellipse, chain, fixed.residual, ref.mean, ref.root)
        return rowwise.step(key_rows, chain, fixed, 1.0)

    chain = lax.fori_loop(0, moves, move, chain)
    z = triangular.lower_solve(ref.prior_root, chain.position[:, 0] - ref.prior_mean)
    return State(state.vector, z), info
