"""The contract of a learner, and the result of learning.

    learner.fit(model, data) → Fit       Nested and VEM give a SiteFit, MiniBatch gives a BatchFit

A fit is a trained model with what is needed to predict from it (`posterior`), how the search ended, and a report in
plain words.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence
from sitewise.data import Data
from sitewise.inference import Inference, Solution
from sitewise.inference.start import to_bucket
from sitewise.model import Model
from sitewise.parameters import values
from sitewise.predict import Posterior, posterior
from sitewise.runtime import programs
from sitewise.runtime.engine import Array, on_host, to_host
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites

Callback = Callable[[dict[str, Any]], None]
_WIDE_GAP = 0.05  # nats a row between EP evidence and ELBO on VI's sites


class Learner(Protocol):
    """Settings of a search for hyperparameters.

    The callback is called after every evaluation, round or batch with an entry that has at least `objective`, in nats,
    and `share`, an estimate of how much of the search is done; those of `Nested` and `VEM` are the entries of the
    trace, with the hyperparameters by name.  It may raise an exception to stop the search.
    """

    @property
    def name(self) -> str: ...

    def fit(self, model: Model, data: Any, *, seed: int = 0, callback: Callback | None = None) -> Fit: ...

    def final_inference(self, model: Model) -> Inference:
        """The method of the sites that `fit` returns for such a model."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fit(abc.ABC):
    """A trained model.

    method, inference   names of the learner and of the inference whose sites it holds
    objective           the maximised objective: an evidence in nats, with the log prior of θ if there is one
    converged, reason   how the search ended
    rounds, trace       of the search; the trace has one entry per evaluation or round
    at_bound            hyperparameters that ended at a bound
    """

    model: Model
    method: str
    inference: str
    objective: float
    converged: bool
    reason: str
    rounds: int
    trace: list[dict[str, Any]]
    at_bound: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return values(self.model)

    @property
    @abc.abstractmethod
    def weight(self) -> float:
        """The number of training rows, each counted with its weight."""

    @property
    @abc.abstractmethod
    def evidences(self) -> dict[str, float]:
        """The evidences that can be computed from the result, by name, in nats."""

    @abc.abstractmethod
    def posterior(self) -> Posterior:
        """q(f), ready for prediction."""

    def report(self) -> str:
        """What happened, and what to try if it did not go well."""
        lines = [f"{self.method}: {self.reason} ({self.rounds} rounds)."]
        lines += [f"  {name} = {_show(value)}" for name, value in self.parameters.items()]
        lines.append("Evidence on the final sites, in nats (per row):")
        for name, value in self.evidences.items():
            lines.append(f"  {name:8s} {value:12.4f}  ({value / self.weight:.5f})")
        lines += self._details()
        for name in self.at_bound:
            lines.append(
                f"{name} ended at its bound: the evidence keeps rising beyond it. Widen the bound if the value "
                "is plausible; otherwise add a prior, or fix the parameter."
            )
        if not self.converged:
            lines.append("Not converged. Try more rounds, another start (restarts), or a prior on the parameters.")
        return "\n".join(lines)

    def _details(self) -> list[str]:
        """Sentences about inference."""
        return []


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiteFit(Fit):
    """A fit with one site per row of its data."""

    data: Data
    solution: Solution

    @property
    def sites(self) -> Sites:
        return self.solution.sites

    @property
    def weight(self) -> float:
        return float(np.sum(np.asarray(self.data.weight)))

    @functools.cached_property
    def evidences(self) -> dict[str, float]:
        with working_precision():
            return all_evidences(self.model, self.data, self.sites)

    def posterior(self) -> Posterior:
        with working_precision():
            # In the precision of learning, whatever that of the rows is.
            return posterior(self.model, self.data.to_bucket(self.data.rows), self.sites)

    def _details(self) -> list[str]:
        stats, outcome = self.solution.stats, self.solution.outcome
        gap = (self.evidences["ep"] - self.evidences["elbo"]) / self.weight
        lines = [f"EP evidence minus ELBO: {gap:.4f} per row."]
        if self.inference != "vi":
            lines.append(
                f"  (On {self.inference} sites the ELBO is not at its maximum; on VI sites the gap is a diagnostic.)"
            )
        elif gap > _WIDE_GAP and self.model.likelihood.latents == 1:  # the bound of a softmax is loose by itself
            lines.append(
                "  That is wide: the Gaussian approximation is far from the posterior here. Check the fit "
                "against mcmc, and prefer ep or hybrid to vi for learning."
            )
        elif gap < -1e-6:
            lines.append(
                "  It is negative, so the EP evidence is no better than the bound here: see the outcome below."
            )
        lines.append(
            f"Inference: {outcome.name.lower()}, residual {float(stats.residual):.1e} after {int(stats.steps)} steps. "
            f"{outcome.advice}"
        )
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


def _show(value: np.ndarray) -> str:
    if np.size(value) > 32:
        return f"a table of shape {np.shape(value)}"
    return np.array2string(np.asarray(value), precision=5, separator=", ")


def _all_evidences(model: Model, data: Data, sites: Sites) -> dict[str, Array]:
    on_sites = evidence.conditioned(model, data, sites)
    # Without residual variance `collapsed` is `ep`, at many times the cost.
    chosen = {k: e for k, e in evidence.ALL.items() if not (model.prior.exact and e is evidence.collapsed)}
    return {name: e.on_marginals(*on_sites) for name, e in chosen.items()}


_traced_evidences = programs.jit(_all_evidences)


def all_evidences(model: Model, data: Data, sites: Sites) -> dict[str, float]:
    """Every evidence on the same sites."""
    if model.prior.host and on_host(model, data, sites):
        found = _all_evidences(*to_host((model, data, sites)))
    else:
        found = _traced_evidences(model, *to_bucket(data, sites))
    return {name: float(v) for name, v in found.items()}


def one_for_each(models: Model | Sequence[Model], parts: Sequence[Data]) -> list[Model]:
    """A list with one model for each part, all of one form."""
    each = [models] * len(parts) if isinstance(models, Model) else list(models)
    if len(each) != len(parts):
        raise ValueError(f"Got {len(each)} models for {len(parts)} parts; give one model, or one for each part.")
    if len({(jax.tree.structure(m), *map(np.shape, jax.tree.leaves(m))) for m in each}) > 1:
        raise ValueError("fit_many needs models of one form: the same parts, with as many inducing inputs each.")
    return each


def stack(trees: Sequence[Any]) -> Any:
    """Trees of one shape as one tree, with a leading axis: put together here and moved to the device in one piece."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])), *trees)
