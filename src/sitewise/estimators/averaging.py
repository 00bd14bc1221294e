"""Model averaging over kernels, weighted by evidence^0.25, the evidence with the hyperparameters integrated out.

    p(f | y) = Σ_k w_k ∫ p(f | y, θ, k) p(θ | y, k) dθ,     w_k ∝ [∫ p(y | θ, k) p(θ | k) dθ]^τ

with the evidence of the method's own pair, and nodes around each optimum (`learning.integration`).  With τ = 1 the
weights are the probabilities of the kernels if one of them is true.  No kernel is true, and a few nats then give nearly
all weight to one of several kernels that predict equally well.  τ = ¼ avoids this and still gives no weight to a kernel
that predicts badly (results/default-kernel).  A kernel whose Laplace evidence is far below the best is not integrated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from sitewise.data import Data
from sitewise.estimators.candidates import Candidate
from sitewise.estimators.training import Approximate, Learned, Sampling
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent
from sitewise.learning.integration import Integrated, integrate, laplace_evidence
from sitewise.learning.nested import Nested
from sitewise.model import Model
from sitewise.process.progress import Report

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
) -> Learned:
    """Fit all kernels and average them; sites and evidences belong to the kernel with the largest weight."""
    if not isinstance(method, Approximate) or not isinstance(method.learner, Nested):
        raise ValueError("Kernels are averaged by their evidence: use method='hybrid', 'ep', 'vi' or 'laplace'.")
    method = dataclasses.replace(method, integrate=method.integrate or "coarse")
    fits, kept, unfit = [], [], []
    for k, (one, model) in enumerate(zip(chosen, models, strict=True)):
        part = None if progress is None else functools.partial(_report_progress, progress, one.name, k, len(models))
        try:
            fit = dataclasses.replace(method, weak=one.weak).fit(model, data, seed, part)
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
            found.append(integrate(fit, str(method.integrate), method.learner.final_inference(fit.model)))
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
