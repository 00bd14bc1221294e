"""Learning of a latent function: `Approximate` by Gaussian sites, `Sampling` by MCMC, and warnings about the fit.

`Approximate` can also infer again with other rows.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sitewise.data import Data
from sitewise.estimators.starting_lengthscale import starting_lengthscale
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent, infer
from sitewise.fitted.sampled import Sampled
from sitewise.hyperpriors import HyperPrior, LogNormal
from sitewise.inference import Solution
from sitewise.kernels import Additive, Kernel
from sitewise.kernels.base import inner
from sitewise.learning.fit import Fit
from sitewise.learning.integration import Integrated, integrate
from sitewise.learning.learner import Learner
from sitewise.learning.nested import Nested
from sitewise.learning.running import Running
from sitewise.mcmc import sample
from sitewise.model import Model
from sitewise.parameters import Groups, Trainable, values
from sitewise.process.progress import Report
from sitewise.sites import Sites
from sitewise.supports import Positive
from sitewise.types import Outcome

WEAK_PRIOR_SD = 2.0  # of log θ
NEGLIGIBLE_MASS = 0.01  # of a lattice that is not evaluated in predictions
# A lattice that nobody asked for has about 8, 25 and 90 points for one to three hyperparameters; more take longer than
# the fit.
MAX_AUTOMATIC_PARAMETERS, MAX_AUTOMATIC_POINTS = 3, 120
NEGLIGIBLE_VARIANCE = 1e-3
LINEAR_LENGTHSCALE = 50.0  # standard deviations of the column: longer effects are straight lines
# integrate="auto" integrates up to this many distinct rows and learned hyperparameters.
MAX_INTEGRATED_ROWS, MAX_INTEGRATED_PARAMETERS = 200, 8
NO_EFFECT_LENGTHSCALE = 1e3  # ranges of the inputs: a column with a longer lengthscale has no effect
AT_OPTIMUM = "Predictions hold the hyperparameters at the optimum, and bands are narrow."
# Averaged predictions need fewer draws than estimates of hyperparameters; the report applies the strict limits.
PREDICTION_LIMITS = {"rhat": 1.05, "ess": 25}


class Learned(NamedTuple):
    """A fitted latent function.

    why      reason if learning did not converge
    doubt    reason not to trust the fit although it converged
    report   computes the report, with every evidence, on request
    kernels  weight per averaged kernel
    """

    latent: Latent | Sampled
    rounds: int
    converged: bool
    why: str
    report: Callable[[], str]
    at_bound: tuple[str, ...]
    doubt: str = ""
    kernels: Mapping[str, float] = {}


def weak_priors(
    model: Model, trainable: Trainable, given: Mapping[str, HyperPrior], weak: Mapping[str, HyperPrior]
) -> dict[str, HyperPrior]:
    """Return given or else weak priors; a positive hyperparameter without either gets log θ ~ N(log start, 2²).

    Each entry has its own start, because columns may have different units.  A log-uniform prior would give an improper
    posterior: if the classes can be separated, the data do not limit the magnitude from above.
    """
    start = values(model)
    found: dict[str, HyperPrior] = {
        p.name: LogNormal(_location(start[p.name]), WEAK_PRIOR_SD)
        for p in trainable.parameters
        if isinstance(p.support, Positive)
    }
    known = {p.name for p in trainable.parameters}
    return {**found, **{n: p for n, p in weak.items() if n in known}, **dict(trainable.priors(given))}


def has_effects(kernel: Kernel) -> bool:
    """Return whether the kernel has effects of columns: the evidence is then flat along some of its parameters."""
    return isinstance(kernel, Additive) or any(map(has_effects, inner(kernel)))


@dataclasses.dataclass(frozen=True)
class Approximate:
    """A method that finds Gaussian sites.

    integrate  design of the integral over the hyperparameters, or None
    automatic  whether to integrate where rows are few (`for_rows`)
    weak       priors of hyperparameters without given priors, for the integral
    """

    learner: Learner
    integrate: str | None = None
    automatic: bool = False
    weak: Mapping[str, HyperPrior] = dataclasses.field(default_factory=dict)

    @property
    def learning_rows(self) -> int | None:
        """Size of the subset used for learning hyperparameters with inducing inputs; None means all rows."""
        return self.learner.learning_rows if isinstance(self.learner, Nested) else None

    def for_rows(self, model: Model, data: Data) -> Approximate:
        """Return the method; with the small design "star" if `automatic`, rows are few and the kernel is a default one.

        Bands at the optimum of a few rows are too narrow; with many rows the integral changes nothing.  A default
        kernel has priors from the spread of the inputs, which a given kernel does not have.
        """
        default = bool(self.weak) and not has_effects(model.prior.kernel)
        if not (self.automatic and default and isinstance(self.learner, Nested)):
            return self
        if model.prior.structure != "full" or data.rows > MAX_INTEGRATED_ROWS:
            return self
        size = Trainable.of(model, self.learner.fixed, self.learner.train, tied=self.learner.tied).size
        return dataclasses.replace(self, integrate="star") if 0 < size <= MAX_INTEGRATED_PARAMETERS else self

    def learner_of(self, model: Model) -> Learner:
        """Return the learner, with priors for integration and for kernels with effects."""
        learner = self.learner
        if not isinstance(learner, Nested):
            return learner
        if model.prior.inputs is None:  # the structure has chosen the full GP
            learner = dataclasses.replace(learner, move_inputs=False)
        if self.integrate is None and not has_effects(model.prior.kernel):
            return learner
        trainable = Trainable.of(model, learner.fixed, learner.train, tied=learner.tied)
        return dataclasses.replace(
            learner, priors=weak_priors(model, trainable, learner.priors, self.weak), jacobian=True
        )

    def fit(self, model: Model, data: Data, seed: int, progress: Report | None, sites: Sites | None = None) -> Fit:
        """Find the optimum; inference starts from `sites`."""
        learner = self.learner_of(model)
        evaluations = itertools.count(1)

        def callback(entry: Mapping[str, Any]) -> None:
            assert progress is not None
            progress(f"evaluation {next(evaluations)}, objective {entry['objective']:.4f}", entry["share"])

        told = None if progress is None else callback
        if isinstance(learner, Nested):
            return learner.fit(model, data, sites, seed=seed, callback=told)
        return learner.fit(model, data, seed=seed, callback=told)

    def learn(
        self, model: Model, data: Data, seed: int, progress: Report | None, sites: Sites | None = None
    ) -> Learned:
        fit = self.fit(model, data, seed, progress, sites)
        outcome = fit.solution.outcome
        why = fit.reason if outcome.ok else outcome.advice_for("estimator")
        latent = Latent.of_fit(fit)
        words: Callable[[], str] = functools.partial(fit.report, "estimator")
        found, problems = self._integral(fit)
        if found is not None:
            latent = IntegratedLatent.at_nodes(latent, fit.data, found)
            words = functools.partial(_with_integral, words, str(found))
        elif problems:  # nobody asked for an integral: the report says why there is none, and no warning
            words, problems = functools.partial(_with_integral, words, " ".join(problems)), []
        # For one latent function the check is a quadrature whose program may take longer than the fit: the report
        # computes it.
        doubt = fit.doubt("estimator") if fit.model.likelihood.latents > 1 else ""
        doubt = " ".join([*filter(None, [doubt]), *problems])
        at_bound = tuple(label for label in fit.at_bound if not removes_part(label, fit))
        return Learned(latent, fit.rounds, fit.converged, why, words, at_bound, doubt)

    def _integral(self, fit: Fit) -> tuple[Integrated | None, list[str]]:
        """Return the integral over the hyperparameters, or None, and its problems.

        If the design was chosen automatically and does not suit the posterior, a lattice takes its place where there
        are few enough hyperparameters; without an integral to be trusted, predictions are made at the optimum.  A
        search that did not converge has no optimum to integrate around.
        """
        if self.integrate is None or (self.automatic and not fit.converged):
            return None, []
        final = self.learner.final_inference(fit.model)
        if not self.automatic:
            found = integrate(fit, self.integrate, final)
            return found, found.problems
        try:
            found = integrate(fit, self.integrate, final)
            if found.problems and found.directions[1] <= MAX_AUTOMATIC_PARAMETERS:
                # Most points of a lattice are far out; every prediction would evaluate them.
                found = integrate(fit, "lattice", final, MAX_AUTOMATIC_POINTS).trimmed(NEGLIGIBLE_MASS)
        except ValueError as problem:
            return None, [f"{AT_OPTIMUM} {problem}"]
        return (None, [AT_OPTIMUM, *found.problems]) if found.problems else (found, [])

    def start(self, model: Model, data: Data) -> tuple[Model, Sites | None]:
        """Return the model with the starting lengthscale of a default kernel, and the sites of its rows if known."""
        return starting_lengthscale(self.learner, model, data) if isinstance(self.learner, Nested) else (model, None)

    def infer(self, latent: Latent, data: Data, old: np.ndarray, new: np.ndarray) -> tuple[Latent, Solution]:
        """Infer with other rows at the same hyperparameters; row new[i] starts from the site of row old[i]."""

        def again(one: Latent) -> tuple[Latent, Solution]:
            known = Sites(*(a[..., old] for a in one.sites))
            return infer(self.learner.final_inference(one.model), one.model, data, known, new)

        found, solutions = latent.changed(again)
        return found, max(solutions, key=lambda one: one.outcome)

    def append(self, latent: Latent, more: Data) -> tuple[Latent, Outcome]:
        """Infer with new rows at the end of a time series, at the same hyperparameters."""

        def longer(one: Latent) -> tuple[Latent, Outcome]:
            inference = self.learner.final_inference(one.model)
            found = Running(inference, one.posterior, one.data, one.sites, Outcome.CONVERGED, 0).append(more)
            return Latent(one.model, found.data, found.sites, found.posterior), found.outcome

        found, outcomes = latent.changed(longer)
        return found, max(outcomes)


def _with_integral(report: Callable[[], str], words: str) -> str:
    return f"{report()}\n{words}"


@dataclasses.dataclass(frozen=True)
class Sampling:
    """A method that samples; the fields are arguments of `sitewise.mcmc.sample`, and `weak` priors."""

    fixed: tuple[str, ...]
    train: tuple[str, ...]
    tied: Groups
    bounds: Mapping[str, tuple[float, float]]
    priors: Mapping[str, HyperPrior]
    counts: Mapping[str, Any]
    weak: Mapping[str, HyperPrior] = dataclasses.field(default_factory=dict)
    learning_rows: ClassVar[int | None] = None

    def _priors(self, model: Model) -> dict[str, HyperPrior]:
        trainable = Trainable.of(model, self.fixed, self.train, tied=self.tied)
        return weak_priors(model, trainable, self.priors, self.weak)

    def learn(
        self, model: Model, data: Data, seed: int, progress: Report | None, sites: Sites | None = None
    ) -> Learned:
        def callback(done: int, total: int) -> None:
            assert progress is not None
            progress("sampling", done / total)

        samples = sample(
            model, data, seed=seed, callback=None if progress is None else callback, fixed=self.fixed, train=self.train,
            tied=self.tied, bounds=self.bounds, priors=self._priors(model), **self.counts,
        )  # fmt: skip
        chains, draws = samples.vectors.shape[:2]
        problems = samples.problems(**PREDICTION_LIMITS)

        def report() -> str:
            return f"mcmc: {chains} chains of {draws} draws.\n{samples.summary()}"

        return Learned(Sampled(samples), draws, not problems, " ".join(problems[:1]), report, ())


def removes_part(label: str, fit: Fit) -> bool:
    """Return whether this parameter at its bound removes a column, an effect or the groups, as it is meant to."""
    X = np.asarray(fit.data.X)
    if label.endswith((".kappa", ".interaction")) and fit.parameters[label] < NEGLIGIBLE_VARIANCE:
        return True  # no difference between groups, or no pairs
    effect = re.fullmatch(r"(.*base\.)(lengthscale|variance)\[(\d+)\]", label)
    if effect is not None and has_effects(fit.model.prior.kernel):
        # A centred effect vanishes, or becomes a straight line as both of its parameters grow.  Lengthscales are in
        # standard deviations of the columns.
        length, variance = (fit.parameters[effect[1] + name][int(effect[3])] for name in ("lengthscale", "variance"))
        return bool(variance < NEGLIGIBLE_VARIANCE or length > LINEAR_LENGTHSCALE)
    found = re.fullmatch(r"(.*lengthscale)\[(\d+)\]", label)
    if found is None:
        return False
    return bool(np.ravel(fit.parameters[found[1]])[int(found[2])] > NO_EFFECT_LENGTHSCALE * np.max(np.ptp(X, axis=0)))


def _location(start: np.ndarray) -> float | tuple[float, ...]:
    """Return the logarithm of every entry; one number if all are equal."""
    logs = np.log(np.ravel(start)).tolist()
    return logs[0] if len(set(logs)) == 1 else tuple(logs)


class FitWarning(UserWarning):
    """Warning about a fit; `fact` is the message without the advice, which names Python arguments."""

    def __init__(self, fact: str, advice: str = "") -> None:
        super().__init__(f"{fact} {advice}".rstrip())
        self.fact = fact


class MissingInformation(FitWarning):
    """A fit to observations that do not determine the model, such as lifetimes without an event."""


class NotConverged(FitWarning, ConvergenceWarning):
    """A fit that did not converge."""


def warn_of(name: str, found: Sequence[Learned], missing: Sequence[str], stacklevel: int) -> None:
    """Warn of missing information, uncorrelated rows, parameters at a bound, doubtful fits and missing convergence.

    `missing` has one sentence of `Likelihood.missing_information` per latent function.
    """

    def warn(fact: str, advice: str = "", kind: type[FitWarning] = FitWarning) -> None:
        warnings.warn(kind(fact, advice), stacklevel=stacklevel + 2)

    for fact in filter(None, missing):
        warn(fact, kind=MissingInformation)
    if any(one.latent.rows_uncorrelated() for one in found):
        warn(
            "The kernel treats all rows as uncorrelated, so that nothing can be learned.",
            "Scale the inputs, with StandardScaler for example, or start from a longer lengthscale.",
        )
    held = sorted({label for one in found for label in one.at_bound})
    if held:
        warn(
            f"{', '.join(held)} ended at a bound: the evidence keeps rising beyond it.",
            "Scale the inputs, or set bounds or priors; fit_report_ says more.",
        )
    for doubt in {one.doubt for one in found if one.doubt}:
        warn(doubt)
    bad = [one for one in found if not one.converged]
    if bad and not bad[0].latent.has_sites:
        warn(f"The chains of {name} have not converged. {bad[0].why}", "fit_report_ says more.", NotConverged)
    elif bad:
        warn(
            f"{name}: {bad[0].why.rstrip('.')}."
            if bad[0].why.startswith("Converged")
            else f"{name} did not converge: {bad[0].why.rstrip('.')}.",
            "fit_report_ says more; raising max_iter, scaling the inputs or adding priors may help.",
            NotConverged,
        )
