"""Simulate maps, and score predictions of a latent function given as a normal distribution per row.

A map has places uniform on the unit square and f from a GP with the Matérn-3/2 kernel (lengthscale √3 · range).  Up to
MAX_EXACT places f is drawn by the Cholesky factor of the covariance matrix, above it one place after the other given
30 neighbours.  All libraries are scored by the functions here, from the mean and variance of f at the held-out rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cholesky
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp

MAX_EXACT = 4_000  # places of an exact draw
NODES = np.linspace(-8.0, 8.0, 1_601)  # of integrals over f, in standard deviations
SAMPLES = 1_000  # per row, for the CRPS of counts
ROWS_AT_ONCE = 500


@dataclasses.dataclass(frozen=True)
class Case:
    """A kind of simulated map.

    density   rows per squared range; the range is √(density / rows), or 1/20 if density is None
    """

    name: str
    target: str  # "logit", "probit" or "poisson"
    rows: int
    held_out: int
    variance: float
    density: float | None = None

    @property
    def range(self) -> float:
        return 0.05 if self.density is None else float(np.sqrt(self.density / self.rows))


CASES = {
    case.name: case
    for case in (
        Case("logit-2000", "logit", 2_000, 2_000, 1.0),
        Case("logit-20000", "logit", 20_000, 20_000, 1.0),
        Case("poisson-2000", "poisson", 2_000, 2_000, 1.0),
        Case("poisson-5000", "poisson", 5_000, 5_000, 1.0),
        Case("poisson-20000", "poisson", 20_000, 20_000, 1.0),
        Case("strong-logit-5000", "logit", 5_000, 2_500, 9.0),
        Case("strong-poisson-5000", "poisson", 5_000, 2_500, 4.0),
        Case("few-probit-2000", "probit", 2_000, 2_000, 9.0, density=2.0),
        Case("few-probit-2", "probit", 8_000, 4_000, 9.0, density=2.0),
        Case("few-probit-8", "probit", 8_000, 4_000, 9.0, density=8.0),
        Case("few-logit-2", "logit", 8_000, 4_000, 9.0, density=2.0),
        Case("tiny", "logit", 150, 50, 1.0),
        Case("tiny-counts", "poisson", 150, 50, 1.0),
    )
}


def simulate(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y (0 and 1, or counts) and f of the training rows followed by the held-out rows."""
    rng = np.random.default_rng([2026, seed])
    X = rng.uniform(size=(case.rows + case.held_out, 2))
    f = latent(X, np.sqrt(3) * case.range, case.variance, rng)
    if case.target == "poisson":
        return X, rng.poisson(np.exp(f)).astype(float), f
    log_p = log_expit(f) if case.target == "logit" else log_ndtr(f)
    return X, (np.log(rng.uniform(size=len(f))) < log_p).astype(float), f


def latent(X: np.ndarray, lengthscale: float, variance: float, rng: np.random.Generator) -> np.ndarray:
    if len(X) <= MAX_EXACT:
        r = np.sqrt(3) / lengthscale * np.sqrt(((X[:, None] - X) ** 2).sum(axis=-1))
        K = variance * (1 + r) * np.exp(-r) + 1e-9 * variance * np.eye(len(X))
        return cholesky(K, lower=True, overwrite_a=True) @ rng.normal(size=len(X))
    from sitewise import kernels, parts

    return drawn(parts.Map((0, 1), kernels.Matern32(lengthscale, variance), neighbours=30), X, rng)


def drawn(part: Any, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one draw of the function of a map at the rows, place by place."""
    from sitewise.process.precision import working_precision

    with working_precision():
        layout: Any = part.layout(X)
        a, d = layout.conditionals(part)
    x = np.zeros(layout.size)
    for i, noise in enumerate(rng.normal(size=layout.size)):
        near = layout.near[i] >= 0
        x[i] = a[i, near] @ x[layout.near[i, near]] + np.sqrt(d[i]) * noise
    return x[layout.index[:, 0]]


def log_density(target: str, y: np.ndarray, mean: np.ndarray, var: np.ndarray, exposure: Any = 1.0) -> np.ndarray:
    """Return log ∫ p(y | f) N(f | mean, var) df per row, by the trapezoidal rule."""
    weight = -0.5 * NODES**2
    weight = weight - logsumexp(weight)
    out, exposure = np.empty(len(y)), np.broadcast_to(exposure, len(y))
    for rows in _pieces(len(y)):
        f = mean[rows, None] + np.sqrt(var[rows])[:, None] * NODES
        each = y[rows, None]
        if target == "poisson":
            f = f + np.log(exposure[rows])[:, None]
            log_p = each * f - np.exp(f) - gammaln(each + 1)
        else:
            log_p = (log_expit if target == "logit" else log_ndtr)(np.where(each > 0, f, -f))
        out[rows] = logsumexp(log_p + weight, axis=1)
    return out


def counts_scores(
    y: np.ndarray, mean: np.ndarray, var: np.ndarray, exposure: Any = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the CRPS and the randomised probability integral transform per row, by samples of a fixed seed."""
    rng = np.random.default_rng(0)
    crps, pit, exposure = np.empty(len(y)), np.empty(len(y)), np.broadcast_to(exposure, len(y))
    for rows in _pieces(len(y)):
        f = mean[rows, None] + np.sqrt(var[rows])[:, None] * rng.normal(size=(len(y[rows]), SAMPLES))
        drawn = np.sort(rng.poisson(np.minimum(exposure[rows, None] * np.exp(f), 1e12)), axis=1)
        each = y[rows, None]
        spread = drawn @ (2 * np.arange(SAMPLES) - SAMPLES + 1.0) / (SAMPLES * (SAMPLES - 1.0))
        crps[rows] = np.mean(np.abs(drawn - each), axis=1) - spread
        below, equal = np.mean(drawn < each, axis=1), np.mean(drawn == each, axis=1)
        pit[rows] = below + rng.uniform(size=len(below)) * equal
    return crps, pit


def scores(
    target: str, y: np.ndarray, mean: np.ndarray, var: np.ndarray, f: np.ndarray | None = None, exposure: Any = 1.0
) -> tuple[dict[str, float], np.ndarray]:
    """Return summaries, and the log density per row.

    crps       CRPS of counts; of two classes it is the Brier score
    coverage   share of counts in central 90 % intervals (randomised)
    latent     share of true f in 90 % bands, if f is given
    """
    density = log_density(target, y, mean, var, exposure)
    found = {"log_density": float(np.mean(density)), "error": standard_error(density)}
    if target == "poisson":
        crps, pit = counts_scores(y, mean, var, exposure)
        found |= {"crps": float(np.mean(crps)), "coverage": float(np.mean((pit > 0.05) & (pit < 0.95)))}
    else:
        found["crps"] = float(np.mean((1 - np.exp(density)) ** 2))
    if f is not None:
        found["latent"] = float(np.mean(np.abs(f - mean) < 1.6449 * np.sqrt(var)))
    return found, density


def standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _pieces(rows: int) -> Iterator[slice]:
    return (slice(at, at + ROWS_AT_ONCE) for at in range(0, rows, ROWS_AT_ONCE))
