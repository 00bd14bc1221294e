"""Measure GPRegressor(varying=…) beside the one-function model on simulated data: density, coverage, convergence, time.

    python studies/two_functions.py results/two-functions
    python studies/two_functions.py results/two-functions --convergence
    python studies/two_functions.py results/two-functions --judge
    python studies/two_functions.py results/two-functions --methods

Noise: y = sin 2x + e^{−1 + 0.8 sin x} ε on 80 rows (varying scale), or the same with a constant scale of e^{−1}.
Zeros: Poisson counts with log rate 1 + 0.7 sin 2x and P(excess zero) = σ(1.5 x − 1) on 80 rows (varying inflation).
Each model is scored on 400 new rows.  Times are CPU seconds of a second fit, without compilation.  With `--convergence`
the share of converged fits is counted over 200 other sets of 30 rows, half with varying and half with constant noise.

With `--methods` the sites and evidences of `SITES_AND_EVIDENCES` are compared on ten sets per case and number of rows,
scored on 1 000 new rows each: VI's sites and ELBO (`hybrid`), EP's evidence on VI's sites, and EP's evidence on EP's
sites.  Student-t noise has four degrees of freedom.

With `--judge` elliptical slice sampling (Murray, Adams & MacKay 2010) draws both functions at 40 rows from their exact
posterior, at the hyperparameters of `JUDGED`: posterior means and standard deviations of VI, EP and Laplace beside
those of the draws, per function, averaged over the rows.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import gammaln

from sitewise import EP, VI, Data, GPRegressor, Laplace, Method, Model, kernels, likelihoods, posterior
from sitewise.likelihoods import VaryingParameter

ROWS, NEW_ROWS = 80, 400
NOISE_SETS, ZERO_SETS = 20, 4
CONVERGENCE_SETS, CONVERGENCE_ROWS = 200, 30
METHOD_SETS, METHOD_ROWS, METHOD_NEW_ROWS, METHOD_SEED = 10, (40, 80), 1000, 100
JUDGE_SETS, JUDGE_ROWS, JUDGE_DRAWS, JUDGE_WARMUP = 3, 40, 50_000, 5_000


def heavy_noise(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-3, 3, rows)
    return x[:, None], np.sin(2 * x) + np.exp(-1 + 0.8 * np.sin(x)) * rng.standard_t(4, size=rows)


def noise(rng: np.random.Generator, rows: int, varies: bool) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-3, 3, rows)
    scale = np.exp(-1 + 0.8 * np.sin(x)) if varies else np.exp(-1)
    return x[:, None], np.sin(2 * x) + scale * rng.normal(size=rows)


def zeros(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(-3, 3, rows)
    seen = rng.uniform(size=rows) > 1 / (1 + np.exp(1 - 1.5 * x))
    return x[:, None], np.where(seen, rng.poisson(np.exp(1 + 0.7 * np.sin(2 * x))), 0).astype(float)


CASES = {
    "noise varies": ("gaussian", "scale", lambda rng, rows: noise(rng, rows, True), NOISE_SETS),
    "noise constant": ("gaussian", "scale", lambda rng, rows: noise(rng, rows, False), NOISE_SETS),
    "zeros vary": ("zero_inflated_poisson", "inflation", zeros, ZERO_SETS),
}


def scored(model: GPRegressor, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the mean log predictive density and the coverage of 90 % intervals."""
    low, high = model.predict_interval(X, level=0.9)
    return float(np.mean(model.log_predictive_density(X, y))), float(np.mean((low <= y) & (y <= high)))


def main(folder: Path) -> None:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case, (likelihood, parameter, draw, sets) in CASES.items():
            for seed in range(sets):
                rng = np.random.default_rng(seed)
                (X, y), new = draw(rng, ROWS), draw(rng, NEW_ROWS)
                for varying in (None, parameter):
                    model = GPRegressor(likelihood=likelihood, varying=varying, integrate=False)
                    if seed == 0:
                        model.fit(X, y)
                    start = time.process_time()
                    model.fit(X, y)
                    seconds = time.process_time() - start
                    density, coverage = scored(model, *new)
                    rows.append([case, seed, varying or "", density, coverage, bool(model.converged_), seconds])
                print(case, seed, *(f"{number:.4f}" for row in rows[-2:] for number in (*row[3:5], row[6])), flush=True)
                with open(folder / "scores.csv", "w", newline="") as file:
                    writer = csv.writer(file)
                    writer.writerow(["case", "seed", "varying", "log_density", "coverage_90", "converged", "cpu_s"])
                    writer.writerows(rows)


def convergence(folder: Path) -> None:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(CONVERGENCE_SETS):
            X, y = noise(np.random.default_rng(1000 + seed), CONVERGENCE_ROWS, seed % 2 == 0)
            model = GPRegressor(varying="scale").fit(X, y)
            found.append([seed, seed % 2 == 0, bool(model.converged_), model.n_iter_])
    with open(folder / "convergence.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "noise_varies", "converged", "rounds"])
        writer.writerows(found)
    print(sum(row[2] for row in found), "of", len(found), "converged")


SITES_AND_EVIDENCES = {
    "VI, elbo": Method("vi"),
    "VI, ep": Method("vi", evidence="ep"),
    "EP, ep": Method("ep"),
}


def methods(folder: Path) -> None:
    cases = {
        "noise varies": CASES["noise varies"][:3],
        "Student-t noise varies": ("student_t", "scale", heavy_noise),
        "zeros vary": CASES["zeros vary"][:3],
    }
    with warnings.catch_warnings(), open(folder / "methods.csv", "w", newline="") as file:
        warnings.simplefilter("ignore")
        writer = csv.writer(file)
        writer.writerow(["case", "rows", "seed", "method", "log_density", "coverage_90", "converged", "cpu_s"])
        for case, (likelihood, parameter, draw) in cases.items():
            for rows in METHOD_ROWS:
                for seed in range(METHOD_SEED, METHOD_SEED + METHOD_SETS):
                    rng = np.random.default_rng(seed)
                    (X, y), new = draw(rng, rows), draw(rng, METHOD_NEW_ROWS)
                    for name, method in SITES_AND_EVIDENCES.items():
                        model = GPRegressor(likelihood=likelihood, varying=parameter, method=method, integrate=False)
                        if seed == METHOD_SEED:
                            model.fit(X, y)
                        start = time.process_time()
                        model.fit(X, y)
                        seconds = time.process_time() - start
                        numbers = [f"{number:.4f}" for number in scored(model, *new)]
                        row = [case, rows, seed, name, *numbers, bool(model.converged_), f"{seconds:.3f}"]
                        writer.writerow(row)
                        file.flush()
                        print(*row, flush=True)


JUDGED = {
    "noise varies": ("gaussian", lambda: VaryingParameter(likelihoods.Gaussian(0.4), "scale")),
    "zeros vary": ("poisson", lambda: VaryingParameter(likelihoods.ZeroInflatedPoisson(inflation=0.3), "inflation")),
}


def log_prob(kind: str, y: np.ndarray, f: np.ndarray, g: np.ndarray) -> float:
    """Return Σ log p(y | f, g), in NumPy alone."""
    if kind == "gaussian":
        return float(np.sum(-0.5 * np.log(2 * np.pi) - g - 0.5 * (y - f) ** 2 * np.exp(-2 * g)))
    count = y * f - np.exp(f) - gammaln(y + 1) - np.logaddexp(0, g)
    return float(np.sum(np.where(y == 0, np.logaddexp(-np.logaddexp(0, -g), count), count)))


def draws(kind: str, y: np.ndarray, mean: np.ndarray, L: np.ndarray, seed: int) -> np.ndarray:
    """Return draws of the stacked (f, g) − mean by elliptical slice sampling; L Lᵀ is the prior covariance."""
    rng, n = np.random.default_rng(seed), len(y)
    of = lambda x: log_prob(kind, y, *np.split(mean + x, [n]))  # noqa: E731
    x, found = np.zeros(2 * n), []
    now = of(x)
    for step in range(JUDGE_DRAWS + JUDGE_WARMUP):
        other, level = L @ rng.normal(size=2 * n), now + np.log(rng.uniform())
        angle = rng.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        while True:
            new = x * np.cos(angle) + other * np.sin(angle)
            value = of(new)
            if value > level:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        x, now = new, value
        if step >= JUDGE_WARMUP and step % 10 == 0:
            found.append(x)
    return np.array(found)


def judge(folder: Path) -> None:
    rows = []
    for case, (kind, likelihood) in JUDGED.items():
        for seed in range(JUDGE_SETS):
            X, y = CASES[case][2](np.random.default_rng(500 + seed), JUDGE_ROWS)
            both = [kernels.RBF(0.8, 1.0), kernels.RBF(1.2, 0.6)]
            model = Model.full(both, likelihood(), jitter=1e-8)
            n, data = len(y), Data.of(X, y)
            mean = np.repeat([0.0, model.likelihood.start_level()], n)
            K = [np.asarray(one.matrix(X)) + 1e-8 * np.eye(n) for one in both]
            L = np.block([[np.linalg.cholesky(K[0]), np.zeros((n, n))], [np.zeros((n, n)), np.linalg.cholesky(K[1])]])
            chains = [mean + draws(kind, y, mean, L, 10 * seed + k) for k in range(2)]
            exact = np.concatenate(chains)
            sd = exact.std(axis=0)
            # The difference of two chains shows the error of the draws.
            noise_of_draws = np.abs(chains[0].mean(axis=0) - chains[1].mean(axis=0)) / sd / 2
            for method in (VI(), EP(), Laplace()):
                q_mean, q_cov = posterior(model, data, method.solve(model, data).sites).f(X)
                q_sd = np.sqrt(np.diagonal(np.asarray(q_cov), axis1=1, axis2=2)).T.ravel()
                gap, ratio = np.abs(np.asarray(q_mean).T.ravel() - exact.mean(axis=0)) / sd, q_sd / sd
                for k, name in enumerate(("f", "g")):
                    at = slice(k * n, (k + 1) * n)
                    rows.append([case, seed, method.name, name, *(float(np.mean(a[at])) for a in (gap, ratio)),
                                 float(np.mean(noise_of_draws[at]))])  # fmt: skip
                    print(*rows[-1], flush=True)
    with open(folder / "judge.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "seed", "method", "function", "mean_gap_in_sd", "sd_ratio", "error_of_draws_in_sd"])
        writer.writerows(rows)


if __name__ == "__main__":
    modes = {"": main, "--convergence": convergence, "--judge": judge, "--methods": methods}
    modes[sys.argv[2] if len(sys.argv) > 2 else ""](Path(sys.argv[1]))
