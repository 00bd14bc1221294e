"""Metropolis move that accepts or rejects each row independently, a complement of elliptical slice sampling.

Under q, f − m = a + sd∘ε with Gaussian a and independent noise ε (`whitened_sites.independent_part`).  Given a, the
rows are independent: f_i ~ N(m_i + a_i, sd_i²) · exp(τ r_i(f_i)).  The move

    draw a given f,  propose f_i' = m_i + a_i + sd_i ε_i,  accept row i with probability min(1, exp τ[r_i(f') − r_i(f)])

leaves q(f) exp(τ r(f)) invariant.  If the rows are nearly independent (short lengthscales), the move is nearly an
independent draw of all rows, whereas a move on the ellipse is small, because one angle must suit all rows.  If the rows
are strongly correlated, the ellipse is better.  The cost is two O(n²) products per chain, without an inner loop.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sitewise.mcmc.elliptical import State
from sitewise.mcmc.reference import Target


def step(key: jax.Array, state: State, target: Target, tau: float | jax.Array) -> State:
    """Make one transition of every chain."""
    split, centre = target.ref.split, target.ref.mean[:, None]
    n, chains = state.position.shape
    dtype = state.position.dtype
    key_part, key_noise, key_accept = jax.random.split(key, 3)
    part = split.pull @ (state.position - centre)
    part = part + split.root @ jax.random.normal(key_part, (n, chains), dtype)
    proposal = centre + part + split.sd[:, None] * jax.random.normal(key_noise, (n, chains), dtype)
    here, there = target.rows(state.position), target.rows(proposal)
    threshold = jnp.log(jax.random.uniform(key_accept, (n, chains), dtype, minval=1e-300))
    accept = tau * (there - here) > threshold
    return State(jnp.where(accept, proposal, state.position), jnp.sum(jnp.where(accept, there, here), axis=0))
