"""Nested learning: maximise θ ↦ evidence(θ, λ*(θ)) by quasi-Newton ascent, inference solved at every θ."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from pathlib import Path

from sitewise.arrays.spread import together
from sitewise.data import Data, bucket
from sitewise.kernels.distances import same_rows
from sitewise.learning.ascent import CONVERGED, NO_GAIN
from sitewise.learning.base import Callback, SiteFit
from sitewise.learning.checkpoint import Checkpoint, Start
from sitewise.learning.rehearsal import SITES_TOL, end_of, rehearsed, stages_of
from sitewise.learning.search import Best, NestedSettings, Search
from sitewise.model import Model, check
from sitewise.process import memory
from sitewise.process.precision import working_precision
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class Nested(NestedSettings):
    """Pair any inference with any evidence; the gradient is exact with "implicit" (see `objective`).

    gradient       "implicit", "one_step", "fixed", or "auto": "fixed" for a log-concave likelihood, else "implicit".
                   For (VI, elbo) and (EP, ep) "fixed" is exact, unless a likelihood that is not log-concave has sites
                   held at their lower limit
    fixed, train   names or patterns of parameters to hold, or to train although held by default
    bounds         name or pattern → (low, high); positive parameters default to (1e-5, 1e6)
    priors         name or pattern → hyperprior: MAP instead of maximum evidence; as in `bounds`, an exact name wins
    jacobian       with priors: the mode of the density of log θ (of the unconstrained vector) and not of θ; it lies in
                   the middle of the mass that `integration` needs
    tied           groups of parameters that share one value, each a list of names or patterns, or one pattern
    restarts       further starts, drawn log-uniformly around the first; the best evidence wins
    tol            stop when no component of the gradient, per row, exceeds this
    least_gain     nats for each trained number: on a sparse prior, on a processor, the first ascent of `fit` stops when
                   there is no more than this to gain, unless inducing inputs are trained.  Typical hyperparameters,
                   under their posterior, lie half a nat for each of them below the optimum
    final          inference of the sites that are returned, at the learned hyperparameters; None: the same
    variants       structure of a prior ("sparse", "classes") → the pair that takes precedence there
    """

    def fit(
        self,
        model: Model,
        data: Data,
        sites: Sites | None = None,
        *,
        seed: int = 0,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> SiteFit:
        """Train, from `sites` if given.  The callback is that of `Learner`.

        A sparse prior with many rows starts from the optimum for some of them, drawn by `seed` (`rehearsal`).

        `checkpoint` is a file for what has been evaluated so far: if the process ends, for whatever reason, the same
        call goes on from there, to the same result.  The file is removed when learning ends.  For rows that are spread
        over several processes (`Data.shard`) it must be in a place that all of them share.
        """
        check(model, data, sites)
        if model.prior.dense:
            memory.require_full(bucket(data.rows), model.likelihood.latents)
        with contextlib.ExitStack() as scope:
            scope.enter_context(working_precision())
            scope.enter_context(together())
            search = Search(self, model, data, bucket(data.rows), sites, callback)
            scope.enter_context(same_rows(search.data.X))
            starts = search.starts(self.restarts, seed)
            if checkpoint is not None:
                search.checkpoint = Checkpoint(Path(checkpoint), (repr(self), model, sites, seed), search.data)
            best = self._first(search, starts[0], seed) if sites is None else search.drive(starts[0])
            for start in starts[1:]:
                other = search.drive(start)
                # An ascent that did not converge may have ended next to a pole of Laplace's evidence.
                if (other.success, other.value) > (best.success, best.value):
                    best = other
            fit = search.finish(best)
            if search.checkpoint is not None:
                search.checkpoint.done()
            return fit

    def _first(self, search: Search, start: Start, seed: int) -> Best:
        """The first ascent, with the help of a rehearsal where there is one."""
        stages = stages_of(search, seed)
        start = search.kept("start", functools.partial(rehearsed, search, stages, start))
        if search.model.prior.exact or not self.least_gain or not search.on_host:
            return search.drive(start)
        with search.with_loose_sites(SITES_TOL):
            best = end_of(search, start)
        left = self.max_rounds - best.rounds
        if best.reason in (CONVERGED, NO_GAIN) or left <= 0:
            return search.polished(best)
        # Its steps were too small for the accuracy of loose sites.
        end = search.drive(Start(best.vector, best.inverse, best.solution.sites), left)
        return dataclasses.replace(end, rounds=best.rounds + end.rounds)
