"""The result of learning: a trained model, its sites and posterior, how the search ended, and a report in words."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from sitewise import evidence
from sitewise.arrays import programs
from sitewise.arrays.engine import Array, on_host, to_host
from sitewise.arrays.spread import whole
from sitewise.data import Data
from sitewise.inference import Solution
from sitewise.inference.start import to_bucket
from sitewise.learning.curvature import MAX_CENTRAL, Curvature, SearchEnd, completed, curvature
from sitewise.learning.objective import Objective
from sitewise.learning.schedule import StageEnd
from sitewise.model import Model
from sitewise.parameters import values
from sitewise.predict import Posterior, posterior
from sitewise.priors import LatentPosterior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

MAX_REPORTED_INTERVALS = 12  # trained numbers; each interval costs two evaluations of the objective
INTERVAL_LEVEL = 0.9
FEW_INPUTS_GAP = 0.1  # nats per row between EP evidence and the bound `tight` of a sparse GP
WIDE_GAP = 0.05  # nats per row between EP evidence and ELBO on VI's sites
LAPLACE_GAP = 1.0  # nats per row between Laplace's evidence and the ELBO on Laplace's sites; see `Fit.doubt`
_SLOPES = {
    "fixed": "its gradient with the sites held fixed",
    "one_step": "its one-step gradient",
    "implicit": "its implicit gradient",
}
# Remedies, by the settings that a caller of the library or of an estimator has.
_ADVICE = {
    "library": {
        "search": "Try more rounds (max_rounds), another start (restarts), or a prior on the parameters (priors).",
        "laplace": "Use VI(), or the learner of the hybrid, or bound the variance of the kernel.",
    },
    "estimator": {
        "search": "Try Method(max_iter=…, restarts=…), or Hyperparameters(priors=…).",
        "laplace": "Use method='hybrid' or 'vi', or bound kernel.variance.",
    },
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Fit:
    """The result of learning: a trained model with one Gaussian site per row of its data.

    Attributes
    ----------
    model : Model
        The model at the learned hyperparameters.
    data : Data
        The training rows.
    solution : Solution
        Sites, outcome and statistics of the inference at the end; `sites` are its sites.
    method : str
        Name of the learner.
    inference : str
        Name of the inference whose sites these are.
    objective : float
        The maximised objective: an evidence in nats, with the log prior of θ if there is one.
    converged : bool
        Whether the search converged.
    reason : str
        How the search ended.
    rounds : int
        Rounds of the search.
    trace : list of dict
        One entry per evaluation or round.
    climbed : str
        Which objective was maximised over which parameters, in words.
    at_bound : tuple of str
        Hyperparameters that ended at a bound.
    problem : Objective or None
        The objective of `Nested`; None for a learner that maximises no profile objective.
    limits : array of shape (n_entries, 2)
        (low, high) of every entry of the vector that was searched.
    learned_from : Data or None
        The subset used for learning the hyperparameters; None for all rows.
    stages : tuple of StageEnd
        How every stage of the schedule ended.
    latent : LatentPosterior or None
        q(f) from the factor of the last evaluation; None if it is computed on request.
    search_end : SearchEnd or None
        The gradient and the inverse Hessian at the end of the search; None if the search began without a guess.
    """

    model: Model
    data: Data
    solution: Solution
    method: str
    inference: str
    objective: float
    converged: bool
    reason: str
    rounds: int
    trace: list[dict[str, Any]]
    climbed: str
    at_bound: tuple[str, ...] = ()
    problem: Objective | None = None
    limits: np.ndarray | None = None
    learned_from: Data | None = None
    stages: tuple[StageEnd, ...] = ()
    latent: LatentPosterior | None = dataclasses.field(default=None, compare=False)
    search_end: SearchEnd | None = dataclasses.field(default=None, compare=False)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={_show(value, 4)}" for name, value in self.parameters.items())
        return f"Fit({self.method} on {self.weight:g} rows, objective {self.objective:.6g}, {self.reason}; {numbers})"

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return values(self.model)

    @property
    def sites(self) -> Sites:
        return self.solution.sites

    @property
    def weight(self) -> float:
        """The number of training rows, each counted with its weight."""
        return float(np.sum(whole(self.data.weight)))

    def posterior(self) -> Posterior:
        """Return q(f), ready for prediction."""
        if self.latent is not None:
            return Posterior(self.latent, self.model.likelihood, self.model.prior.mean)
        with working_precision():
            # In the precision of learning, whatever the precision of the rows is.
            return posterior(self.model, self.data.to_bucket(self.data.rows), self.sites)

    @functools.cached_property
    def curvature(self) -> Curvature:
        """Standard errors and intervals of the hyperparameters, from the objective's Hessian.

        Computed on first use, by up to two evaluations of the objective per trained number.
        """
        return self._curvature(MAX_CENTRAL)

    @functools.cached_property
    def quick_curvature(self) -> Curvature:
        """`curvature` with the estimate of the search for entries that their prior determines.

        The other entries, such as a shared lengthscale, have one evaluation of the objective each, with relative errors
        of about 1e-3.  Without an estimate all entries have one.
        """
        if self.search_end is None or self.problem is None or self.learned_from is not None:
            return self._curvature(0)
        sites = self.sites if self.problem.inference.name == self.inference else None
        return completed(self.problem, self.model, self.data, sites, self.at_bound, self.search_end)

    def _curvature(self, max_central: int) -> Curvature:
        if self.problem is None:
            raise ValueError(
                f"{self.method} holds the sites fixed while it learns and does not end at a maximum of its objective, "
                "which standard errors need; train with Nested (method 'hybrid', 'vi', 'ep' or 'laplace')."
            )
        if self.learned_from is not None:
            return curvature(self.problem, self.model, self.learned_from, None, self.at_bound, max_central)
        same = self.problem.inference.name == self.inference
        sites = self.sites if same else None
        return curvature(self.problem, self.model, self.data, sites, self.at_bound, max_central)

    @functools.cached_property
    def evidences(self) -> dict[str, float]:
        """The evidences on the final sites, by name, in nats: the quick ones and the maximised one.

        The ELBO of classes has a term −exp(m + v/2) per row and class: on EP's sites, which leave some variances as
        wide as the prior's, it may be −1e14 and means nothing.  There it is left out.
        """
        with working_precision():
            climbed = () if self.problem is None else (self.problem.evidence.name,)
            likelihood = self.model.likelihood
            classes = likelihood.latents > 1 and not likelihood.functions
            left_out = {"elbo", "tight"} - set(climbed) if classes and self.inference.startswith("ep") else ()
            known = (*evidence.QUICK, *climbed)
            names = tuple(name for name in evidence.ALL if name in known and name not in left_out)
            return all_evidences(self.model, self.data, self.sites, names)

    def doubt(self, caller: str = "library") -> str:
        """Return why Laplace's Gaussian q is not reliable; empty if no problem is found.

        log Z − ELBO(q) = KL(q ‖ posterior) for any q.  With Laplace's evidence for log Z that should be a small part
        of a nat per row.  For well-separated classes and a wide prior the mode says little about the posterior: the
        difference is then large, and the probabilities are far too cautious.
        """
        if self.inference != "laplace":
            return ""
        with working_precision():
            found = all_evidences(self.model, self.data, self.sites, ("laplace", "elbo"))
        gap = (found["laplace"] - found["elbo"]) / self.weight
        if gap <= LAPLACE_GAP:
            return ""
        return (
            f"Laplace's Gaussian is far from the posterior: its ELBO lies {gap:.2g} nats per row below its evidence, "
            f"and its predictions should not be trusted. {_ADVICE[caller]['laplace']}"
        )

    def report(self, caller: str = "library") -> str:
        """Describe the fit and, if it did not go well, the remedies; `caller` is "library" or "estimator"."""
        lines = [
            f"{self.method}: {self.reason} ({self.rounds} rounds).",
            f"Maximised: {self.climbed}. It ended at {self.objective:.4f} nats.",
        ]
        if self.model.prior.about:
            lines.append(self.model.prior.about)
        if len(self.stages) > 1:
            lines += ["Stages of the fit:", *(f"  {k + 1}. {end}" for k, end in enumerate(self.stages))]
        lines += self._values()
        lines.append("Evidence on the final sites, in nats (per row):")
        for name, value in self.evidences.items():
            lines.append(f"  {name:8s} {value:12.4f}  ({value / self.weight:.5f})")
        lines += [*self._about_gap(), *self._about_inference(caller)]
        for name in self.at_bound:
            lines.append(
                f"{name} ended at its bound: the evidence keeps rising beyond it. Widen the bound if the value "
                "is plausible; otherwise add a prior, or hold the parameter fixed."
            )
        if not self.converged:
            lines.append(f"Not converged. {_ADVICE[caller]['search']}")
        return "\n".join(lines)

    def _values(self) -> list[str]:
        """One line per hyperparameter, with its interval where there are few."""
        lines = [f"  {name} = {_show(value)}" for name, value in self.parameters.items()]
        if self.problem is None or self.problem.trainable.size > MAX_REPORTED_INTERVALS:
            return lines
        found = self.curvature.intervals(INTERVAL_LEVEL)
        shown = {k: _between(*found[k]) for k in found}
        return [line + shown.get(name, "") for name, line in zip(self.parameters, lines, strict=True)]

    def _about_gap(self) -> list[str]:
        if "elbo" not in self.evidences:
            return []
        gap = (self.evidences["ep"] - self.evidences["elbo"]) / self.weight
        lines = [f"EP evidence minus ELBO: {gap:.4f} per row."]
        below = (self.evidences["ep"] - self.evidences.get("tight", np.inf)) / self.weight
        if below > FEW_INPUTS_GAP and self.model.likelihood.latents == 1:
            count = len(np.asarray(self.model.prior.inputs))
            lines.append(
                f"  {count} inducing inputs are too few for this kernel: the bound `tight` is {below:.2f} nats per row "
                f"below the EP evidence. Use more, as in Sparse({2 * count}), or the full GP."
            )
        if self.inference != "vi":
            lines.append(
                f"  (On {self.inference} sites the ELBO is not at its maximum; on VI sites the gap is a diagnostic.)"
            )
        elif gap > WIDE_GAP and self.model.likelihood.latents == 1:  # the bound of a softmax is loose by itself
            lines.append(
                "  That is wide: the Gaussian approximation is far from the posterior here. Check the fit "
                "against mcmc, and prefer ep or hybrid to vi for learning."
            )
        elif gap < -1e-6:
            lines.append("  It is negative: the EP evidence is no better than the bound here; see the outcome below.")
        return lines

    def _about_inference(self, caller: str) -> list[str]:
        stats, outcome = self.solution.stats, self.solution.outcome
        lines = [
            f"Inference: {outcome.name.lower()}, residual {float(stats.residual):.1e} after {int(stats.steps)} steps. "
            f"{outcome.advice_for(caller)}",
            *filter(None, [self.doubt(caller)]),
        ]
        if int(stats.clipped):
            lines.append(
                f"{int(stats.clipped)} site precisions were held at their lower limit: those rows look like "
                "outliers to the likelihood, and have almost no weight."
            )
        if float(stats.jitter) > 0:
            lines.append(
                f"Rounding made the covariance matrix indefinite: a jitter of {float(stats.jitter):.0e} of its "
                "diagonal was added. The kernel's variance is very large compared with the posterior variance."
            )
        return lines


def _between(low: np.ndarray, high: np.ndarray) -> str:
    """An interval as it follows a value; empty for several values and for infinite limits."""
    if np.size(low) != 1 or not np.all(np.isfinite([low, high])):
        return ""
    return f" ({INTERVAL_LEVEL:.0%}: {np.ravel(low)[0]:.3g} to {np.ravel(high)[0]:.3g})".replace("%", " %")


def _show(value: np.ndarray, most: int = 32) -> str:
    if np.size(value) > most:
        return f"a table of shape {np.shape(value)}"
    return np.array2string(np.asarray(value), precision=5, separator=", ")


def climbed(problem: Objective, model: Model) -> str:
    """Describe the maximised objective of a search for the hyperparameters of this model."""
    trained = problem.trainable.names
    if not trained:
        return "nothing, as every parameter was held fixed"
    parts = [f"{problem.evidence.name} evidence of {problem.inference.name} sites by {_SLOPES[problem.gradient]}"]
    held = [name for name in values(model) if name not in trained]
    if held:
        parts.append(f"held fixed: {', '.join(held)}")
    if problem.priors:
        parts.append(f"MAP with priors on {', '.join(name for name, _ in problem.priors)}")
    return "; ".join(parts)


def _all_evidences(names: tuple[str, ...], model: Model, data: Data, sites: Sites) -> dict[str, Array]:
    on_sites = evidence.conditioned(model, data, sites)
    plain = model.prior.exact or model.likelihood.latents > 1
    chosen = [name for name in names if not (plain and name in evidence.FOR_RESIDUALS)]
    return {name: evidence.ALL[name].on_marginals(*on_sites) for name in chosen}


_traced_evidences = functools.partial(programs.jit, static_argnums=0)(_all_evidences)


def all_evidences(model: Model, data: Data, sites: Sites, names: tuple[str, ...] = evidence.QUICK) -> dict[str, float]:
    """Return the evidences of these names on the same sites, in nats; by default all that are quick."""
    if model.prior.host and on_host(model, data, sites):
        found = _all_evidences(names, *to_host((model, data, sites)))
    else:
        found = _traced_evidences(names, model, *to_bucket(data, sites))
    return {name: float(v) for name, v in found.items()}
