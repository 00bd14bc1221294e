"""Compare evidences of joint classes with log Z as the prior widens: 150 rows of digits, ten classes.

    python studies/softmax_evidence.py [--variances V ...] [--table]

log Z by thermodynamic integration, ∫₀¹ E_β[log p(y|f)] dβ over p(f) p(y|f)^β, with elliptical slice sampling (Murray,
Adams & MacKay 2010) at 41 temperatures β = u⁵; "±" is half the difference between the halves of the draws.  It is
compared with Laplace's evidence on its own sites, the ELBO and EP's evidence on VI's sites, and the log loss on the
test rows of fold 0 of studies/multiclass.py by VI's posterior.  Matern 5/2, lengthscale 22.  One line per variance in
results/multiclass/evidence.jsonl; --table prints them.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from multiclass import rows_of
from sitewise import VI, Data, Laplace, Model, kernels, likelihoods, posterior
from sitewise.learning.fit import all_evidences

OUT = Path(__file__).resolve().parents[1] / "results" / "multiclass" / "evidence.jsonl"
LENGTHSCALE = 22.0


def _slice(key, f, root, beta, log_p):
    """One step of elliptical slice sampling for N(0, root rootᵀ) of each class times p^beta."""
    first, second, third = jax.random.split(key, 3)
    other = (root @ jax.random.normal(first, f.T.shape)).T
    level = beta * log_p(f) + jnp.log(jax.random.uniform(second))
    angle = jax.random.uniform(third, maxval=2 * jnp.pi)

    def at(angle):
        return f * jnp.cos(angle) + other * jnp.sin(angle)

    def shrink(state):
        angle, low, high, key = state
        low, high = jnp.where(angle < 0, angle, low), jnp.where(angle < 0, high, angle)
        key, draw = jax.random.split(key)
        return jax.random.uniform(draw, minval=low, maxval=high), low, high, key

    start = (angle, angle - 2 * jnp.pi, angle, third)
    return at(lax.while_loop(lambda s: beta * log_p(at(s[0])) < level, shrink, start)[0])


@functools.partial(jax.jit, static_argnums=(4, 5))
def _anneal(key, root, observed, betas, burn, keep):
    """Means of log p in both halves of the draws at each temperature, and its variance."""

    def log_p(f):
        return jnp.sum(jax.nn.log_softmax(f, axis=0) * observed)

    def stage(f, beta_key):
        beta, key = beta_key

        def step(f, key):
            f = _slice(key, f, root, beta, log_p)
            return f, log_p(f)

        f, values = lax.scan(step, f, jax.random.split(key, burn + keep))
        halves = values[burn:].reshape(2, -1).mean(axis=1)
        return f, (halves, jnp.var(values[burn:]))

    start = (root @ jax.random.normal(key, (root.shape[0], observed.shape[0]))).T
    return lax.scan(stage, start, (betas, jax.random.split(key, len(betas))))[1]


def log_z(K: np.ndarray, y: np.ndarray, burn: int = 1000, keep: int = 3000) -> tuple[float, float]:
    betas = np.linspace(0, 1, 41) ** 5
    root = np.linalg.cholesky(K + 1e-8 * K[0, 0] * np.eye(len(y)))
    observed = np.eye(int(y.max()) + 1)[y].T
    halves, var = _anneal(jax.random.key(1), root, observed, betas, burn, keep)
    step = np.diff(betas)[:, None]
    middle = step * (halves[1:] + halves[:-1]) / 2 - step**2 / 12 * np.diff(var)[:, None]  # the derivative in β is var
    each = np.asarray(middle).sum(axis=0)
    return float(each.mean()), float(abs(each[0] - each[1]) / 2)


def measure(variance: float) -> dict:
    X, y, X_test, y_test = rows_of("digits-150", 0)
    model, data = (
        Model.full(kernels.Matern52(LENGTHSCALE, variance), likelihoods.Softmax(10)),
        Data.of(X, y.astype(float)),
    )
    sites = {m.name: m.solve(model, data).sites for m in (VI(), Laplace())}
    on_vi = all_evidences(model, data, sites["vi"])
    mean, cov = posterior(model, data, sites["vi"]).f(jnp.asarray(X_test))
    truth, error = log_z(np.asarray(model.prior.kernel.matrix(jnp.asarray(X))), y)
    return {
        "variance": variance, "log_z": truth, "error": error,
        "laplace": all_evidences(model, data, sites["laplace"])["laplace"], "elbo": on_vi["elbo"], "ep": on_vi["ep"],
        "log_loss": float(log_loss(y_test, np.exp(model.likelihood.log_probabilities(mean, cov)))),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variances", nargs="*", type=float, default=[120.0, 300.0, 1000.0])
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    rows = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    if options.table:
        print(
            "| σ² | log Z | Laplace | ELBO of VI | EP-like on VI's sites | test log loss |\n|---|---|---|---|---|---|"
        )
        for r in sorted(rows, key=lambda r: r["variance"]):
            print(
                f"| {r['variance']:g} | {r['log_z']:.1f} ± {r['error']:.1f} | {r['laplace']:.1f} | {r['elbo']:.1f} "
                f"| {r['ep']:.1f} | {r['log_loss']:.3f} |"
            )
        return
    jax.config.update("jax_enable_x64", True)
    for variance in options.variances:
        if variance not in {r["variance"] for r in rows}:
            with threadpool_limits(1), OUT.open("a") as file:
                file.write(json.dumps(measure(variance)) + "\n")


if __name__ == "__main__":
    main()
