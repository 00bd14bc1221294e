"""Test the error bar of log Z by annealed importance sampling against brute force and closed forms.

    python studies/ais_exactness.py --out results/mcmc/exactness.json

n = 3 with 1000 seeds (brute force) and n = 50 with 100 seeds (closed form).  Counts the seeds within three standard
errors, in total and per hundred; a correct standard error gives 99.7 of 100.  Reports both directions together (the
result of `log_evidence`) and the forward runs alone.  Settings are the defaults except the path: from EP a Gaussian
likelihood is exact without annealing, and annealing starts from the prior there.  Cases in the file are not run again.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import Data, Model, kernels, likelihoods, means
from sitewise.mcmc import Annealing, ais
from sitewise.mcmc.point_blocks import path_sites
from sitewise.mcmc.reference import Target, reference
from sitewise.process.precision import working_precision


@functools.partial(jax.jit, static_argnums=0)
def _many(settings, model, data, seeds, steps):
    target = Target(reference(model, data, path_sites(settings.path, model, data)[0]), model.likelihood, data)
    pilot = jnp.minimum(steps, settings.pilot)
    return jax.vmap(lambda s: ais.anneal(settings, jax.random.key(s), target, steps, pilot)[0])(seeds)


def estimates(settings: Annealing, model: Model, data: Data, steps: int, seeds: int):
    """Independent estimates of log Z, one per seed."""
    with working_precision():
        data = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data)
        return jax.tree.map(np.asarray, _many(settings, model, data, jnp.arange(seeds), steps))


def brute_force(model: Model, data: Data) -> float:
    """Σ over a tensor grid of N(f; μ, K) Π p_i^w."""
    with working_precision():
        gram = model.prior.gram(jnp.asarray(data.X))
        L = np.linalg.cholesky(np.asarray(gram.K))
        u = np.linspace(-8.5, 8.5, 81)
        mesh = np.stack(np.meshgrid(*[u] * data.rows, indexing="ij"), axis=-1).reshape(-1, data.rows)
        f = mesh @ L.T + np.asarray(gram.mean)
        log_p = np.asarray(model.likelihood.log_prob(jnp.asarray(data.y), jnp.asarray(f))) @ data.weight
        log_w = log_p - 0.5 * np.sum(mesh**2, axis=1) + data.rows * np.log((u[1] - u[0]) / np.sqrt(2 * np.pi))
        return float(np.logaddexp.reduce(log_w))


THREE_ROWS = {
    "probit": (likelihoods.BernoulliProbit(), [1.0, -1.0, 1.0]),
    "student-t": (likelihoods.StudentT(scale=0.5), [0.3, 2.5, -1.0]),
    "poisson": (likelihoods.Poisson(), [0.0, 3.0, 7.0]),
}


def three_rows(name: str) -> tuple[Model, Data]:
    likelihood, y = THREE_ROWS[name]
    model = Model.full(kernels.Matern52(variance=4.0), likelihood, means.Constant(0.2))
    return model, Data.of(np.array([[0.0], [0.4], [1.5]]), y, weight=[1.0, 2.0, 1.0])


def gaussian(noise: float = 1.0) -> tuple[Model, Data, float]:
    """n = 50, and its exact log Z."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = np.sin(X[:, 0]) + noise * rng.normal(size=50)
    model = Model.full(kernels.RBF(), likelihoods.Gaussian(scale=noise))
    with working_precision():
        C = np.asarray(model.prior.gram(jnp.asarray(X)).K) + noise**2 * np.eye(50)
    exact = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + 50 * np.log(2 * np.pi))
    return model, Data.of(X, y), float(exact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1000, help="for three rows; a tenth of it for fifty")
    parser.add_argument("--steps", type=int, default=256, help="temperatures")
    args = parser.parse_args()
    rows = json.loads(args.out.read_text()) if args.out.exists() else []

    def record(case: str, settings: Annealing, model: Model, data: Data, exact: float, seeds: int) -> None:
        if (case, settings.path) in [(row["case"], row["path"]) for row in rows]:
            return
        found = estimates(settings, model, data, args.steps, seeds)
        row = {
            "case": case, "path": settings.path, "chains": settings.chains, "temperatures": args.steps,
            "seeds": seeds, "exact": exact, "median_ess": float(np.median(found.ess)),
        }  # fmt: skip
        for name, value, se in (("both", found.log_z, found.se), ("forward", found.lower, found.lower_se)):
            miss = np.abs(value - exact) / se
            row[name] = {
                "within_3_se": int(np.sum(miss <= 3)),
                "by_hundreds": [int(np.sum(part <= 3)) for part in np.split(miss, range(100, len(miss), 100))],
                "largest_miss_in_se": float(np.max(miss)),
                "median_se": float(np.median(se)), "rmse": float(np.sqrt(np.mean((value - exact) ** 2))),
            }  # fmt: skip
        rows.append(row)
        print(row, flush=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")

    for name in THREE_ROWS:
        model, data = three_rows(name)
        exact = brute_force(model, data)
        for path in ("ep", "prior"):
            record(name, Annealing(path=path), model, data, exact, args.seeds)
    for noise in (1.0, 0.5):
        model, data, exact = gaussian(noise)
        record(f"gaussian, n = 50, noise {noise}", Annealing(path="prior"), model, data, exact, args.seeds // 10)


if __name__ == "__main__":
    main()
