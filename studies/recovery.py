"""Test whether known hyperparameters are recovered from simulated data, by the hybrid from a start twice as large.

    python studies/recovery.py [--likelihoods NAME ...] [--sets N] [--table]

A set has 200 rows, x uniform on [0, 20], f drawn from a Matern 5/2 GP of lengthscale 1.5 and variance 1.5, y drawn by
NumPy, not by the library; sets of one number share x and f between likelihoods.  Every fit is one line of
results/recovery/results.jsonl and is not run again; --table writes results/recovery/README.md.  "Errors apart" is the
distance of the mean estimate from the truth in standard errors over the sets (of logarithms, for positive parameters):
about one by chance, more if the approximation is biased.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from sitewise import Data, Model, kernels, likelihoods, resolve
from sitewise.parameters import Trainable, values, with_values
from sitewise.supports import Bounded, Positive, Support

RESULTS = Path(__file__).resolve().parents[1] / "results" / "recovery"
ROWS = RESULTS / "results.jsonl"
LENGTHSCALE, VARIANCE = 1.5, 1.5


class Case(NamedTuple):
    """A likelihood with its true parameters, how y is drawn given f, and what is learned although held by default."""

    truth: likelihoods.Likelihood
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    train: tuple[str, ...] = ()


def _counts(f, rng, exposure, shape=None):
    mean = exposure * np.exp(f)
    y = rng.poisson(mean if shape is None else mean * rng.gamma(shape, 1 / shape, f.shape))
    return np.column_stack([y, np.full(f.shape, exposure)])


def _censored(f, rng):
    y = f + 0.4 * rng.normal(size=f.shape)
    return np.column_stack([np.minimum(y, 0.8), np.where(y > 0.8, np.inf, y)])


def _uneven(f, rng):
    var = rng.uniform(0.05, 0.5, f.shape)
    return np.column_stack([f + np.sqrt(var) * rng.normal(size=f.shape), var])


def _lifetimes(f, rng, noise, shape):
    """Right-censored at random times, in a quarter or so of the rows."""
    time, stop = np.exp(f + noise / shape), rng.exponential(8.0, f.shape)
    return np.column_stack([np.minimum(time, stop), np.where(time <= stop, time, np.inf)])


def _inflated(f, rng, shape=None):
    y = _counts(f, rng, 8.0, shape)
    y[:, 0] *= rng.uniform(size=f.shape) > 0.3
    return y


def _tweedie(f, rng, phi=0.6, p=1.5):
    mean = np.exp(f)
    count = rng.poisson(mean ** (2 - p) / (phi * (2 - p)))
    return np.where(
        count > 0, rng.gamma(np.maximum(count, 1) * (2 - p) / (p - 1), phi * (p - 1) * mean ** (p - 1)), 0.0
    )


def _hurdle(f, rng):
    return np.where(rng.uniform(size=f.shape) < expit(0.5 + 0.8 * f), np.exp(f) * rng.gamma(3.0, 1 / 3.0, f.shape), 0.0)


def _scattered(f, rng):
    share = rng.beta(8 * expit(f), 8 * expit(-f))
    return np.column_stack([rng.binomial(20, share), np.full(f.shape, 20)])


def _two_outputs(f, rng):
    """Values and counts in turn."""
    output = np.arange(len(f)) % 2
    y = np.where(output == 0, f + 0.4 * rng.normal(size=f.shape), rng.poisson(5 * np.exp(f)))
    return np.column_stack([y, output, np.where(output == 0, 1.0, 5.0)])


CUTS = np.array([-0.8, 0.1, 0.8])
CASES = {
    "gaussian": Case(likelihoods.Gaussian(0.4), lambda f, rng: f + 0.4 * rng.normal(size=f.shape)),
    "student-t": Case(likelihoods.StudentT(0.3, 3.0), lambda f, rng: f + 0.3 * rng.standard_t(3, f.shape)),
    "student-t, df learned": Case(
        likelihoods.StudentT(0.3, 3.0), lambda f, rng: f + 0.3 * rng.standard_t(3, f.shape), ("likelihood.df",)
    ),
    "laplace-noise": Case(likelihoods.LaplaceNoise(0.3), lambda f, rng: f + rng.laplace(0, 0.3, f.shape)),
    "heteroscedastic-gaussian": Case(likelihoods.HeteroscedasticGaussian(), _uneven),
    "censored-gaussian": Case(likelihoods.CensoredGaussian(0.4), _censored),
    "poisson": Case(likelihoods.Poisson(exposure=True), lambda f, rng: _counts(f, rng, 5.0)),
    "negative-binomial": Case(
        likelihoods.NegativeBinomial(2.0, exposure=True), lambda f, rng: _counts(f, rng, 10.0, 2.0)
    ),
    "binomial": Case(
        likelihoods.Binomial(), lambda f, rng: np.column_stack([rng.binomial(20, expit(f)), np.full(f.shape, 20)])
    ),
    "beta": Case(likelihoods.Beta(12.0), lambda f, rng: rng.beta(12 * expit(f), 12 * expit(-f))),
    "gamma": Case(likelihoods.Gamma(3.0), lambda f, rng: np.exp(f) * rng.gamma(3.0, 1 / 3.0, f.shape)),
    "log-normal": Case(likelihoods.LogNormal(0.5), lambda f, rng: np.exp(f + 0.5 * rng.normal(size=f.shape))),
    "ordinal": Case(
        likelihoods.Ordinal(CUTS[0], np.diff(CUTS)),
        lambda f, rng: np.sum((f + rng.normal(size=f.shape))[:, None] > CUTS, axis=1).astype(float),
    ),
    "weibull": Case(
        likelihoods.Weibull(1.7, censored=True),
        lambda f, rng: _lifetimes(f, rng, np.log(rng.exponential(size=f.shape)), 1.7),
    ),
    "log-logistic": Case(
        likelihoods.LogLogistic(3.0, censored=True), lambda f, rng: _lifetimes(f, rng, rng.logistic(size=f.shape), 3.0)
    ),
    "zero-inflated-poisson": Case(likelihoods.ZeroInflatedPoisson(0.3, exposure=True), _inflated),
    "zero-inflated-negative-binomial": Case(
        likelihoods.ZeroInflatedNegativeBinomial(0.3, 3.0, exposure=True), lambda f, rng: _inflated(f, rng, 3.0)
    ),
    "hurdle-gamma": Case(likelihoods.HurdleGamma(3.0, 0.5, 0.8), _hurdle),
    "tweedie": Case(likelihoods.Tweedie(0.6, 1.5), _tweedie),
    "beta-binomial": Case(likelihoods.BetaBinomial(8.0), _scattered),
    "asymmetric-laplace": Case(
        likelihoods.AsymmetricLaplace(0.2, quantile=0.8),
        lambda f, rng: f + rng.exponential(0.25, f.shape) - rng.exponential(1.0, f.shape),
    ),
    "von-mises": Case(
        likelihoods.VonMises(6.0), lambda f, rng: np.angle(np.exp(1j * (f + rng.vonmises(0, 6, len(f)))))
    ),
    "switched": Case(
        likelihoods.Switched([likelihoods.Gaussian(0.4), likelihoods.Poisson(exposure=True)]), _two_outputs
    ),
    "probit": Case(
        likelihoods.BernoulliProbit(), lambda f, rng: np.where(rng.uniform(size=f.shape) < norm.cdf(f), 1.0, -1.0)
    ),
}


def simulate(name: str, seed: int, rows: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, rows / 10, (rows, 1)), axis=0)
    r = np.sqrt(5) * np.abs(X - X.T) / LENGTHSCALE
    K = VARIANCE * (1 + r + r**2 / 3) * np.exp(-r)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(rows)) @ rng.normal(size=rows)
    return X, CASES[name].draw(f, rng)


def _away(support: Support, value: np.ndarray) -> np.ndarray:
    """Where learning starts: twice the truth, half a unit above it, or so far away in an interval."""
    if isinstance(support, Bounded):
        return support.backward(support.forward(value) + 0.5)
    return 2 * value if support == Positive() else value + 0.5


def estimate(name: str, seed: int, rows: int = 200) -> dict:
    """The learned parameters of one set, beside the true ones."""
    case = CASES[name]
    X, y = simulate(name, seed, rows)
    truth = Model.full(kernels.Matern52(LENGTHSCALE, VARIANCE), case.truth)
    learned = Trainable.of(truth, train=case.train).parameters
    before = values(truth)
    start = with_values(truth, {p.name: _away(p.support, before[p.name]) for p in learned})
    with threadpool_limits(1):
        fit = resolve("hybrid", train=case.train).fit(start, Data.of(X, y))
    labels = Trainable(learned).labels
    true, found = (np.concatenate([np.ravel(v[p.name]) for p in learned]) for v in (before, fit.parameters))
    positive = np.concatenate([np.full(p.size, p.support == Positive()) for p in learned])
    return {
        "likelihood": name, "seed": seed, "rows": rows, "converged": bool(fit.converged), "labels": labels,
        "truth": true.tolist(), "estimate": found.tolist(), "positive": positive.tolist(),
    }  # fmt: skip


def finished() -> list[dict]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def table(rows: list[dict]) -> str:
    groups: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        groups[row["likelihood"]].append(row)
    lines = [
        "| likelihood | parameter | truth | mean estimate | sd of estimates | errors apart | converged |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        found = groups[name]
        for i, label in enumerate(found[0]["labels"] if found else ()):
            truth, estimates = found[0]["truth"][i], np.array([r["estimate"][i] for r in found])
            off = np.log(estimates / truth) if found[0]["positive"][i] else estimates - truth
            apart = np.mean(off) / (np.std(off, ddof=1) / np.sqrt(len(off)))
            lines.append(
                f"| {name} | {label} | {truth:.3g} | {np.mean(estimates):.3g} | {np.std(estimates, ddof=1):.2g} "
                f"| {apart:+.1f} | {sum(r['converged'] for r in found)} of {len(found)} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--likelihoods", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if options.table:
        about = str(__doc__).strip()
        (RESULTS / "README.md").write_text(f"# Recovery of known hyperparameters\n\n{about}\n\n{table(finished())}\n")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = {(r["likelihood"], r["seed"]) for r in finished()}
    for name in options.likelihoods:
        for seed in range(options.sets):
            if (name, seed) in done:
                continue
            row = estimate(name, seed)
            with ROWS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(name, seed, dict(zip(row["labels"], np.round(row["estimate"], 3), strict=True)), flush=True)


if __name__ == "__main__":
    main()
