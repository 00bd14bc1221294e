"""L3. The result of learning, and what it says in plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence
from sitewise.data import Data
from sitewise.inference.base import Solution
from sitewise.model import Model
from sitewise.parameters import values
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class Fit:
    """A trained model with its sites.

    `trace` has one entry per evaluation (Nested) or round (VEM): the parameters, the evidences, the
    residual.  `evidences` reads every evidence off the final sites, in nats.
    """

    model: Model
    data: Data
    sites: Sites
    method: str
    inference: str
    objective: float
    converged: bool
    reason: str
    rounds: int
    solution: Solution
    evidences: dict[str, float]
    trace: list[dict[str, Any]]
    at_bound: tuple[str, ...] = ()

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        return values(self.model)

    def report(self) -> str:
        """What happened, and what to try if it did not go well."""
        stats = self.solution.stats
        weight = float(np.sum(np.asarray(self.data.weight)))
        lines = [f"{self.method}: {self.reason} ({self.rounds} rounds)."]
        lines += [f"  {name} = {_show(value)}" for name, value in self.parameters.items()]
        lines.append("Evidence on the final sites, in nats (per row):")
        for name, value in self.evidences.items():
            lines.append(f"  {name:8s} {value:12.4f}  ({value / weight:.5f})")
        gap = (self.evidences["ep"] - self.evidences["elbo"]) / weight
        lines.append(f"EP evidence minus ELBO: {gap:.4f} per row.")
        if self.inference != "vi":
            lines.append(f"  (On {self.inference} sites the ELBO is not at its best; on VI sites the gap is an alarm.)")
        elif gap > 0.05 and self.model.likelihood.latents == 1:  # the bound of a softmax is loose by itself
            lines.append(
                "  That is wide: the Gaussian approximation is far from the posterior here. Check the fit "
                "against mcmc, and prefer ep or hybrid to vi for learning."
            )
        elif gap < -1e-6:
            lines.append(
                "  It is negative, so the EP evidence is no better than the bound here: see the outcome below."
            )
        lines.append(
            f"Inference: {self.solution.outcome.name.lower()}, residual {float(stats.residual):.1e} "
            f"after {int(stats.steps)} steps. {self.solution.outcome.advice}"
        )
        if int(stats.clipped):
            lines.append(
                f"{int(stats.clipped)} site precisions were held at their lower limit: those rows look like "
                "outliers to the likelihood, and carry next to no weight."
            )
        if float(stats.jitter) > 0:
            lines.append(
                f"Rounding made the covariance matrix indefinite: a jitter of {float(stats.jitter):.0e} of its "
                "diagonal was added. The kernel's variance is very large beside what the observations leave open."
            )
        for name in self.at_bound:
            lines.append(
                f"{name} ended at its bound: the evidence keeps rising beyond it. Widen the bound if the value "
                "is plausible; otherwise add a prior, or fix the parameter."
            )
        if not self.converged:
            lines.append("Not converged. Try more rounds, another start (restarts), or a prior on the parameters.")
        return "\n".join(lines)


def _show(value: np.ndarray) -> str:
    if np.size(value) > 32:
        return f"a table of shape {np.shape(value)}"
    return np.array2string(np.asarray(value), precision=5, separator=", ")


@jax.jit
def _all_evidences(model: Model, data: Data, sites: Sites) -> dict[str, jax.Array]:
    q = model.prior.gram(data.X).condition(sites.scaled(data.weight))
    # Without residual variance `collapsed` is `ep`, at many times the cost.
    chosen = {k: e for k, e in evidence.ALL.items() if not (model.prior.exact and e is evidence.collapsed)}
    return {name: e.read(model.likelihood, data, q, sites) for name, e in chosen.items()}


def all_evidences(model: Model, data: Data, sites: Sites) -> dict[str, float]:
    """Every evidence on the same sites."""
    return {name: float(v) for name, v in _all_evidences(model, data, sites).items()}


def one_for_each(models: Model | Sequence[Model], parts: Sequence[Data]) -> list[Model]:
    """A model for each part, all of one shape."""
    each = [models] * len(parts) if isinstance(models, Model) else list(models)
    if len(each) != len(parts):
        raise ValueError(f"Got {len(each)} models for {len(parts)} parts; give one model, or one for each part.")
    if len({(jax.tree.structure(m), *map(np.shape, jax.tree.leaves(m))) for m in each}) > 1:
        raise ValueError("fit_many needs models alike: the same parts, with as many inducing inputs each.")
    return each


def stack(trees: Sequence[Any]) -> Any:
    """Trees of one shape as one tree, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


def pad_rows(array, rows: int) -> jax.Array:
    """Zeros appended on the axis of the rows, the last one of sites."""
    array = jnp.asarray(array)
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, rows - array.shape[-1])])


def start_sites(model: Model, data: Data, sites: Sites | None) -> Sites:
    from sitewise.inference.driver import first_sites

    if sites is None:
        return first_sites(model.likelihood, data)
    rows = sites.nat1.shape[-1]
    if rows > data.rows:
        raise ValueError(f"Got sites for {rows} rows but data for {data.rows}.")
    return Sites(*(pad_rows(a, data.rows) for a in sites))
