"""Fuzz cases of sums of parts: a sparse precision must give the numbers of dense algebra with the same covariance.

The reference of every case is the dense covariance matrix of the rows: the sum of the kernels of the parts, with the
matrix of Vecchia's conditional distributions for a map that has fewer neighbours than places.  Where all parts are
exact, joint predictions are compared too.  Every second case compares the gradient with differences.  If the sparse
and the dense marginals differ by more than rounding explains, arithmetic with 50 digits decides: the sparse precision
must be right.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from fuzzing.cases import LIKELIHOODS, METHODS
from fuzzing.draws import observations, weights
from fuzzing.inference import need
from fuzzing.models import likelihood
from fuzzing.part_draws import COLUMNS, rows_of, some_parts
from sitewise import Data, Model, Sites, evidence, kernels, means, parts, posterior, value_and_grad
from sitewise.arrays.engine import to_host
from sitewise.inference import Inference
from sitewise.parameters import values, with_values
from sitewise.process.precision import working_precision

AGREE = 1e-6
ROUNDING = 50.0  # times the estimate of the rounding error, where that is more
JITTER = 1e-10  # of maps and series, as a share of the variance; it is part of their definition
STEPS = 1e-2, 3e-4  # of log θ for differences, each extrapolated from two; the second where evidence is very curved
LOST_IN_DIFFERENCES = 5.0  # errors of a value: four values, and an error that is only estimated
MEASURED_GRADIENT = 1e-4  # largest difference of gradients, as a share of the largest entry


@dataclasses.dataclass(frozen=True)
class Case:
    seed: int
    likelihood: str
    method: str
    model: Model
    data: Data
    new: np.ndarray
    tags: tuple[str, ...]

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.model.prior.parts

    @property
    def exact(self) -> bool:
        """Whether the prior is the full GP."""
        return all(part.exact_for(self.data.rows) for part in self.parts)


def drawn(seed: int) -> Case:
    """Every likelihood meets every method; parts, rows and awkward columns are random."""
    rng = np.random.default_rng([39, seed])
    pairs = [(p, m) for p in LIKELIHOODS for m in METHODS if not (p == "laplace-noise" and m == "laplace")]
    name, method = pairs[seed % len(pairs)]
    X, tags = rows_of(rng)
    y, more = observations(name, rng, X)
    weight = weights(str(rng.choice(["one", "counts", "fractions"], p=[0.6, 0.25, 0.15])), rng, len(X))
    theta = {"noise": float(np.exp(rng.uniform(-2, 2)))}
    mean = means.Constant(float(rng.normal())) if rng.random() < 0.3 else None
    model = Model.latent(some_parts(rng, X), likelihood(name, theta), mean)
    new = X[rng.integers(0, len(X), 4)].copy()
    new[1:, COLUMNS["place"]] *= 1 + 0.3 * rng.normal(size=(3, 2))
    new[2, COLUMNS["group"]], new[3, COLUMNS["time"]] = 77.0, X[:, COLUMNS["time"]].max() + 1.0
    return Case(seed, name, method, model, Data.of(X, y, weight), new, (*tags, *more))


def check(case: Case) -> dict[str, Any]:
    """One row of the results; `Broken` where a law does not hold."""
    row: dict[str, Any] = {
        "seed": case.seed, "parts": [type(part).__name__ for part in case.parts], "likelihood": case.likelihood,
        "method": case.method, "rows": case.data.rows, "tags": list(case.tags), "exact": case.exact, "decided": False,
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
        _predictions(case, solution.sites)
        if case.seed % 2:
            _gradients(case, method, row)
    return {**row, "status": "converged"}


def _algebra(case: Case, sites: Sites) -> dict[str, Any]:
    """At the same sites: marginals and log Z, and predictions where the prior is the full GP."""
    model, data = to_host((case.model, case.data))
    weighted = sites.scaled(data.weight)
    gram = model.prior.gram(data.X)
    q, factor = gram.condition_with_factor(weighted, data.mask)
    K = sum(covariance(part, part.active_columns(data.X)) for part in model.prior.parts)
    mu = np.broadcast_to(np.asarray(model.prior.mean.at(data.X)), data.rows)
    mean, var, log_z, lost = dense(K, mu, weighted)
    load = float(np.max(np.abs(weighted.prec) * np.diag(K), initial=0.0))
    slack = max(
        AGREE, ROUNDING * float(gram.rounding_error(weighted, q, factor)), ROUNDING * lost,
        ROUNDING * JITTER * data.rows * load,
    )  # fmt: skip
    counts = np.asarray(data.weight) > 0
    gap = _apart(q, mean, var, counts)
    if gap <= slack:
        need(abs(float(q.log_z) - log_z) <= 10 * slack * (1 + abs(log_z)), f"log Z is {q.log_z!r}, dense {log_z!r}")
        if case.exact:
            _dense_predictions(case, model, K, mu, sites, weighted, slack)
        return {"gap": gap, "slack": slack, "decided": False}
    exact = _apart(q, *by_digits(K, mu, weighted), counts)
    need(exact <= slack, f"marginals are wrong by {exact:.1e}, dense algebra differs by {gap:.1e}, slack {slack:.1e}")
    return {"gap": gap, "slack": slack, "digits": exact, "decided": True}


def covariance(part: Any, A: np.ndarray) -> np.ndarray:
    """The covariance of the rows by the definition of the part, without its precision."""
    if isinstance(part, parts.Product):
        one, other = (covariance(each, each.active_columns(A)) for each in part.parts)
        return one * other
    if not isinstance(part, parts.Map) or part.exact_for(len(A)):
        return np.asarray(part.pairs(A, A))
    layout: Any = part.layout(A)
    K = np.asarray(part.kernel.matrix(layout.positions))
    K[np.diag_indices(len(K))] *= 1 + JITTER
    cov = np.zeros_like(K)
    for i, near in enumerate(layout.near):
        n = near[near >= 0]
        a = np.linalg.solve(K[np.ix_(n, n)], K[n, i])
        cov[i, :i] = cov[:i, i] = a @ cov[n, :i]
        cov[i, i] = K[i, i] - K[i, n] @ a + a @ cov[np.ix_(n, n)] @ a
    place = layout.index[:, 0]
    return cov[np.ix_(place, place)]


def dense(K: np.ndarray, mu: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Mean and variance of f given sites, log Z, and an estimate of the relative rounding error: S = K (I + W K)⁻¹."""
    w, b = np.asarray(sites.prec), np.asarray(sites.nat1)
    B = np.eye(len(K)) + w[:, None] * K
    S = np.linalg.solve(B.T, K).T
    r = b - w * mu
    log_z = -0.5 * np.linalg.slogdet(B)[1] + 0.5 * r @ S @ r + mu @ (b - 0.5 * w * mu)
    return mu + S @ r, np.diag(S), float(log_z), float(np.finfo(float).eps * np.linalg.cond(B))


def by_digits(K: np.ndarray, mu: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance as in `dense`, with 50 digits of a matrix K that has the usual sixteen."""
    import mpmath

    n = len(K)
    with mpmath.workdps(50):
        k = mpmath.matrix(K.tolist())
        w = mpmath.diag([mpmath.mpf(float(a)) for a in sites.prec])
        S = k * (mpmath.eye(n) + w * k) ** -1
        b = mpmath.matrix([mpmath.mpf(float(a)) for a in sites.nat1]) - w * mpmath.matrix([float(m) for m in mu])
        mean = S * b
        return mu + np.array([float(a) for a in mean]), np.array([float(S[i, i]) for i in range(n)])


def _rounding(case: Case, sites: Sites) -> float:
    model, data = to_host((case.model, case.data))
    weighted = sites.scaled(data.weight)
    gram = model.prior.gram(data.X)
    return float(gram.rounding_error(weighted, *gram.condition_with_factor(weighted, data.mask)))


def _apart(q: Any, mean: np.ndarray, var: np.ndarray, counts: np.ndarray) -> float:
    """Means in standard deviations (or as a share, where that is less), variances as a share."""
    size = np.sqrt(np.abs(var)) + np.abs(mean)
    means_apart = np.abs(np.asarray(q.mean) - mean)[counts] / size[counts]
    return float(max(np.max(means_apart), np.max(np.abs(np.asarray(q.var) / var - 1)[counts])))


def _dense_predictions(
    case: Case, model: Model, K: np.ndarray, mu: np.ndarray, sites: Sites, weighted: Sites, slack: float
) -> None:
    """Joint predictions of new rows, by the covariances of the parts."""
    each = [(part, part.active_columns(case.data.X), part.active_columns(case.new)) for part in model.prior.parts]
    cross = sum(np.asarray(part.pairs(new, old)) for part, old, new in each)
    own = sum(np.asarray(part.pairs(new, new)) for part, _, new in each)
    w = np.asarray(weighted.prec)
    M = np.linalg.inv(np.eye(len(K)) + w[:, None] * K)
    mean = np.asarray(model.prior.mean.at(case.new)) + cross @ M @ (np.asarray(weighted.nat1) - w * mu)
    cov = own - cross @ M @ (w[:, None] * cross.T)
    found = posterior(case.model, case.data, sites).f_joint(case.new)
    size, spread = np.sqrt(np.diag(own)) + np.abs(mean), np.sqrt(np.diag(own))
    need(np.abs(found[0] - mean) <= 10 * slack * size, "predicted means differ from dense algebra")
    need(np.abs(found[1] - cov) <= 10 * slack * np.outer(spread, spread), "covariances differ from dense algebra")


def _predictions(case: Case, sites: Sites) -> None:
    """New rows have finite means and positive variances, alone and jointly; a training row has its marginals."""
    q = posterior(case.model, case.data, sites)
    mean, var = q.f(case.new)
    joint_mean, cov = q.f_joint(case.new)
    need(np.isfinite(mean) & np.isfinite(var) & (var > 0), "predictions are finite, variances positive")
    size = np.sqrt(var) + np.abs(mean)
    need(np.abs(joint_mean - mean) <= 1e-6 * size, "joint means differ from single means")
    need(np.abs(np.diag(cov) - var) <= 1e-6 * np.asarray(kernels.Sum(case.parts).diag(case.new)), "variances differ")
    least = np.linalg.eigvalsh(cov / np.sqrt(np.outer(var, var)))[0]
    need(least > -1e-6, f"the joint covariance has the eigenvalue {least:.1e}")


def _gradients(case: Case, method: Inference, row: dict[str, Any]) -> None:
    """The exact gradient of EP's evidence in one random direction of log θ, against extrapolated differences."""
    both = value_and_grad(dataclasses.replace(method, tol=1e-10), evidence.ep, has_aux=True)
    (value, solution), slopes = both(case.model, case.data)
    if not (solution.outcome.settled and np.isfinite(float(value))):
        return
    theta = {k: np.asarray(v, float) for k, v in values(case.model).items() if k.startswith("kernel") and np.all(v > 0)}
    rng = np.random.default_rng([40, case.seed])
    step = {k: rng.choice([-1.0, 1.0], np.shape(v)) for k, v in theta.items() if not k.endswith("share")}
    slope = values(slopes)
    want = sum(np.sum(np.asarray(slope[k]) * theta[k] * d) for k, d in step.items())

    def evidence_at(size: float) -> float:
        (moved, other), _ = both(
            with_values(case.model, {k: theta[k] * np.exp(size * d) for k, d in step.items()}), case.data
        )
        return float(moved) if other.outcome.settled else np.nan

    # Of the sites' tolerance, and of the factor: of nearly equal places or times the evidence has fewer digits.
    lost = 1e-8 * (1 + abs(float(value))) + _rounding(case, solution.sites)
    noise = LOST_IN_DIFFERENCES * lost / STEPS[0] / (1 + abs(want))
    row["gradient_noise"] = noise
    for first in STEPS:
        by_step = [(evidence_at(size) - evidence_at(-size)) / (2 * size) for size in (first, 2 * first)]
        difference = (4 * by_step[0] - by_step[1]) / 3
        if not np.isfinite(difference) and "gradient" not in row:
            return
        row["gradient"] = float(abs(difference - want) / (1 + abs(want)))
        if row["gradient"] <= max(MEASURED_GRADIENT, noise):
            return
    need(False, f"the slope is {want!r}, by differences {difference!r}")
