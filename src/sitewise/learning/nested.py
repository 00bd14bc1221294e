"""Nested learning: maximise θ ↦ evidence(θ, λ*(θ)) by quasi-Newton ascent, inference solved at every θ."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path

from sitewise.arrays.spread import together
from sitewise.data import Data, bucket
from sitewise.kernels.distances import same_rows
from sitewise.learning.checkpoint import Checkpoint
from sitewise.learning.clock import Clock
from sitewise.learning.finish import finish
from sitewise.learning.fit import Fit
from sitewise.learning.problem import NestedSettings, Problem
from sitewise.learning.schedule import expected, schedule_of
from sitewise.learning.search import Callback, Trace
from sitewise.learning.stages import is_apart, run
from sitewise.learning.subset import counted_rows, sampled
from sitewise.model import Model, check
from sitewise.process import memory
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

_SUBSET_SEED = 0  # rows used for learning are always the same ones


@dataclasses.dataclass(frozen=True)
class Nested(NestedSettings):
    """Learn hyperparameters by maximum evidence (type-II maximum likelihood) or MAP, with any inference and evidence.

    Parameters
    ----------
    inference : Inference, default=VI()
        Finds the sites at every θ.
    evidence : Evidence, default=evidence.ep
        Is maximised over θ.
    gradient : str, default="implicit"
        "implicit" (exact), "one_step", "fixed", or "auto": "fixed" for a log-concave likelihood, else "implicit".  For
        (VI, elbo) and (EP, ep) "fixed" is exact, unless a likelihood that is not log-concave has sites held at their
        lower limit.  `learning.objective` describes them.
    fixed : tuple of str, default=()
        Names or patterns of parameters to hold fixed.
    train : tuple of str, default=()
        Names or patterns of parameters to train although they are held fixed by default.
    bounds : dict, default={}
        Name or pattern → (low, high); positive parameters default to (1e-5, 1e6).
    priors : dict, default={}
        Name or pattern → hyperprior: MAP instead of maximum evidence.  As in `bounds`, an exact name wins.
    restarts : int, default=0
        Further starts, drawn log-uniformly around the first; the best evidence wins.
    max_rounds : int, default=200
        The largest number of rounds of a search.
    tol : float, default=1e-06
        Stop when no component of the gradient, per row, exceeds this.
    least_gain : float, default=0.0
        Nats per trained number: on a CPU the search stops when no more than this is left to gain, or 0.001 if there is
        no coarse stage. Typical hyperparameters, under their posterior, lie half a nat per number below the optimum.
    name : str, default="nested"
        The name in reports.
    final : Inference, default=None
        Inference of the sites that are returned, at the learned hyperparameters; None for `inference`.
    variants : dict, default={}
        Structure of a prior ("sparse", "classes") → the pair of inference and evidence that takes precedence there.
    tied : sequence, default=()
        Groups of parameters that share one value, each a list of names or patterns, or one pattern.
    jacobian : bool, default=False
        With priors: the mode of the density of log θ (of the unconstrained vector) and not of θ.  It lies in the middle
        of the mass that `integrate` needs.
    learning_rows : int, default=None
        With inducing inputs: learn the hyperparameters from at most this many rows, and infer the sites of all rows
        once.
    move_inputs : bool, default=False
        With inducing inputs: train the inducing inputs as well, for at most 100 rounds.

    Examples
    --------
    >>> from sitewise import EP, Data, Model, Nested, evidence, kernels, likelihoods
    >>> model = Model.full(kernels.RBF(), likelihoods.Poisson())
    >>> data = Data.of([[0.0], [1.0], [2.0], [3.0]], [4, 9, 3, 0])
    >>> Nested(EP(), evidence.ep).fit(model, data).converged
    True
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
    ) -> Fit:
        """Train, from `sites` if given, by the stages of `learning.schedule`; `seed` draws rows and random starts.

        The callback is described by `Learner`.

        `checkpoint` is a file for all evaluations so far: if the process ends, for whatever reason, the same call goes
        on from there, to the same result.  The file is removed when learning ends.  For rows that are spread over
        several processes (`Data.shard`) it must be in a place that all of them share.
        """
        check(model, data, sites)
        if model.prior.dense:
            classes = not model.likelihood.functions
            memory.require_full(bucket(data.rows), model.likelihood.latents, classes=classes)
        with contextlib.ExitStack() as scope:
            scope.enter_context(working_precision())
            scope.enter_context(together())
            problem = Problem.of(self, model, self.rows_for_learning(model, data), sites)
            staged = sites is None and bool(problem.trainable.names) and (problem.on_host or is_apart(problem))
            schedule = schedule_of(problem, counted_rows(data), staged=staged)
            scope.enter_context(same_rows(problem.data.X))
            trace = Trace(callback, clock=Clock(expected(schedule, problem, data.rows)))
            if checkpoint is not None:
                trace.checkpoint = Checkpoint(Path(checkpoint), (repr(self), model, sites, seed), problem.data)
            fit = finish(*run(schedule, problem, seed, trace), data, schedule, trace)
            if trace.checkpoint is not None:
                trace.checkpoint.done()
            return fit

    def rows_for_learning(self, model: Model, data: Data) -> Data:
        """Return the rows that hyperparameters are learned from."""
        limit = self.learning_rows
        if limit is None or model.prior.exact or model.likelihood.latents > 1 or counted_rows(data) <= limit:
            return data
        return sampled(data, limit, _SUBSET_SEED)
