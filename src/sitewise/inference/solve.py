"""Solve for the sites: the loop, other ways where it fails, and the derivative of the solution.

The solution λ*(θ) = T(λ*, θ) is differentiable in reverse mode in the model and in the data.  For a cotangent λ̄,

    θ̄ = (∂T/∂θ)ᵀ (I − Jᵀ)⁻¹ λ̄,    J = ∂T/∂λ                 (implicit function theorem)

so that nothing of the iteration is stored or differentiated.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs
from sitewise.arrays.engine import Array, is_host, on_host, stop_gradient, to_host
from sitewise.arrays.spread import is_spread
from sitewise.data import Data
from sitewise.inference.linearise import adjoint, slopes
from sitewise.inference.loop import iterate
from sitewise.inference.start import start_of
from sitewise.inference.update import Point, SiteUpdate, Solution
from sitewise.model import Model
from sitewise.priors import Gram, LatentPosterior, Marginals
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import Outcome

_ADJOINT_TOL = 1e-10
_Kept = tuple[Model, Data, Sites]


def solve(method: SiteUpdate, model: Model, data: Data, sites: Sites | None = None) -> Solution:
    """Solve from `sites`, from the likelihood's own start, or by fallbacks; return the first that converges."""
    if model.prior.host and on_host(model, data, sites):
        with working_precision():
            return _solve_in_turn(method, *to_host((model, data, sites)))
    if is_spread(data):
        with working_precision():
            return _solve_in_turn(method, model, data, sites)
    return _solve_in_turn(method, model, jax.tree.map(jnp.asarray, data), sites)


class Solved(NamedTuple):
    """A solution with q at the training rows and the posterior process, from the factor of its last step.

    `q` is None where the host engine did not compute, or inference did not settle at once; `posterior` also where the
    structure of the prior cannot make one from a factor.
    """

    solution: Solution
    q: Marginals | None = None
    posterior: LatentPosterior | None = None


def solve_with_posterior(method: SiteUpdate, model: Model, data: Data, sites: Sites) -> Solved:
    """As `solve` from given sites, with the marginals and the posterior: nothing has to be factorised again."""
    if model.prior.host and on_host(model, data, sites):
        with working_precision():
            model, data, sites = to_host((model, data, sites))
            gram = model.prior.gram(data.X)
            end = iterate(method, model.likelihood, gram, data, sites)
            if end.solution.outcome.settled:
                weighted = end.solution.sites.scaled(data.weight)
                posterior = model.prior.posterior_from(gram, end.factor, data.X, weighted)
                return Solved(end.solution, end.point.q, posterior)
    return Solved(solve(method, model, data, sites))


def _solve_in_turn(method: SiteUpdate, model: Model, data: Data, sites: Sites | None) -> Solution:
    solution = _solve(method, model, data, start_of(method, model, data) if sites is None else sites)
    if isinstance(solution.code, jax.core.Tracer) or solution.outcome.settled:
        return solution
    if sites is not None:
        # The given sites may be a bad start; the likelihood's own start is never far from the solution.
        again = _solve(method, model, data, start_of(method, model, data))
        if again.outcome.settled:
            return again
    return solve_by_fallbacks(method, model, data, solution)


def solve_by_fallbacks(method: SiteUpdate, model: Model, data: Data, failed: Solution) -> Solution:
    """The solution of the first fallback that converges, or `failed`; the outcome says whose sites they are."""
    first = start_of(method, model, data)
    for other in method.fallbacks():
        found = _solve(other, model, data, first)
        if found.outcome.settled:
            if other == dataclasses.replace(method, damping=other.damping, max_steps=other.max_steps):
                return found  # damped steps to the same fixed point
            again = _solve(method, model, data, found.sites)
            return again if again.outcome.settled else found._replace(code=np.asarray(Outcome.FRACTIONAL))
    return failed


def _solve(method: SiteUpdate, model: Model, data: Data, sites: Sites) -> Solution:
    if is_host(*jax.tree.leaves((model, data, sites))):
        return iterate(method, model.likelihood, model.prior.gram(data.X), data, sites, True).solution
    try:
        return _traced_solve(method, model, data, stop_gradient(sites))
    except TypeError as error:
        if "forward-mode" not in str(error):
            raise
        raise TypeError(
            "solve has no forward-mode derivative (jax.jvp, jax.jacfwd, jax.hessian); use jax.grad, jax.jacrev or "
            "jax.vjp, and differences of value_and_grad for second derivatives."
        ) from None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _fixed_point(method: SiteUpdate, model: Model, data: Data, sites: Sites) -> Solution:
    return iterate(method, model.likelihood, model.prior.gram(data.X), data, sites, True).solution


def _forward(method: SiteUpdate, model: Model, data: Data, sites: Sites) -> tuple[Solution, _Kept]:
    solution = _fixed_point(method, model, data, sites)
    return solution, (model, data, solution.sites)


def _backward(method: SiteUpdate, kept: _Kept, bar: Solution) -> tuple[Model, Data, Sites]:
    model, data, sites = kept
    weighted = sites.scaled(data.weight)
    gram = _gram(method, model, data)
    q, factor = gram.condition_with_factor(weighted, data.mask)
    by = slopes(method, model.likelihood, data, q, sites)
    point = Point(sites, q, sites, jnp.zeros(()), jnp.zeros(()))
    weights = adjoint(method, data, point, gram.covariance(weighted, factor), by, bar.sites, _ADJOINT_TOL)

    def update(model: Model, data: Data) -> tuple[Array, ...]:
        q = _gram(method, model, data).condition(sites.scaled(data.weight))
        return tuple(method.propose(model.likelihood, data, q, sites).masked(data.mask))

    by_model, by_data = jax.vjp(update, model, data)[1](tuple(weights))
    return by_model, by_data, jax.tree.map(jnp.zeros_like, sites)


def _gram(method: SiteUpdate, model: Model, data: Data) -> Gram:
    gram = model.prior.gram(data.X)
    return gram if method.stepping(model.likelihood) is method else gram.signed()


_fixed_point.defvjp(_forward, _backward)
_traced_solve = functools.partial(programs.jit, static_argnums=0)(_fixed_point)
