"""Compare the integral over three and four hyperparameters with a dense grid, for likelihoods that are not Gaussian.

    python studies/integration_grids.py [--jobs N] [--seconds S] [--only CASE …]
    python studies/integration.py --table

Per case and seed: 50 rows and 40 new rows of two standard normal columns, Matérn 5/2 with the weak priors of the
estimators, method "hybrid".  The reference is a sum over a cubic grid of v (log θ; the constant mean as it is) in the
axes of a Cholesky factor of the covariance at the optimum: all points that are connected with the optimum and whose
density π(v) is at most `DEPTH` nats below the largest.  Inference is run at every point from the sites of a neighbour.
The points with even indices alone are a grid of twice the step; their difference bounds the error of the reference.

The designs are "fine" (`integrate=True`) and "star" (the first design of `integrate="auto"`).  A line of
results/integration/grids.jsonl has log ∫ π and the standard deviations of f at the new rows, relative to the grid.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import time
import warnings
from typing import Any

import numpy as np
from scipy.special import logsumexp

from integration import ROOT, fitted
from pooled import Line, add, stored
from sitewise import Data, Model, likelihoods, means
from sitewise.estimators.candidates import candidates
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent
from sitewise.inference.solve import solve
from sitewise.kernels import Matern52
from sitewise.learning.fit import Fit
from sitewise.learning.integration import integrate
from sitewise.process.precision import working_precision

PATH = ROOT / "grids.jsonl"
ROWS, NEW, SEEDS = 50, 40, 2
DEPTH = 9.0  # nats: of four Gaussian directions 0.1 % of the mass lie deeper
STEP = {3: 0.8, 4: 1.0}  # in standard deviations, by the number of hyperparameters: ten times as dense as the lattice
MAX_POINTS = 20_000
# likelihood, kernel, whether a constant mean is learned, variance of f, level of f
CASES = {
    "probit, mean": (likelihoods.BernoulliProbit(), "isotropic", True, 4.0, 0.0),
    "probit, two lengthscales": (likelihoods.BernoulliProbit(), "ard", False, 4.0, 0.0),
    "poisson, mean": (likelihoods.Poisson(), "isotropic", True, 1.0, 1.0),
    "student_t": (likelihoods.StudentT(), "isotropic", False, 1.0, 0.0),
    "student_t, mean": (likelihoods.StudentT(), "isotropic", True, 1.0, 0.0),
    "negative_binomial, mean": (likelihoods.NegativeBinomial(), "isotropic", True, 1.0, 1.0),
}
DESIGNS = ("fine", "star")


def drawn(case: str, seed: int) -> tuple[Fit, np.ndarray]:
    """Return the optimum of simulated rows, and the new rows."""
    likelihood, kernel, mean, variance, level = CASES[case]
    rng = np.random.default_rng([list(CASES).index(case), seed])
    both = rng.normal(size=(ROWS + NEW, 2))
    with working_precision():
        K = np.asarray(Matern52(1.5, variance).matrix(both))
    f = level + np.linalg.cholesky(K + 1e-9 * np.eye(len(both))) @ rng.normal(size=len(both))
    if isinstance(likelihood, likelihoods.BernoulliProbit):
        y = np.where(rng.normal(size=len(f)) < f, 1.0, -1.0)
    elif isinstance(likelihood, likelihoods.StudentT):
        y = f + 0.3 * rng.standard_t(3, size=len(f))
    else:
        rate = np.exp(f) * (rng.gamma(2.0, 0.5, size=len(f)) if "negative" in case else 1.0)
        y = rng.poisson(rate).astype(float)
    X, y = both[:ROWS], y[:ROWS]
    chosen = candidates(kernel, X, 16.0 if "probit" in case else 1.0)[0]
    start = np.log(np.mean(y)) if level else 0.0
    model = Model.full(chosen.kernel, likelihood, *([means.Constant(float(start))] if mean else []))
    return fitted("hybrid", model, Data.of(X, y), chosen), both[ROWS:]


def on_grid(fit: Fit, new: np.ndarray) -> tuple[list[tuple[float, np.ndarray]], int]:
    """Return (log ∫ π, standard deviations of f) of the grid and of the grid of twice the step, and its points."""
    problem = fit.problem
    assert problem is not None
    density_of_vector = dataclasses.replace(problem, jacobian=True)
    root = np.linalg.cholesky(fit.curvature.covariance)
    size = len(root)
    ways = [tuple(sign * (k == j) for k in range(size)) for j in range(size) for sign in (-1, 1)]
    found: dict[tuple[int, ...], tuple[float, np.ndarray, np.ndarray]] = {}
    best, waiting = -np.inf, [((0,) * size, fit.sites)]
    while waiting:
        place, sites = waiting.pop()
        if place in found:
            continue
        if len(found) > MAX_POINTS:
            raise ValueError("the grid has too many points")
        v = fit.curvature.vector + STEP[size] * root @ np.array(place, float)
        if fit.limits is not None and np.any((v < fit.limits[:, 0]) | (v > fit.limits[:, 1])):
            found[place] = (-np.inf, np.zeros(len(new)), np.zeros(len(new)))
            continue
        model = problem.trainable.from_vector(fit.model, v)
        solution = solve(problem.inference, model, fit.data, sites)
        log = float(problem.evidence(model, fit.data, solution.sites))
        log += float(density_of_vector.log_prior_with_slope(v)[0])
        if not (solution.outcome.settled and np.isfinite(log)):
            raise ValueError(f"inference does not settle at {v}")
        mean, covariance = Latent.of(model, fit.data, solution.sites).joint(new)
        found[place] = (log, mean, np.diag(covariance))
        best = max(best, log)
        if log > best - DEPTH:
            waiting += [(tuple(np.add(place, way).tolist()), solution.sites) for way in ways]
    log_cell = size * np.log(STEP[size]) + float(np.sum(np.log(np.diag(root))))
    even = {place: point for place, point in found.items() if not any(k % 2 for k in place)}
    return [_moments(found, log_cell), _moments(even, log_cell + size * np.log(2))], len(found)


def _moments(points: dict[Any, tuple[float, np.ndarray, np.ndarray]], log_cell: float) -> tuple[float, np.ndarray]:
    logs, mean, var = (np.array(part) for part in zip(*points.values(), strict=True))
    total = float(logsumexp(logs))
    weight = np.exp(logs - total)
    return total + log_cell, np.sqrt(weight @ (var + mean**2) - (weight @ mean) ** 2)


def against(one: tuple[str, int]) -> Line:
    """Return the line of one case and seed."""
    warnings.simplefilter("ignore")
    case, seed = one
    begun = time.process_time()
    fit, new = drawn(case, seed)
    line: Line = {"case": case, "seed": seed, "hyperparameters": len(fit.curvature.vector), "converged": fit.converged}
    for design in DESIGNS:
        integral = integrate(fit, design)
        mixture = IntegratedLatent.at_nodes(Latent.of_fit(fit), fit.data, [(1.0, integral)])
        sd = np.sqrt(np.diag(mixture.joint(new)[1]))
        line[design] = {"log_evidence": integral.log_evidence, "sd": sd.tolist(), "nodes": len(integral.nodes),
                        "problems": integral.problems}  # fmt: skip
    optimum = np.sqrt(np.diag(Latent.of_fit(fit).joint(new)[1]))
    line["seconds_of_designs"] = time.process_time() - begun
    try:
        (grid, half), points = on_grid(fit, new)
    except ValueError as problem:
        return line | {"problem": str(problem)}
    for design in DESIGNS:
        line[design]["gap"] = line[design].pop("log_evidence") - grid[0]
        line[design]["ratio"] = (np.array(line[design].pop("sd")) / grid[1]).tolist()
    line["optimum"] = (optimum / grid[1]).tolist()
    line["grid"] = {"points": points, "gap_of_half": half[0] - grid[0], "ratio_of_half": (half[1] / grid[1]).tolist()}
    return line | {"seconds": time.process_time() - begun}


def section() -> list[str]:
    """Return the lines of the page."""
    lines = [line for line in stored(PATH) if "grid" in line]
    out = [
        "| case, seed | θ | grid points | 2h: sd, log ∫ π | fine: nodes | sd | log ∫ π | star: sd | log ∫ π | "
        "optimum: sd | diagnostics of fine, star |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in sorted(lines, key=lambda line: (list(CASES).index(line["case"]), line["seed"])):
        fine, star, grid = line["fine"], line["star"], line["grid"]
        out.append(
            f"| {line['case']}, {line['seed']} | {line['hyperparameters']} | {grid['points']} | "
            f"{_range(grid['ratio_of_half'])}, {grid['gap_of_half']:+.3f} | {fine['nodes']} | "
            f"{_range(fine['ratio'])} | {fine['gap']:+.3f} | "
            f"{_range(star['ratio'])} | {star['gap']:+.3f} | {_range(line['optimum'])} | "
            f"{_good(fine)}, {_good(star)} |".replace("-", "−")
        )
    return out


def _range(ratio: list[float]) -> str:
    return f"{np.min(ratio):.3f}–{np.max(ratio):.3f}"


def _good(found: dict[str, Any]) -> str:
    return "not good" if found["problems"] else "good"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no case after this time")
    parser.add_argument("--only", nargs="*", choices=CASES)
    given = parser.parse_args()
    known = {(line["case"], line["seed"]) for line in stored(PATH)}
    todo = [one for one in itertools.product(given.only or CASES, range(SEEDS)) if one not in known]
    add(PATH, against, sorted(todo, key=lambda one: one[1]), given.jobs, given.seconds)


if __name__ == "__main__":
    main()
