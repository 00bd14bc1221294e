"""Measure the coverage of 90 % predictive intervals for every likelihood.

    python studies/interval_coverage.py [--sets 200] [--jobs 1] [--likelihood NAME ...] [--modes MODE ...] [--table]

Every set: x uniform on [0, 8], f drawn from a Matern 5/2 GP of lengthscale 1.5 and variance 1 (plus a level if y is not
f plus noise), 60 training rows and 40 new rows, y and its side information drawn by NumPy.  "fixed" predicts with the
true hyperparameters, which tests the approximation of the posterior alone; "learned" is `GPRegressor(likelihood=...)`
with its defaults; "integrated" is the same with integrate=True.  The method is the default, hybrid.

About a third of the lifetimes of training rows are right-censored.  Angles are compared in the turn of the prediction.

For whole numbers, and amounts that may be zero, an interval covers at least 90 %; "plain" is its coverage.  "exact" is
the coverage by the randomised probability u = P(Y < y) + v P(Y = y), v uniform: u is uniform on (0, 1) if the model is
right, and 0.05 < u < 0.95 in 90 % of rows.  For other values the two are the same.

One line per set in results/intervals/results.jsonl (not kept with the code), in order of likelihood, mode and set,
whatever the number of jobs; finished sets are kept.  --quick computes three sets of each and writes nothing; --table
writes README.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_PLATFORMS", "cpu")
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np

from sitewise import GPRegressor, Hyperparameters, kernels, likelihoods, means

OUT = Path(__file__).resolve().parents[1] / "results" / "intervals"
LEVEL, ROWS, NEW = 0.9, 60, 40
LENGTH, VARIANCE = 1.5, 1.0
MODES = ("fixed", "learned", "integrated")
CUTS = np.array([-1.2, -0.3, 0.5, 1.3])

Rng = np.random.Generator
Side = dict[str, np.ndarray]


class Case(NamedTuple):
    """`likelihood` at the truth, the level of f, and how y and its side information are drawn given f."""

    likelihood: likelihoods.Likelihood
    level: float
    draw: Callable[[np.ndarray, Rng], tuple[np.ndarray, Side]]


def _wrapped(angle: np.ndarray) -> np.ndarray:
    return np.mod(angle + np.pi, 2 * np.pi) - np.pi


def _share(f: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-f))


def _exposed(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    e = rng.uniform(0.5, 8, f.shape)
    return rng.poisson(e * np.exp(f)), {"exposure": e}


def _overdispersed(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    e = rng.uniform(0.5, 8, f.shape)
    return rng.poisson(e * np.exp(f) * rng.gamma(3.0, 1 / 3.0, f.shape)), {"exposure": e}


def _tried(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    n = rng.integers(1, 16, f.shape)
    return rng.binomial(n, _share(f)), {"trials": n.astype(float)}


def _measured(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    s = rng.uniform(0.1, 0.8, f.shape)
    return f + s * rng.normal(size=f.shape), {"noise": s}


def _censored(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    """New rows are not censored: the interval is of the value itself."""
    y = f + 0.4 * rng.normal(size=f.shape)
    upper = np.where(np.arange(len(f)) < ROWS, 0.8, np.inf)
    return np.minimum(y, upper), {"upper": upper}


def _tweedie(f: np.ndarray, rng: Rng, phi: float = 0.8, p: float = 1.5) -> np.ndarray:
    """Sums of a Poisson number of gamma pieces."""
    mean = np.exp(f)
    count = rng.poisson(mean ** (2 - p) / (phi * (2 - p)))
    total = rng.gamma(np.maximum(count, 1) * (2 - p) / (p - 1), phi * (p - 1) * mean ** (p - 1))
    return np.where(count > 0, total, 0.0)


def _inflated(f: np.ndarray, rng: Rng, shape: float | None = None) -> tuple[np.ndarray, Side]:
    e = rng.uniform(0.5, 8, f.shape)
    scatter = 1.0 if shape is None else rng.gamma(shape, 1 / shape, f.shape)
    return np.where(rng.uniform(size=f.shape) < 0.25, 0, rng.poisson(e * np.exp(f) * scatter)), {"exposure": e}


def _scattered_trials(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    n = rng.integers(2, 31, f.shape)
    return rng.binomial(n, rng.beta(8 * _share(f), 8 * _share(-f))), {"trials": n.astype(float)}


def _until_the_end(time: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    """A third or so of the training rows end before the event; new rows are observed."""
    stop = np.where(np.arange(len(time)) < ROWS, rng.exponential(2 * np.median(time), len(time)), np.inf)
    return np.minimum(time, stop), {"event": (time <= stop).astype(float)}


def _weibull(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    return _until_the_end(np.exp(f) * rng.weibull(1.7, f.shape), rng)


def _log_logistic(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    return _until_the_end(np.exp(f + rng.logistic(size=f.shape) / 3.0), rng)


def _hurdle(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    some = rng.uniform(size=f.shape) < _share(0.3 + 0.8 * f)
    return np.where(some, np.exp(f) * rng.gamma(3.0, 1 / 3.0, f.shape), 0.0), {}


def _skewed(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    """f is the 80 % quantile."""
    return f + rng.exponential(0.2 / 0.8, f.shape) - rng.exponential(0.2 / 0.2, f.shape), {}


def _ranked(f: np.ndarray, rng: Rng) -> tuple[np.ndarray, Side]:
    return np.sum(f + rng.normal(size=f.shape) > CUTS[:, None], axis=0), {}


CASES = {
    "gaussian": Case(likelihoods.Gaussian(0.4), 0.0, lambda f, rng: (f + 0.4 * rng.normal(size=f.shape), {})),
    "student_t": Case(likelihoods.StudentT(0.3, 3.0), 0.0, lambda f, rng: (f + 0.3 * rng.standard_t(3, f.shape), {})),
    "laplace_noise": Case(likelihoods.LaplaceNoise(0.3), 0.0, lambda f, rng: (f + rng.laplace(0, 0.3, f.shape), {})),
    "heteroscedastic_gaussian": Case(likelihoods.HeteroscedasticGaussian(), 0.0, _measured),
    "censored_gaussian": Case(likelihoods.CensoredGaussian(0.4), 0.0, _censored),
    "gamma": Case(likelihoods.Gamma(3.0), 0.5, lambda f, rng: (np.exp(f) * rng.gamma(3.0, 1 / 3.0, f.shape), {})),
    "log_normal": Case(
        likelihoods.LogNormal(0.4), 0.5, lambda f, rng: (np.exp(f + 0.4 * rng.normal(size=f.shape)), {})
    ),
    "beta": Case(
        likelihoods.Beta(10.0), 0.3,
        lambda f, rng: (np.clip(rng.beta(10 * _share(f), 10 * _share(-f)), 1e-12, 1 - 1e-12), {}),
    ),
    "poisson": Case(likelihoods.Poisson(exposure=True), 0.5, _exposed),
    "negative_binomial": Case(likelihoods.NegativeBinomial(shape=3.0, exposure=True), 0.5, _overdispersed),
    "binomial": Case(likelihoods.Binomial(), 0.3, _tried),
    "ordinal": Case(likelihoods.Ordinal(CUTS[0], np.diff(CUTS)), 0.0, _ranked),
    "weibull": Case(likelihoods.Weibull(1.7, censored=True), 0.5, _weibull),
    "log_logistic": Case(likelihoods.LogLogistic(3.0, censored=True), 0.5, _log_logistic),
    "zero_inflated_poisson": Case(likelihoods.ZeroInflatedPoisson(0.25, exposure=True), 0.5, _inflated),
    "zero_inflated_negative_binomial": Case(
        likelihoods.ZeroInflatedNegativeBinomial(0.25, 3.0, exposure=True), 0.5, lambda f, rng: _inflated(f, rng, 3.0)
    ),
    "hurdle_gamma": Case(likelihoods.HurdleGamma(3.0, 0.3, 0.8), 0.5, _hurdle),
    "tweedie": Case(likelihoods.Tweedie(0.8, 1.5), 0.5, lambda f, rng: (_tweedie(f, rng), {})),
    "beta_binomial": Case(likelihoods.BetaBinomial(8.0), 0.3, _scattered_trials),
    "asymmetric_laplace": Case(likelihoods.AsymmetricLaplace(0.2, quantile=0.8), 0.0, _skewed),
    "von_mises": Case(likelihoods.VonMises(6.0), 0.5, lambda f, rng: (_wrapped(f + rng.vonmises(0, 6.0, f.shape)), {})),
}  # fmt: skip


class Drawn(NamedTuple):
    """Inputs, observations and side information; the first ROWS are for training."""

    X: np.ndarray
    y: np.ndarray
    side: Side

    def part(self, rows: slice) -> Drawn:
        return Drawn(self.X[rows], self.y[rows], {name: column[rows] for name, column in self.side.items()})


def draw(name: str, number: int) -> Drawn:
    """Set `number` of this likelihood."""
    rng = np.random.default_rng([sum(map(ord, name)), number])
    case = CASES[name]
    while True:
        X = rng.uniform(0, 8, (ROWS + NEW, 1))
        covariance = np.asarray(kernels.Matern52(LENGTH, VARIANCE).matrix(X))
        f = np.linalg.cholesky(covariance + 1e-8 * np.eye(len(X))) @ rng.normal(size=len(X)) + case.level
        y, side = case.draw(f, rng)
        # Ordered classes are learned from rows of each.
        if name != "ordinal" or len(np.unique(y[:ROWS])) == len(CUTS) + 1:
            return Drawn(X, np.asarray(y, float), side)


def model_of(name: str, mode: str) -> GPRegressor:
    """The true hyperparameters, or the defaults, with or without an integral over them."""
    if mode != "fixed":
        # A quantile is a setting, which its name does not tell.
        kind = CASES[name].likelihood if name == "asymmetric_laplace" else name
        return GPRegressor(likelihood=kind, integrate=mode == "integrated")
    case = CASES[name]
    kernel, mean = kernels.Matern52(LENGTH, VARIANCE), means.Constant(case.level)
    return GPRegressor(
        kernel, likelihood=case.likelihood, mean=mean, normalize_y=False, hyperparameters=Hyperparameters(fixed="*")
    )


def measure(piece: tuple[str, str, int]) -> dict[str, Any]:
    """Coverage and length of the intervals at the new rows of one set."""
    name, mode, number = piece
    drawn = draw(name, number)
    train, new = drawn.part(slice(ROWS)), drawn.part(slice(ROWS, None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(name, mode).fit(train.X, train.y, **train.side)
    known = {key: column for key, column in new.side.items() if key not in ("upper", "event")}
    low, high = model.predict_interval(new.X, LEVEL, **known)
    y = new.y
    if model.likelihood_.period:  # angles in the turn of the prediction
        centre = 0.5 * (low + high)
        y = centre + _wrapped(y - centre)
    up_to = model.predict_cdf(new.X, y, **known)
    below = up_to
    if model.likelihood_.discrete():
        below = np.where(y > 0, model.predict_cdf(new.X, y - 1, **known), 0.0)
    elif model.likelihood_.support == "amounts":
        below = np.where(y > 0, up_to, 0.0)
    u = below + np.random.default_rng(number).uniform(size=NEW) * (up_to - below)
    inside = (y >= low) & (y <= high)
    exact = np.abs(u - 0.5) < LEVEL / 2
    return {
        "likelihood": name, "mode": mode, "set": number, "rows": NEW, "converged": bool(model.converged_),
        "plain": int(np.sum(inside)), "exact": int(np.sum(exact)), "length": round(float(np.median(high - low)), 6),
    }  # fmt: skip


def table(lines: list[dict[str, Any]], before: str = "") -> str:
    """Shares over all sets, with standard errors of the sets' means; what has no lines is taken over from `before`."""
    kept = {tuple(row.split(" | ")[:2]): row for row in before.splitlines()}
    out = [
        "| likelihood | hyperparameters | sets | converged | coverage | plain coverage | median length |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        for mode in MODES:
            mine = [line for line in lines if line["likelihood"] == name and line["mode"] == mode]
            if not mine:
                out += [row] if (row := kept.get((f"| {name}", mode))) else []
                continue
            exact, plain = (np.array([line[key] / line["rows"] for line in mine]) for key in ("exact", "plain"))
            error = np.std(exact) / np.sqrt(len(mine))
            out.append(
                f"| {name} | {mode} | {len(mine)} | {sum(line['converged'] for line in mine)} | {exact.mean():.3f} ± "
                f"{error:.3f} | {plain.mean():.3f} | {np.median([line['length'] for line in mine]):.2f} |"
            )
    return "\n".join(out)


def text(lines: list[dict[str, Any]]) -> str:
    """README.md of the results; rows whose lines are not here stay as they are."""
    page = OUT / "README.md"
    return (
        "# Coverage of 90 % predictive intervals\n\n`python studies/interval_coverage.py --jobs N`, then "
        "`--table`. The "
        "head of the script describes the sets. *coverage* uses the randomised probability, *plain coverage* the "
        "whole-number intervals of `predict_interval`. Errors are standard errors of the mean over the sets, each of "
        f"{NEW} new rows.\n\n" + table(lines, page.read_text() if page.exists() else "") + "\n"
    )


def finished() -> list[dict[str, Any]]:
    path = OUT / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measured(pieces: list[tuple[str, str, int]], jobs: int) -> Iterator[dict[str, Any]]:
    """The results in the order of the pieces."""
    if jobs == 1:
        yield from map(measure, pieces)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(measure, pieces, chunksize=4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--likelihood", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        (OUT / "README.md").write_text(text(finished()))
        return
    sets = 3 if arguments.quick else arguments.sets
    before = [] if arguments.quick else finished()
    done = {(line["likelihood"], line["mode"], line["set"]) for line in before}
    pieces = [(n, mode, k) for n in arguments.likelihood for mode in arguments.modes for k in range(sets)]
    todo = [piece for piece in pieces if piece not in done]
    lines = list(before)
    if arguments.quick:
        lines += measured(todo, arguments.jobs)
        print(table(lines))
        return
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "results.jsonl", "a") as file:
        for line in measured(todo, arguments.jobs):
            file.write(json.dumps(line) + "\n")
            file.flush()
            lines.append(line)
    print(table(lines))


if __name__ == "__main__":
    main()
