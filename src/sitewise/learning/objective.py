"""The profile objective θ ↦ evidence(θ, λ*(θ)) and its gradient.

λ*(θ) = T(λ*, θ) is the fixed point of the inference method.  With a = ∂evidence/∂λ at λ*,

    d/dθ = ∂evidence/∂θ |_λ + āᵀ ∂T/∂θ |_λ,     ā = 0              "fixed"     (the paper's M-step)
                                                ā = a              "one_step"  (one more update)
                                                ā = (I − Jᵀ)⁻¹ a   "implicit"  (exact; J = ∂T/∂λ)

"fixed" is exact where a = 0: (VI, elbo) and (EP, ep).  "one_step" is exact there too, and for
(Laplace, laplace) in the parameters of the prior.  All three are one reverse pass over
evidence(θ, λ*) + āᵀ T(λ*, θ) with λ* and ā held: first to (likelihood, q), elementwise, then from q to the gram with
the factors that q was computed from, and on to θ.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.data import Data
from sitewise.evidence import Evidence
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import Inference, Solution
from sitewise.inference.linearise import adjoint
from sitewise.inference.loop import iterate
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.priors import Gram, Marginals
from sitewise.runtime.device import on_accelerator
from sitewise.sites import Sites

GRADIENTS = ("fixed", "one_step", "implicit")
_ADJOINT_TOL = 1e-8


class Evaluation(NamedTuple):
    """The objective and its gradient at one θ, and the sites there."""

    value: jax.Array
    gradient: jax.Array
    solution: Solution


@dataclasses.dataclass(frozen=True)
class Objective:
    """What is maximised, and over which parameters.  Hashable: a compilation key.

    gradient  "fixed", "one_step" or "implicit"; see the head of this file
    priors    pairs of a parameter's name and its hyperprior
    """

    inference: Inference
    evidence: Evidence
    gradient: str
    trainable: Trainable
    priors: tuple[tuple[str, HyperPrior], ...] = ()

    def log_prior(self, vector: jax.Array) -> jax.Array:
        """Σ log p(θ) over the parameters that have a prior."""
        named = self.trainable.constrained(vector)
        return sum((jnp.sum(prior.log_prob(named[name])) for name, prior in self.priors), jnp.zeros(()))


@functools.partial(jax.jit, static_argnums=0)
def profile(objective: Objective, model: Model, data: Data, vector: jax.Array, sites: Sites) -> Evaluation:
    """Solve for the sites at θ = vector, starting from `sites`; value and gradient there."""
    method, evidence, gradient = objective.inference, objective.evidence, objective.gradient
    trainable = objective.trainable
    likelihood = trainable.from_vector(model, vector).likelihood

    def gram_at(vector: jax.Array) -> Gram:
        return trainable.from_vector(model, vector).prior.gram(data.X)

    def pull_gram(bar: Gram) -> jax.Array:
        # The kernel's derivative needs several n×n matrices.  This dependence on `bar` makes XLA compute them again
        # here and not keep them from the start.  (XLA for CPUs drops its barriers too early.)
        first = jax.tree.leaves(bar)[0].ravel()[0]
        later = jnp.where(jnp.isnan(first), jnp.nan, vector)
        return jax.vjp(gram_at, later)[1](bar)[0]

    gram = gram_at(vector)
    point, solution, factor = iterate(method, likelihood, gram, data, sites)
    found, q = solution.sites, point.q
    weighted = found.scaled(data.weight)

    # θ enters the evidence through the likelihood and q; these are the derivatives in those two.
    value, (by_likelihood, by_q, by_sites) = jax.value_and_grad(
        lambda likelihood, q, s: evidence.read(likelihood, data, q, s), argnums=(0, 1, 2)
    )(likelihood, q, found)
    if gradient != "fixed":
        cov = gram.covariance(weighted, factor)
        through_q = cov.pull_to_sites(q, by_q).scaled(data.weight)
        weights = Sites(by_sites.nat1 + through_q.nat1, by_sites.prec + through_q.prec)
        if gradient == "implicit":
            weights = adjoint(method, likelihood, data, point, cov, weights, _ADJOINT_TOL)

        def moved(likelihood: Likelihood, q: Marginals) -> jax.Array:
            target = method.propose(likelihood, data, q, found)
            return jnp.sum(jnp.where(data.mask, weights.nat1 * target.nat1 + weights.prec * target.prec, 0.0))

        by_likelihood, by_q = jax.tree.map(
            jnp.add, (by_likelihood, by_q), jax.grad(moved, argnums=(0, 1))(likelihood, q)
        )

    def rest(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        prior = objective.log_prior(vector)
        return prior + _inner(by_likelihood, trainable.from_vector(model, vector).likelihood), prior

    slope, prior = jax.grad(rest, has_aux=True)(vector)
    slope = slope + pull_gram(gram.pull(weighted, factor, q, by_q))
    return Evaluation(value + prior, slope, solution)


@functools.partial(jax.jit, static_argnums=0)
def profiles(objective: Objective, models: Model, data: Data, vectors: jax.Array, sites: Sites) -> Evaluation:
    """`profile` of many models and data sets of one shape, each at its own θ, from its own sites.

    They run in one batch on an accelerator, and one after the other on a CPU: a batch gains nothing there, and
    factorisations in a batch can wait for each other in XLA's threads for ever (jaxlib 0.10.2).
    """
    one = functools.partial(profile, objective)
    if on_accelerator():
        return jax.vmap(one)(models, data, vectors, sites)
    return lax.map(lambda each: one(*each), (models, data, vectors, sites))


def _inner(a: Any, b: Any) -> jax.Array:
    """Σ a·b over the leaves of two trees of the same shape."""
    return sum((jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)), jnp.zeros(()))
