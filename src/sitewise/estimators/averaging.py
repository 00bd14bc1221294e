"""Model averaging over kernels, weighted by evidence^0.25, the evidence with the hyperparameters integrated out.

    p(f | y) = Σ_k w_k ∫ p(f | y, θ, k) p(θ | y, k) dθ,     w_k ∝ [∫ p(y | θ, k) p(θ | k) dθ]^τ

with the evidence of the method's own pair, and nodes around each optimum (`learning.integration`).  With τ = 1 the
weights are the probabilities of the kernels if one of them is true.  No kernel is true, and a few nats then give nearly
all weight to one of several kernels that predict equally well.  τ = ¼ avoids this and still gives no weight to a kernel
that predicts badly (results/default-kernel).  A kernel whose Laplace evidence is far below the best is not integrated.
A kernel with three hyperparameters or more is integrated on a star, whose nodes are few (decision 028).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from sitewise.data import Data
from sitewise.estimators.candidates import Candidate
from sitewise.estimators.training import MAX_START_ROWS, Approximate, Learned, Sampling
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent, same_form
from sitewise.kernels import Shrunk
from sitewise.learning.fit import Fit
from sitewise.learning.integration import MAX_GRID_PARAMETERS, Integrated, integrate, laplace_evidence
from sitewise.learning.nested import Nested
from sitewise.model import Model
from sitewise.process.progress import Report
from sitewise.sites import Sites
from sitewise.types import replace

EVIDENCE_POWER = 0.25  # τ
MAX_EVIDENCE_GAP = 25.0  # nats below the best kernel; kernels further below get no weight
MIN_REPORTED_WEIGHT = 0.1  # problems of the integral are reported for kernels above this weight


def learn_average(
    method: Approximate | Sampling,
    chosen: Sequence[Candidate],
    models: Sequence[Model],
    data: Data,
    seed: int,
    progress: Report | None,
    own_starts: bool = False,
) -> Learned:
    """Fit all kernels and average them; sites and evidences belong to the kernel with the largest weight.

    With `own_starts` the method chooses the starting lengthscales.
    """
    if not isinstance(method, Approximate) or not isinstance(method.learner, Nested):
        raise ValueError("Kernels are averaged by their evidence: use method='hybrid', 'ep', 'vi' or 'laplace'.")
    given = method.integrate
    method = dataclasses.replace(method, integrate=given or "coarse")
    fits: list[tuple[Fit, float]] = []
    kept, unfit = [], []
    for k, (one, model) in enumerate(zip(chosen, models, strict=True)):
        part = None if progress is None else functools.partial(_report_progress, progress, one.name, k, len(models))
        try:
            sites = None
            carried = _carried(model, [fit for fit, _ in fits])
            if carried is not None:
                model, sites = carried
            elif own_starts:
                model, sites = method.start(model, data)
            fit = dataclasses.replace(method, weak=one.weak).fit(model, data, seed, part, sites)
            value = laplace_evidence(fit)
        except ValueError as problem:
            unfit.append((one.name, str(problem)))
            continue
        fits.append((fit, value))
        kept.append(one)
    if not fits:
        raise ValueError(f"No kernel could be fitted. {unfit[0][0]}: {unfit[0][1]}")
    best = max(value for _, value in fits)
    found: list[Integrated | None] = []
    for (fit, value), one in zip(fits, kept, strict=True):
        if value < best - MAX_EVIDENCE_GAP:
            found.append(None)
            continue
        try:
            found.append(integrate(fit, given or _design(fit), method.learner.final_inference(fit.model)))
        except ValueError as problem:
            unfit.append((one.name, str(problem)))
            found.append(None)
    logs = np.array([-np.inf if one is None else one.log_evidence for one in found])
    if not np.isfinite(logs).any():
        raise ValueError(f"No kernel could be integrated over its hyperparameters. {unfit[0][0]}: {unfit[0][1]}")
    share = np.exp(EVIDENCE_POWER * (logs - np.max(logs)))
    share /= np.sum(share)
    top = int(np.argmax(share))
    fit = fits[top][0]
    parts = [(float(share[k]), one) for k, one in enumerate(found) if one is not None]
    latent = IntegratedLatent.at_nodes(Latent.of_fit(fit), fit.data, parts)
    weights = {one.name: float(w) for one, w in zip(kept, share, strict=True)}
    doubts = [problem for w, one in parts if w > MIN_REPORTED_WEIGHT for problem in one.problems]
    doubts += [f"The kernel {name!r} was left out: {why}" for name, why in unfit]
    outcome = fit.solution.outcome
    report: Callable[[], str] = functools.partial(_text, functools.partial(fit.report, "estimator"), weights, parts)
    return Learned(
        latent, fit.rounds, fit.converged, fit.reason if outcome.ok else outcome.advice_for("estimator"), report,
        fit.at_bound, " ".join(dict.fromkeys(doubts)), weights,
    )  # fmt: skip


def _design(fit: Fit) -> str:
    """Return the design for one of several kernels: a star, whose nodes are few, unless a grid is as cheap."""
    return "coarse" if len(fit.quick_curvature.vector) <= MAX_GRID_PARAMETERS else "star"


def _carried(model: Model, fits: Sequence[Fit]) -> tuple[Model, Sites | None] | None:
    """Return the model with the hyperparameters and sites of an earlier fit, if only the spread of its kernel differs.

    Lengthscales ℓ exp(τ z) stay as they are if z is multiplied by the ratio of the spreads τ.
    """
    kernel = model.prior.kernel
    if not isinstance(kernel, Shrunk):
        return None
    for fit in fits:
        old = fit.model.prior.kernel
        if isinstance(old, Shrunk) and same_form(fit.model, model) and fit.converged and not fit.at_bound:
            deviations = np.asarray(old.deviations) * (old.spread / kernel.spread)
            moved = replace(fit.model, prior=replace(fit.model.prior, kernel=replace(
                kernel, base=old.base, deviations=deviations)))  # fmt: skip
            few = fit.learned_from is None and fit.data.rows <= MAX_START_ROWS
            return moved, fit.sites if few and model.prior.exact else None
    return None


def _report_progress(progress: Report, name: str, k: int, of: int, doing: str, share: float) -> None:
    progress(f"{name}: {doing}", (k + share) / of)


def _text(report: Callable[[], str], weights: dict[str, float], parts: Sequence[tuple[float, object]]) -> str:
    order = sorted(weights, key=lambda name: -weights[name])
    lines = [
        f"Kernels averaged with weights proportional to evidence^{EVIDENCE_POWER:g}: "
        + ", ".join(f"{name} {weights[name]:.0%}" for name in order)
        + "."
    ]
    best = max(parts, key=lambda part: part[0])[1]
    return "\n".join([report(), *lines, str(best)])
