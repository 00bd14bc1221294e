"""Simulation-based calibration (Talts et al. 2018) of the hyperparameter sampler on a probit and a Student-t model.

    python studies/sbc.py --replications 400 --out results/mcmc/sbc.json

Draw θ from its prior, f and y from the model, sample the posterior, and rank θ among the draws: if the sampler is
right, ranks are uniform (χ² test over eight bins).
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.stats import chisquare

from sitewise import Data, Model, kernels, likelihoods
from sitewise.hyperpriors import LogNormal
from sitewise.inference.start import initial_sites
from sitewise.mcmc import surrogate
from sitewise.parameters import Trainable
from sitewise.runtime.precision import working_precision

DRAWS, BINS = 15, 8
MODELS = {
    "probit": (
        Model.full(kernels.Matern32(), likelihoods.BernoulliProbit()),
        (("kernel.lengthscale", LogNormal(0.0, 0.7)), ("kernel.variance", LogNormal(1.0, 1.0))),
    ),
    "student-t": (
        Model.full(kernels.Matern32(), likelihoods.StudentT(df=4.0)),
        (
            ("kernel.lengthscale", LogNormal(0.0, 0.7)),
            ("kernel.variance", LogNormal(0.0, 0.7)),
            ("likelihood.scale", LogNormal(-1.0, 0.5)),
        ),
    ),
}


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _ranks(trainable, priors, rows, batch, model, keys, thin):
    X = jnp.linspace(-2.0, 2.0, rows)[:, None]
    location = jnp.array([p.location for _, p in priors])
    scale = jnp.array([p.scale for _, p in priors])
    limits = jnp.stack([location - 8 * scale, location + 8 * scale], axis=1)

    def replication(key):
        key_theta, key_z, key_y, key_run, key_start = jax.random.split(key, 5)
        truth = location + scale * jax.random.normal(key_theta, location.shape)
        here = trainable.from_vector(model, truth)
        empty = Data(X, jnp.zeros(rows), jnp.ones(rows))
        no_sites = initial_sites(likelihoods.Gaussian(), empty)
        prior = surrogate.Posterior(trainable, priors, model, empty, no_sites, limits)
        state = surrogate.State(truth, jax.random.normal(key_z, (rows,)))
        f = surrogate.latent(prior, state)
        data = Data(X, here.likelihood.sample(key_y, f), jnp.ones(rows))
        target = prior._replace(data=data, sites=initial_sites(model.likelihood, data))
        directions = 2.5 * jnp.diag(scale)

        def draw(state, t):
            def one(i, state):
                key_sweep = jax.random.fold_in(jax.random.fold_in(key_run, t), i)
                return surrogate.sweep(key_sweep, target, state, directions, 2)[0]

            state = lax.fori_loop(0, thin, one, state)
            return state, state.vector

        # The chain starts anywhere (not at the truth) and forgets it over the first `DRAWS` draws.
        start = location + scale * jax.random.normal(key_start, location.shape)
        _, vectors = lax.scan(draw, surrogate.State(start, jnp.zeros(rows)), jnp.arange(2 * DRAWS))
        return jnp.sum(vectors[DRAWS:] < truth, axis=0)

    return lax.map(replication, keys, batch_size=batch)


def calibrate(name: str, replications: int, rows: int = 8, thin: int = 6, seed: int = 0, batch: int = 50) -> dict:
    """Rank counts and χ² p-values of every hyperparameter of the model."""
    model, priors = MODELS[name]
    trainable = Trainable.of(model)
    assert tuple(p for p, _ in priors) == tuple(trainable.labels)
    with working_precision():
        keys = jax.random.split(jax.random.key(seed), replications)
        ranks = np.asarray(_ranks(trainable, priors, rows, batch, model, keys, thin))
    out = {}
    for label, values in zip(trainable.labels, ranks.T, strict=True):
        counts = np.bincount(values * BINS // (DRAWS + 1), minlength=BINS)
        out[label] = {"counts": counts.tolist(), "p": float(chisquare(counts).pvalue)}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--thin", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/mcmc/sbc.json"))
    args = parser.parse_args()
    report: dict = {k: v for k, v in vars(args).items() if k != "out"}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        start = time.perf_counter()
        report[name] = calibrate(name, args.replications, args.rows, args.thin, args.seed)
        report[name + "_seconds"] = round(time.perf_counter() - start, 1)
        print(name, json.dumps(report[name]), flush=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
