"""Inference: find sites that are a fixed point λ = T(λ) of a method's site update."""

from __future__ import annotations

import dataclasses

from sitewise.data import Data
from sitewise.inference.solve import solve
from sitewise.inference.update import SiteUpdate, Solution
from sitewise.model import Model, check
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class Inference(SiteUpdate):
    """Base class of inference methods: a site update that can be solved.

    A new method is a subclass that defines `propose`, and `merit` if it has one.  `testing.check_inference` checks it.
    """

    def solve(self, model: Model, data: Data, sites: Sites | None = None) -> Solution:
        """Iterate to the fixed point, from `sites` or from the likelihood's own start.

        If that does not converge, it starts again from the likelihood's start and then tries the `fallbacks`; the
        outcome says whose sites were found.  (Inside a caller's `jax.jit` there is one attempt.)
        """
        check(model, data, sites)
        return solve(self, model, data, sites)
