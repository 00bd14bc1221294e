"""Simulation-based calibration (Talts et al. 2018) of the hyperparameter sampler on a probit and a Student-t model.

    python studies/sbc.py --replications 200 --jobs 16 --out results/mcmc/sbc.json

Draw θ from its prior, f and y from the model, sample the posterior, and rank θ among the draws: if the sampler is
right, ranks are uniform (χ² test over eight bins).
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chisquare

from sitewise import Data, Model, kernels, likelihoods
from sitewise.hyperpriors import LogNormal
from sitewise.mcmc import sample
from sitewise.mcmc.reference import prior_root
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision

DRAWS, THIN, BINS = 15, 3, 8
MODELS = {
    "probit": (
        Model.full(kernels.Matern32(), likelihoods.BernoulliProbit()),
        {"kernel.lengthscale": LogNormal(0.0, 0.7), "kernel.variance": LogNormal(1.0, 1.0)},
    ),
    "student-t": (
        Model.full(kernels.Matern32(), likelihoods.StudentT(df=4.0)),
        {
            "kernel.lengthscale": LogNormal(0.0, 0.7),
            "kernel.variance": LogNormal(0.0, 0.7),
            "likelihood.scale": LogNormal(-1.0, 0.5),
        },
    ),
}


def ranks(name: str, rows: int, seed: int) -> np.ndarray:
    """The rank of every hyperparameter among the draws of one chain, `THIN` proposals apart."""
    model, priors = MODELS[name]
    trainable, rng = Trainable.of(model), np.random.default_rng([seed, rows])
    given = [priors[label] for label in trainable.labels]
    truth = np.array([p.location + p.scale * rng.standard_normal() for p in given])
    X = np.linspace(-2.0, 2.0, rows)[:, None]
    with working_precision():
        here = trainable.from_vector(model, jnp.asarray(truth))
        empty = Data(jnp.asarray(X), jnp.zeros(rows), jnp.ones(rows))
        mean, A, _ = prior_root(here, empty)
        f = mean + A @ rng.standard_normal(rows)
        y = np.asarray(here.likelihood.sample(jax.random.key(seed), f))
    samples = sample(model, Data.of(X, y), priors=priors, chains=1, warmup=5, draws=DRAWS, thin=THIN, seed=seed)
    return np.sum(samples.vectors[0] < truth, axis=0)


def calibrate(name: str, replications: int, rows: int, seed: int, jobs: int) -> dict:
    """Rank counts and χ² p-values of every hyperparameter of the model."""
    one = functools.partial(ranks, name, rows)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        found = np.array(pool.map(one, range(seed, seed + replications), chunksize=1))
    out = {}
    for label, values in zip(Trainable.of(MODELS[name][0]).labels, found.T, strict=True):
        counts = np.bincount(values * BINS // (DRAWS + 1), minlength=BINS)
        out[label] = {"counts": counts.tolist(), "p": float(chisquare(counts).pvalue)}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--out", type=Path, default=Path("results/mcmc/sbc.json"))
    args = parser.parse_args()
    report: dict = {"replications": args.replications, "rows": args.rows, "seed": args.seed}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for name in args.models:
        start = time.perf_counter()
        report[name] = calibrate(name, args.replications, args.rows, args.seed, args.jobs)
        report[name + "_seconds"] = round(time.perf_counter() - start, 1)
        print(name, json.dumps(report[name]), flush=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
