"""Several kernels, averaged by their evidence with the hyperparameters integrated out.

    p(f | y) = Σ_k w_k ∫ p(f | y, θ, k) p(θ | y, k) dθ,     w_k ∝ [∫ p(y | θ, k) p(θ | k) dθ]^trust

with the evidence of the fit's own pair inside, and nodes around each optimum (`learning.integration`).  With trust = 1
these are the probabilities of the kernels if one of them is true.  None is, and then a few nats give nearly all weight
to one of several that predict as well; a quarter of the difference in nats still gives no weight to one that does not
(results/default-kernel).  A kernel whose evidence by Laplace's method is far below the best is not integrated.
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

_TRUST = 0.25
_FAR = 25.0  # nats below the best, beyond which a kernel has no weight
_COUNTS = 0.1  # the weight from which on doubts about a kernel's integral are told


def learn_average(
    method: Approximate | Sampling,
    chosen: Sequence[Candidate],
    models: Sequence[Model],
    data: Data,
    seed: int,
    progress: Report | None,
) -> Learned:
    """One latent function with the nodes of all kernels; its sites and evidences are those of the likeliest kernel."""
    if not isinstance(method, Approximate) or not isinstance(method.learner, Nested):
        raise ValueError("Kernels are averaged by their evidence: use method='hybrid', 'ep', 'vi' or 'laplace'.")
    method = dataclasses.replace(method, integrate=method.integrate or "auto")
    fits, kept, unfit = [], [], []
    for k, (one, model) in enumerate(zip(chosen, models, strict=True)):
        part = None if progress is None else functools.partial(_report, progress, one.name, k, len(models))
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
        if value < best - _FAR:
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
    share = np.exp(_TRUST * (logs - np.max(logs)))
    share /= np.sum(share)
    top = int(np.argmax(share))
    fit = fits[top][0]
    parts = [(float(share[k]), one) for k, one in enumerate(found) if one is not None]
    latent = IntegratedLatent.at_nodes(Latent.of_fit(fit), fit.data, parts)
    weights = {one.name: float(w) for one, w in zip(kept, share, strict=True)}
    doubts = [problem for w, one in parts if w > _COUNTS for problem in one.problems]
    doubts += [f"The kernel {name!r} was left out: {why}" for name, why in unfit]
    outcome = fit.solution.outcome
    report: Callable[[], str] = functools.partial(_words, functools.partial(fit.report, "estimator"), weights, parts)
    return Learned(
        latent, fit.rounds, fit.converged, fit.reason if outcome.ok else outcome.advice_for("estimator"), report,
        fit.at_bound, " ".join(dict.fromkeys(doubts)), weights,
    )  # fmt: skip


def _report(progress: Report, name: str, k: int, of: int, doing: str, share: float) -> None:
    progress(f"{name}: {doing}", (k + share) / of)


def _words(report: Callable[[], str], weights: dict[str, float], parts: Sequence[tuple[float, object]]) -> str:
    order = sorted(weights, key=lambda name: -weights[name])
    lines = ["Kernels averaged by their evidence: " + ", ".join(f"{name} {weights[name]:.0%}" for name in order) + "."]
    best = max(parts, key=lambda part: part[0])[1]
    return "\n".join([report(), *lines, str(best)])
