"""Model averaging over kernels, weighted by a power of their evidence (kernel="average").

    p(f | y) = Σ_k w_k p(f | y, θ_k, k),     w_k ∝ [∫ p(y | θ, k) p(θ | k) dθ]^τ

with the evidence of the method's own pair, integrated over θ by a Gaussian at the optimum θ_k (Laplace).  Predictions
are made with θ_k, or with nodes around θ_k if the user asks for it (`learning.integration`): several kernels have most
of the uncertainty that nodes would add (results/average).  With τ = 1 the weights are the probabilities of the kernels
if one of them is true.  No kernel is true, and a few nats then give nearly all weight to one of several kernels that
predict equally well.  τ = ¼ avoids this and still gives no weight to a kernel that predicts badly.

Many rows have a coarse stage: all kernels are fitted to a subset, and a kernel whose evidence is far below the best is
not fitted to all rows.  The other fits start from their hyperparameters of the subset.  The gap is not extrapolated to
all rows: a kernel of many effects may need more rows than the subset has (monks-2).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sitewise.arrays.engine import on_host
from sitewise.data import Data
from sitewise.estimators.candidates import Candidate
from sitewise.estimators.training import Approximate, Learned, Sampling, removes_part
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent
from sitewise.learning.fit import Fit
from sitewise.learning.hessian import prior_curvature
from sitewise.learning.integration import MAX_SD, Integrated, integrate
from sitewise.learning.nested import Nested
from sitewise.learning.subset import sampled
from sitewise.model import Model
from sitewise.numerics.dense.cholesky import cholesky
from sitewise.parameters import values, with_values
from sitewise.process import memory
from sitewise.process.precision import working_precision
from sitewise.process.progress import Report
from sitewise.process.threads import all_of
from sitewise.supports import Positive

EVIDENCE_POWER = 0.25  # τ
MIN_PRUNED_ROWS, COARSE_ROWS = 450, 250  # rows from which there is a coarse stage, and its rows
COARSE_SHARE = 0.3  # of the time
MIN_THREADED_ROWS = 400  # times latent functions, from which kernels are fitted in several threads
MAX_EVIDENCE_GAP, MAX_COARSE_GAP = 15.0, 25.0  # nats below the best kernel; kernels further below get no weight
PRIOR_SHARE = 4.0  # curvature of log π divided by that of the prior of a shared hyperparameter, where it is not known


class _Fitted(NamedTuple):
    """A fitted kernel with its evidence in nats, hyperparameters integrated out."""

    candidate: Candidate
    fit: Fit
    evidence: float


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
    design = None if method.automatic else method.integrate
    own = dataclasses.replace(method, integrate=method.integrate or "star")  # so that θ has weak priors
    starts, pruned = list(zip(chosen, models, strict=True)), ""
    volumes: Mapping[str, float] = {}
    if own_starts and data.rows >= MIN_PRUNED_ROWS and len(starts) > 1:
        starts, volumes, pruned = _kept_by_coarse_stage(own, starts, data, seed, _within(progress, 0.0, COARSE_SHARE))
        progress = _within(progress, COARSE_SHARE, 1.0)
    found, problems = _fits(own, starts, data, seed, progress, own_starts and not volumes, volumes)
    logs = np.array([one.evidence for one in found])
    if not np.isfinite(logs).any():
        raise ValueError("No kernel has a finite evidence; use a prior or bounds, or give one kernel.")
    share = _shares(logs)
    parts, integrals = [], {}
    final = method.learner.final_inference
    for one, weight in zip(found, share, strict=True):
        if weight == 0:
            continue
        try:
            integral = None if design is None else integrate(one.fit, design, final(one.fit.model))
        except ValueError as problem:
            problems.append(f"The kernel {one.candidate.name!r} is not integrated: {problem}")
            integral = None
        if integral is not None:
            integrals[one.candidate.name] = integral
            parts += [(weight * w, latent) for w, latent in IntegratedLatent.nodes(one.fit.data, integral)]
        else:
            parts.append((weight, Latent.of_fit(one.fit)))
    top = int(np.argmax(share))
    fit = found[top].fit
    main = Latent.of_fit(fit)
    latent = main if len(parts) == 1 else IntegratedLatent.of_parts(main, parts)
    weights = {one.candidate.name: float(w) for one, w in zip(found, share, strict=True)}
    doubts = [problem for integral in integrals.values() for problem in integral.problems]
    outcome = fit.solution.outcome
    report = functools.partial(
        _text, functools.partial(fit.report, "estimator"), weights, pruned, integrals, tuple(problems)
    )
    at_bound = tuple(label for label in fit.at_bound if not removes_part(label, fit))
    return Learned(
        latent, fit.rounds, fit.converged, fit.reason if outcome.ok else outcome.advice_for("estimator"), report,
        at_bound, " ".join(dict.fromkeys(doubts)), weights,
    )  # fmt: skip


def _shares(logs: np.ndarray) -> np.ndarray:
    """Return weights proportional to evidence^τ; 0 for a kernel far below the best."""
    below = np.where(np.isfinite(logs), np.nanmax(logs[np.isfinite(logs)]) - logs, np.inf)
    share = np.where(below <= MAX_EVIDENCE_GAP, np.exp(-EVIDENCE_POWER * np.minimum(below, 1e3)), 0.0)
    return np.asarray(share / np.sum(share))


def _kept_by_coarse_stage(
    method: Approximate, starts: list[tuple[Candidate, Model]], data: Data, seed: int, progress: Report | None
) -> tuple[list[tuple[Candidate, Model]], dict[str, float], str]:
    """Fit all kernels to a subset; return the kernels to fit to all rows, their volumes, and sentences for the report.

    The volume is log ∫ π dθ minus the largest log π.  The volume of the subset is also used for all rows, which favours
    kernels with many hyperparameters: their volumes fall faster as rows are added.
    """
    some = sampled(data, COARSE_ROWS, seed)
    found, problems = _fits(method, starts, some, seed, progress, True)
    best = max((one.evidence for one in found if np.isfinite(one.evidence)), default=None)
    if best is None:
        return starts, {}, ""
    kept = [one for one in found if one.evidence >= best - MAX_COARSE_GAP]
    left = [one.candidate.name for one in found if one not in kept]
    names = {one.candidate.name: one for one in kept}
    again = [
        (candidate, with_values(model, values(names[candidate.name].fit.model)))
        for candidate, model in starts
        if candidate.name in names
    ]
    volumes = {name: one.evidence - one.fit.objective for name, one in names.items()}
    words = f"After a coarse stage on {some.rows} rows, not fitted to all rows: {', '.join(left)}." if left else ""
    return again, volumes, " ".join([*filter(None, [words]), *problems])


def _fits(
    method: Approximate,
    starts: Sequence[tuple[Candidate, Model]],
    data: Data,
    seed: int,
    progress: Report | None,
    own_starts: bool,
    volumes: Mapping[str, float] | None = None,
) -> tuple[list[_Fitted], list[str]]:
    """Fit every kernel; return the fits with their evidences, and a sentence per kernel that could not be fitted.

    The fits of many rows run in several threads if they are allowed (`process.threads`).  If no kernel could be fitted,
    the cause is not a kernel: the first error is raised as it is.
    """

    def fitted(start: tuple[Candidate, Model], tell: Report | None) -> _Fitted | ValueError:
        one, model = start
        own = dataclasses.replace(method, weak=one.weak)
        try:
            model, sites = own.start(model, data) if own_starts else (model, None)
            fit = own.fit(model, data, seed, tell, sites)
            volume = (volumes or {}).get(one.name)
            return _Fitted(one, fit, _evidence(fit) if volume is None else fit.objective + volume)
        except ValueError as problem:
            return problem

    report = None if progress is None else _Progress(progress, [one.name for one, _ in starts])
    with working_precision():
        ends = all_of(fitted, starts, report, _most_threads(starts, data))
    found = [end for end in ends if isinstance(end, _Fitted)]
    problems = [(one.name, end) for (one, _), end in zip(starts, ends, strict=True) if isinstance(end, ValueError)]
    if problems and not found:
        raise problems[0][1]
    return found, [f"The kernel {name!r} was left out: {problem}" for name, problem in problems]


def _most_threads(starts: Sequence[tuple[Candidate, Model]], data: Data) -> int:
    """Return how many kernels may be fitted at the same time: 1, or for many rows as many as the memory allows."""
    models = [model for _, model in starts]
    latents = max(model.likelihood.latents for model in models)
    on_matrices = all(model.prior.dense and on_host(model, data) for model in models)
    return memory.full_fits(data.rows, latents) if on_matrices and data.rows * latents >= MIN_THREADED_ROWS else 1


def _evidence(fit: Fit) -> float:
    """Return log ∫ π dθ by a Gaussian at the optimum.

    The Hessian is the one of the search; its error changes the weights by less than a tenth.  Without it, as for joint
    classes, the curvature of the prior is taken, PRIOR_SHARE times as large where θ is positive.
    """
    assert fit.problem is not None
    if fit.search_end is not None:
        log_det = 2 * float(np.sum(np.log(np.diagonal(cholesky(np.array(fit.search_end.covariance))))))
    else:
        trainable = fit.problem.trainable
        known = prior_curvature(fit.problem, np.asarray(trainable.to_vector(fit.model)))
        sharper = np.concatenate([
            np.full(p.raw_size, PRIOR_SHARE if isinstance(p.support, Positive) else 1.0) for p in trainable.parameters
        ])  # fmt: skip
        log_det = -float(np.sum(np.log(np.maximum(known * sharper, MAX_SD**-2))))
    return fit.objective + 0.5 * log_det + 0.5 * fit.problem.trainable.size * float(np.log(2 * np.pi))


def _within(progress: Report | None, start: float, end: float) -> Report | None:
    """Return a progress function for the part of the fit between two shares of its time."""
    return progress and (lambda doing, share: progress(doing, start + (end - start) * share))


class _Progress:
    """The progress of several fits: the mean of their shares, and what the fit that reports is doing."""

    def __init__(self, progress: Report, names: Sequence[str]) -> None:
        self._progress, self._names, self._shares = progress, names, [0.0] * len(names)

    def __call__(self, k: int, doing: str, share: float) -> None:
        self._shares[k] = share
        self._progress(f"{self._names[k]}: {doing}", float(np.mean(self._shares)))


def _text(
    report: Callable[[], str],
    weights: Mapping[str, float],
    pruned: str,
    integrals: Mapping[str, Integrated],
    problems: Sequence[str],
) -> str:
    order = sorted(weights, key=lambda name: -weights[name])
    averaged = f"Kernels averaged with weights proportional to evidence^{EVIDENCE_POWER:g}: "
    averaged += ", ".join(f"{name} {weights[name]:.0%}" for name in order) + "."
    lines = [f"{name}: {integral}" for name, integral in integrals.items()]
    return "\n".join([report(), averaged, *filter(None, [pruned]), *lines, *problems])
