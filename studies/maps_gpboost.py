"""Fit a map of `studies/maps.py simulate` with GPBoost (Vecchia–Laplace), in an environment with gpboost and numpy.

python studies/maps_gpboost.py map.npz [iterative|cholesky]
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gpboost as gpb
import numpy as np

OUT = Path(__file__).resolve().parents[1] / "results" / "maps" / "results.jsonl"


def main(file: str, inversion: str = "iterative") -> None:
    with np.load(file) as found:
        X, y, rows, target = found["X"], found["y"], int(found["rows"]), str(found["target"])
        variance = float(found["variance"])
    start = time.process_time()
    model = gpb.GPModel(
        gp_coords=X[:rows], cov_function="matern", cov_fct_shape=1.5, gp_approx="vecchia", num_neighbors=20,
        likelihood="bernoulli_logit" if target == "binary" else "poisson", matrix_inversion_method=inversion,
        num_parallel_threads=1,
    )  # fmt: skip
    model.fit(y=y[:rows], X=np.ones((rows, 1)))
    fitted = time.process_time()
    new = np.ones((len(X) - rows, 1))
    if target == "binary":
        p = np.asarray(model.predict(gp_coords_pred=X[rows:], X_pred=new, predict_response=True)["mu"])
        density = np.where(y[rows:] > 0, np.log(p), np.log1p(-p))
    else:
        found = model.predict(gp_coords_pred=X[rows:], X_pred=new, predict_response=False, predict_var=True)
        density = poisson_log_normal(y[rows:], np.asarray(found["mu"]), np.asarray(found["var"]))
    line = {
        "what": "fit", "library": f"GPBoost {gpb.__version__}", "method": f"laplace, {inversion}", "target": target,
        "rows": rows, "variance": variance, "log_density": float(np.mean(density)),
        "error": float(np.std(density) / np.sqrt(len(density))), "fit_s": fitted - start,
        "predict_s": time.process_time() - fitted, "held_out": len(density),
        "learned": [float(v) for v in np.ravel(model.get_cov_pars())],
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }  # fmt: skip
    with OUT.open("a") as out:
        out.write(json.dumps(line) + "\n")
    print(line, flush=True)


def poisson_log_normal(y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return log ∫ Poisson(y | e^f) N(f | mean, var) df, by 60 points of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = mean[:, None] + np.sqrt(var)[:, None] * nodes
    gamma = np.array([np.sum(np.log(np.arange(1, int(k) + 1))) for k in y])
    values = y[:, None] * f - np.exp(f) - gamma[:, None] + np.log(weights / np.sqrt(2 * np.pi))
    top = values.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.sum(np.exp(values - top), axis=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
