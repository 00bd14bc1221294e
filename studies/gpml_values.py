"""Compute exact values where GPML's values are inaccurate, for tests/laws/test_against_peers.py.

After `studies/gpml_values.m` has written gpml.json (its head says how):

    python studies/gpml_values.py tests/laws/peers.json gpml.json

The fixed point of EP and the highest ELBO are computed from their definitions, with NumPy and SciPy and integrals by
the trapezoidal rule on 1201 points of ±12 standard deviations, whose error is below rounding for these integrands.
sitewise is not imported here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
from scipy import optimize, special, stats
from scipy.spatial.distance import cdist

from peer_values import write

TOLERANCE = 1e-6  # of evidence, mean and variance, beyond which GPML's value counts as different
GRID = np.linspace(-12, 12, 1201)
WEIGHTS = stats.norm.pdf(GRID) * (GRID[1] - GRID[0])
POINTS = "its EP integrates with 20 Gauss-Hermite points, placed by the cavity and not by the likelihood"
MIXTURE = "its EP replaces the logistic function by a sum of five error functions"
SIGN = "infKL takes the absolute value of the site precisions, and so settles where one of them has the wrong sign"
WHY = {("poisson", "ep"): POINTS, ("gamma", "ep"): POINTS, ("beta", "ep"): POINTS, ("logit", "ep"): MIXTURE,
       ("student-t", "vi"): SIGN}  # fmt: skip
KEPT = {MIXTURE: ("nat1", "prec", "log_z"), SIGN: ("nat1", "prec")}  # what the test needs in order to show the cause

LogProb = Callable[[np.ndarray], np.ndarray]  # log p(y|f) for a table of f with one row per observation
Found = dict[str, np.ndarray]


def covariance(kernel: str, lengthscale: float, variance: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r = cdist(a, b) / lengthscale
    if kernel == "rbf":
        return variance * np.exp(-(r**2) / 2)
    return variance * (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r)


def log_prob(likelihood: str, stored: dict, y: np.ndarray) -> LogProb:
    y = y[:, None]
    shape, precision = stored["shape"], stored["precision"]
    return {
        "logit": lambda f: special.log_expit(y * f),
        "poisson": lambda f: stats.poisson.logpmf(y, np.exp(f)),
        "gamma": lambda f: stats.gamma.logpdf(y, shape, scale=np.exp(f) / shape),
        "beta": lambda f: stats.beta.logpdf(y, precision * special.expit(f), precision * special.expit(-f)),
        "student-t": lambda f: stats.t.logpdf(y, stored["df"], f, stored["scale"]),
    }[likelihood]


def posterior(K: np.ndarray, nat1: np.ndarray, prec: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ = (K⁻¹ + diag prec)⁻¹ and Σ nat1."""
    cov = np.linalg.solve(np.eye(len(K)) + K * prec, K)
    return cov @ nat1, cov


def tilted(p: LogProb, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log ∫ N(f; mean, var) p(y|f) df, and the mean and variance of that product."""
    f = mean[:, None] + np.sqrt(var)[:, None] * GRID
    heights = p(f)
    top = heights.max(axis=1, keepdims=True)
    mass = np.exp(heights - top) * WEIGHTS
    total = mass.sum(axis=1)
    centre = (mass * f).sum(axis=1) / total
    return np.log(total) + top[:, 0], centre, (mass * (f - centre[:, None]) ** 2).sum(axis=1) / total


def ep(K: np.ndarray, p: LogProb) -> tuple[float, np.ndarray, np.ndarray]:
    """The fixed point of EP: evidence, nat1 and prec.

    log Z = Σ log Z_i + log ∫ p(f) ∏ t_i − Σ log ∫ cavity_i t_i,  t = exp(nat1 f − ½ prec f²).
    """
    nat1, prec = np.zeros(len(K)), np.zeros(len(K))
    while True:
        mean, cov = posterior(K, nat1, prec)
        cav_prec, cav_nat1 = 1 / np.diag(cov) - prec, mean / np.diag(cov) - nat1
        log_z, m, v = tilted(p, cav_nat1 / cav_prec, 1 / cav_prec)
        new_nat1, new_prec = m / v - cav_nat1, 1 / v - cav_prec
        if max(abs(new_nat1 - nat1).max(), abs(new_prec - prec).max()) < 1e-11:
            break
        nat1, prec = 0.3 * nat1 + 0.7 * new_nat1, 0.3 * prec + 0.7 * new_prec
    log_zq = 0.5 * nat1 @ mean - 0.5 * np.linalg.slogdet(np.eye(len(K)) + K * prec)[1]
    sites = 0.5 * ((cav_nat1 + nat1) ** 2 / (cav_prec + prec) - cav_nat1**2 / cav_prec - np.log1p(prec / cav_prec))
    return float(log_z.sum() + log_zq - sites.sum()), nat1, prec


def vi(K: np.ndarray, p: LogProb) -> tuple[float, np.ndarray, np.ndarray]:
    """The highest ELBO that SciPy finds from four starts, over q = N(Kα, (K⁻¹ + diag W)⁻¹), W > 0; then nat1 and prec.

    With a(m, v) = E[log p]:  ∂ELBO/∂α = K (∂a/∂m − α),  ∂ELBO/∂W = −Σ² (∂a/∂v + W/2), with Σ² elementwise.
    """
    n = len(K)

    def cost(x: np.ndarray) -> tuple[float, np.ndarray]:
        alpha, W = x[:n], np.exp(x[n:])
        _, cov = posterior(K, alpha, W)
        m, v = K @ alpha, np.diag(cov)
        heights = p(m[:, None] + np.sqrt(v)[:, None] * GRID) * WEIGHTS
        by_mean = heights @ GRID / np.sqrt(v)
        by_var = heights @ (GRID**2 - 1) / (2 * v)
        # KL(q, prior) = ½ (log|I + KW| + tr(I + KW)⁻¹ − n + αᵀKα), and I − ΣW = (I + KW)⁻¹.
        kl = 0.5 * (np.linalg.slogdet(np.eye(n) + K * W)[1] - v @ W + alpha @ m)
        return kl - heights.sum(), np.concatenate([K @ (alpha - by_mean), W * (cov**2 @ (by_var + W / 2))])

    rng = np.random.default_rng(0)
    options = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 40}
    starts = [np.concatenate([rng.normal(0, s, n), rng.normal(1, 1, n)]) for s in (0.0, 0.5, 1.0, 2.0)]
    found = [optimize.minimize(cost, x, jac=True, method="L-BFGS-B", options=options) for x in starts]
    print("  ELBO from four starts:", np.sort([-r.fun for r in found]).round(6)[::-1])
    best = min(found, key=lambda r: r.fun)
    alpha, W = best.x[:n], np.exp(best.x[n:])
    return -float(best.fun), alpha + W * (K @ alpha), W


def settled(stored: dict, row: dict) -> Found:
    """Evidence, and mean and variance of f at X_new."""
    d = {k: np.array(v) for k, v in stored["data"].items()}
    cov_of = lambda a, b: covariance(row["kernel"], stored["lengthscale"], stored["variance"], a, b)  # noqa: E731
    K, cross = cov_of(d["X"], d["X"]), cov_of(d["X_new"], d["X"])
    value, nat1, prec = {"ep": ep, "vi": vi}[row["method"]](
        K, log_prob(row["likelihood"], stored, d[row["target"]])
    )  # fmt: skip
    mean, cov = posterior(K, nat1, prec)
    solved = np.linalg.solve(K, cross.T)
    var = stored["variance"] - np.sum(solved * ((K - cov) @ solved), axis=0)
    return {"evidence": np.array(value), "mean": solved.T @ mean, "var": var}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        stored = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        found = json.load(file)
    rows = [row for row in stored["rows"] if not row["peer"].startswith("GPML")]
    for row in found:
        label = f"{row['likelihood']:10}{row['method']:8}{row['kernel']:10}{row['target']:9}"
        if "failure" in row:
            print(label, "none:", row["failure"])
            continue
        why = WHY.get((row["likelihood"], row["method"]))
        kept = {k: row.pop(k) for k in ("nat1", "prec", "log_z") if k in row}
        print(label, f"{row['evidence']:.9f}")
        if why is not None:
            right = settled(stored, row)
            by = {k: np.array(row[k]) - right[k] for k in right}
            assert max(abs(v).max() for v in by.values()) > TOLERANCE, "GPML is right: this row needs no explanation."
            row["difference"] = {"why": why, **{k: v.tolist() for k, v in by.items()}}
            row.update({k: kept[k] for k in KEPT.get(why, ())})
            print(f"  right: {right['evidence']:.9f}, difference {by['evidence']:+.3e}: {why}")
        rows.append(row)
    write({**stored, "rows": rows}, sys.argv[1])


if __name__ == "__main__":
    main()
