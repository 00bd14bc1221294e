"""Fuzz cases of the Markov prior: its numbers must equal those of the full GP, also after rows are appended.

If the two priors differ by more than rounding explains, arithmetic with 50 digits decides: the Markov prior must be
right.  (At nearly equal times the covariance matrix of a full GP has lost its digits.)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import mpmath
import numpy as np

from fuzzing.cases import LIKELIHOODS, METHODS
from fuzzing.draws import observations, weights
from fuzzing.inference import need
from fuzzing.models import likelihood
from sitewise import Data, Model, Sites, evidence, kernels, means, posterior, value_and_grad
from sitewise.inference import Inference
from sitewise.learning.running import Running
from sitewise.parameters import values
from sitewise.process.precision import working_precision

AGREE = 1e-6
ROUNDING = 50.0  # times the estimate of the rounding error, where that is more
KERNELS = ("matern12", "matern32", "matern52", "sum", "oscillation")
READ = {name: evidence.ALL[name] for name in ("ep", "elbo")}


@dataclasses.dataclass(frozen=True)
class Case:
    seed: int
    kernel: str
    likelihood: str
    method: str
    model: Model
    full: Model
    data: Data
    new: np.ndarray
    tags: tuple[str, ...]


def kernel(name: str, scale: float, variance: float) -> kernels.Kernel:
    kinds = {"matern12": kernels.Matern12, "matern32": kernels.Matern32, "matern52": kernels.Matern52}
    if name == "sum":
        return kernels.Matern32(scale, variance) + kernels.Constant(0.5 * variance)
    if name == "oscillation":
        return kernels.Cosine(2.3 * scale) * kernels.Matern52(scale, variance)
    return kinds[name](scale, variance)


def drawn(seed: int) -> Case:
    """Every likelihood meets every method; times are random, equal, nearly equal or far apart, in any order."""
    rng = np.random.default_rng([29, seed])
    pairs = [(p, m) for p in LIKELIHOODS for m in METHODS if not (p == "laplace-noise" and m == "laplace")]
    name, method = pairs[seed % len(pairs)]
    rows = int(rng.integers(1, 40))
    scale = float(np.exp(rng.uniform(-2, 2)))
    steps, tags = rng.gamma(1.0, scale / rng.choice([1.0, 8.0, 50.0]), rows), []
    for tag, factor in (("nearly equal", 1e-9), ("equal", 0.0), ("far apart", 1e6)):
        if rng.random() < 0.25:
            steps[rng.random(rows) < 0.3] *= factor
            tags.append(tag)
    X = rng.permutation(np.cumsum(steps))[:, None]
    y, more = observations(name, rng, X)
    weight = weights(str(rng.choice(["one", "counts", "fractions"], p=[0.6, 0.25, 0.15])), rng, rows)
    theta = {"noise": float(np.exp(rng.uniform(-2, 2)))}
    shape = str(rng.choice(KERNELS))
    parts = kernel(shape, scale, float(np.exp(2 * rng.uniform(-2, 2)))), likelihood(name, theta)
    mean = means.Constant(float(rng.normal())) if rng.random() < 0.3 else None
    new = rng.choice(X[:, 0], 3) + scale * rng.normal(size=3)
    return Case(
        seed, shape, name, method, Model.markov(*parts, mean), Model.full(*parts, mean), Data.of(X, y, weight),
        new[:, None], (*tags, *more),
    )  # fmt: skip


def check(case: Case) -> dict[str, Any]:
    """One row of the results; `Broken` where a law does not hold."""
    row: dict[str, Any] = {
        "seed": case.seed, "kernel": case.kernel, "likelihood": case.likelihood, "method": case.method,
        "rows": case.data.rows, "tags": list(case.tags), "decided": False,
    }  # fmt: skip
    method = METHODS[case.method]
    with working_precision():
        try:
            solution = method.solve(case.model, case.data)
        except ValueError as problem:
            return {**row, "status": "refused", "words": str(problem)[:200]}
        if not solution.outcome.settled:
            return {**row, "status": "flagged", "words": solution.outcome.name}
        row |= _algebra(case, solution.sites)
        if not row["decided"]:
            _gradients(case, method, row)
        _goes_on(case, method, solution.sites, row)
    return {**row, "status": "converged"}


def _algebra(case: Case, sites: Sites) -> dict[str, Any]:
    """At the same sites: marginals, evidences, predictions."""
    weighted = sites.scaled(case.data.weight)
    chain, dense = (model.prior.gram(case.data.X) for model in (case.model, case.full))
    (q, factor), (p, other) = (gram.condition_with_factor(weighted, case.data.mask) for gram in (chain, dense))
    slack = max(AGREE, ROUNDING * float(chain.rounding_error(weighted, q, factor)),
                ROUNDING * float(dense.rounding_error(weighted, p, other)))  # fmt: skip
    counts = np.asarray(case.data.weight) > 0
    gap = _apart(q, p, counts)
    if gap <= slack:
        for name, read in READ.items():
            one, two = (float(read(model, case.data, sites)) for model in (case.model, case.full))
            same = one == two or (np.isnan(one) and np.isnan(two)) or abs(one - two) <= 10 * slack * (1 + abs(two))
            need(same, f"{name} is {one!r} by the chain and {two!r} by the full GP")
        found = [posterior(model, case.data, sites).f(case.new) for model in (case.model, case.full)]
        sd, prior_var = np.sqrt(np.asarray(found[1][1])), np.asarray(case.full.prior.kernel.diag(case.new))
        need(np.abs(found[0][0] - found[1][0]) <= 10 * slack * (sd + np.abs(found[1][0])), "predicted means differ")
        need(np.abs(found[0][1] - found[1][1]) <= 10 * slack * prior_var, "predicted variances differ")
        return {"gap": gap, "decided": False}
    exact = _apart(q, _by_digits(case, weighted), counts)
    need(exact <= slack, f"marginals are wrong by {exact:.1e}, and the full GP's differ by {gap:.1e}")
    return {"gap": gap, "exact": exact, "decided": True}


def _apart(q: Any, p: Any, counts: np.ndarray) -> float:
    """Means in standard deviations (or as a share, where that is less), variances as a share."""
    var = np.asarray(p.var)[counts]
    means = np.abs(q.mean - p.mean)[counts] / (np.sqrt(var) + np.abs(p.mean)[counts])
    return float(max(np.max(means), np.max(np.abs(q.var[counts] / var - 1))))


@dataclasses.dataclass(frozen=True)
class Exact:
    mean: np.ndarray
    var: np.ndarray


def _by_digits(case: Case, weighted: Sites) -> Exact:
    """(K⁻¹ + W)⁻¹ = K − K (W⁻¹ + K)⁻¹ K as K (I + W K)⁻¹, with 50 digits."""
    mu = np.broadcast_to(np.asarray(case.model.prior.mean.at(case.data.X)), (case.data.rows,))
    with mpmath.workdps(50):
        time = [mpmath.mpf(float(t)) for t in case.data.X[:, 0]]
        K = mpmath.matrix([[covariance(case.model.prior.kernel, s - t) for t in time] for s in time])
        W = mpmath.diag([mpmath.mpf(float(w)) for w in weighted.prec])
        b = mpmath.matrix([mpmath.mpf(float(a)) for a in weighted.nat1]) - W * mpmath.matrix([float(m) for m in mu])
        cov = K * (mpmath.eye(len(time)) + W * K) ** -1
        mean = cov * b
        return Exact(mu + np.array([float(a) for a in mean]), np.array([float(cov[i, i]) for i in range(len(time))]))


def covariance(of: Any, apart: Any) -> Any:
    """A kernel of `KERNELS` in the precision of mpmath."""
    if isinstance(of, kernels.Sum | kernels.Product):
        parts = [covariance(part, apart) for part in of.parts]
        return mpmath.fsum(parts) if isinstance(of, kernels.Sum) else mpmath.fprod(parts)
    variance = mpmath.mpf(float(of.variance))
    if isinstance(of, kernels.Constant):
        return variance
    if isinstance(of, kernels.Cosine):
        return variance * mpmath.cos(2 * mpmath.pi * apart / mpmath.mpf(float(of.period)))
    order = {kernels.Matern12: 1, kernels.Matern32: 3, kernels.Matern52: 5}[type(of)]
    r = mpmath.sqrt(order) * abs(apart) / mpmath.mpf(float(of.lengthscale))
    return variance * {1: 1, 3: 1 + r, 5: 1 + r + r**2 / 3}[order] * mpmath.exp(-r)


def _gradients(case: Case, method: Inference, row: dict[str, Any]) -> None:
    """Value and exact gradient of EP's evidence by both, where the full GP's inference converges to the same sites."""
    both = value_and_grad(dataclasses.replace(method, tol=1e-10), evidence.ep, has_aux=True)
    ((one, s), slopes), ((two, t), others) = (both(model, case.data) for model in (case.model, case.full))
    if not (s.outcome.settled and t.outcome.settled and np.isfinite(float(one)) and np.isfinite(float(two))):
        return
    if abs(float(one) - float(two)) > 1e-6 * (1 + abs(float(two))):
        row["gradient"] = "other sites"
        return
    flat = [np.concatenate([np.ravel(a) for a in values(model).values()]) for model in (slopes, others)]
    size = 1 + np.max(np.abs(flat[1]))
    row["gradient"] = float(np.max(np.abs(flat[0] - flat[1])) / size)
    need(row["gradient"] <= 1e-4, f"gradients differ by {row['gradient']:.1e}")


def _goes_on(case: Case, method: Inference, sites: Sites, row: dict[str, Any]) -> None:
    """The last rows in time, appended to the others, give the sites of all."""
    time = np.asarray(case.data.X)[:, 0]
    cut = np.quantile(time, 0.7)
    first, last = time <= cut, time > cut
    weight = np.asarray(case.data.weight)
    if not (np.any(weight[first] > 0) and np.any(weight[last] > 0)):
        return
    parts = [Data.of(case.data.X[rows], case.data.y[rows], weight[rows]) for rows in (first, last)]
    run = Running.of(method, case.model, parts[0])
    if not run.outcome.settled:
        return
    run = run.append(parts[1])
    if not run.outcome.settled:
        return
    q = posterior(case.model, case.data, sites)
    (mean, var), (other, spread) = run.posterior.f(case.data.X), q.f(case.data.X)
    row["goes_on"] = float(max(np.max(np.abs(mean - other) / np.sqrt(spread)), np.max(np.abs(var / spread - 1))))
    if case.model.likelihood.log_concave:  # otherwise there may be several fixed points
        need(row["goes_on"] <= 1e-5, f"the series that goes on differs by {row['goes_on']:.1e} standard deviations")
