"""L2. Inference: find sites that are a fixed point λ = T(λ) of a method's site update.

A method writes `propose`, the elementwise update T as a function of the marginals and the present sites,
and `merit`, a number that must not fall (if the method has one).  The driver in `driver` owns the loop.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import jax

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.priors import Marginals
from sitewise.sites import Sites
from sitewise.types import Outcome

_DAMPED = 0.2


class Stats(NamedTuple):
    """What happened: conditionings of the prior on sites, the last residual, clipped sites, and the jitter (a share of
    the diagonal) that the last factorisation needed: 0 as a rule."""

    steps: jax.Array
    residual: jax.Array
    clipped: jax.Array
    jitter: jax.Array


class Solution(NamedTuple):
    sites: Sites
    code: jax.Array
    stats: Stats

    @property
    def outcome(self) -> Outcome:
        return Outcome(int(self.code))


@dataclasses.dataclass(frozen=True)
class Inference:
    """Settings shared by all methods.

    tol        the iteration has converged when the undamped update moves no site by more than this, in units
               of the marginal: |Δnat1|·√v and |Δprec|·v.  None: 1e-8 in float64, 1e-3 in float32.
    max_steps  at most so many conditionings of the prior.
    min_prec   site precisions are kept at or above this; 0 unless a published procedure asks otherwise.
    damping    1: Newton's steps, judged and shortened one by one.  Less: this share of every plain update, taken
               without asking; slow, and now and then the way out where the judged steps stall.
    """

    tol: float | None = None
    max_steps: int = 200
    min_prec: float = 0.0
    damping: float = dataclasses.field(default=1.0, kw_only=True)

    name: ClassVar[str]
    use_newton: ClassVar[bool] = True
    has_merit: ClassVar[bool] = True
    mean_only: ClassVar[bool] = False  # `propose` and `merit` do not look at the variances
    sees_sites: ClassVar[bool] = False  # `propose` looks at the present sites, besides the marginals

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        """T(λ): the sites this method would set, given the marginals that the present sites produce."""
        raise NotImplementedError

    def merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> jax.Array:
        """What the method maximises over λ; a method that maximises nothing sets has_merit = False."""
        raise NotImplementedError

    def propose_with_merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites):
        """Both, for a method that has a merit; to be overridden where they share work."""
        return self.propose(likelihood, data, q, sites), self.merit(likelihood, data, q, sites)

    def milder(self) -> tuple[Inference, ...]:
        """What to try, one after the other, where this method does not converge."""
        return (dataclasses.replace(self, damping=_DAMPED, max_steps=2 * self.max_steps),)

    def solve(self, model, data: Data, sites: Sites | None = None) -> Solution:
        """Iterate to the fixed point, from `sites` or from the likelihood's own landmarks.

        Where that fails: from the landmarks, then by the `milder` methods, and the outcome says which sites these are.
        (Inside a caller's `jax.jit` there is one attempt.)
        """
        from sitewise.inference.driver import solve

        return solve(self, model, data, sites)
