"""GPy: Laplace, and EP run again whenever the hyperparameters move (`ep_mode="nested"`); probit link.

With the argument `parallel` its EP updates all sites at once, which is not its default.
"""

import sys

import GPy
import numpy as np
import protocol
from GPy.inference.latent_function_inference import EP, Laplace

METHODS = {"laplace": Laplace, "ep": lambda: EP(ep_mode="nested", parallel_updates="parallel" in sys.argv)}


def _model(method: str, data: dict, lengthscale: float = 1.0, variance: float = 1.0) -> GPy.core.GP:
    if method not in METHODS:
        raise NotImplementedError("is measured for Laplace and EP")
    X, y = data["X"], (data["y"] > 0).astype(float)[:, None]
    kernel = GPy.kern.Matern52(X.shape[1], lengthscale=lengthscale, variance=variance)
    return GPy.core.GP(X, y, kernel=kernel, likelihood=GPy.likelihoods.Bernoulli(), inference_method=METHODS[method]())


def fit(task: dict, data: dict) -> dict:
    model = _model(task["method"], data)
    model.optimize("lbfgsb", max_iters=200)
    return {
        "objective": float(model.log_likelihood()) / len(data["y"]),
        "parameters": {"lengthscale": float(model.kern.lengthscale[0]), "variance": float(model.kern.variance[0])},
    }


def grid(task: dict, data: dict) -> dict:
    """One model at every point, inference only; a point that raises or is not finite counts as failed."""
    values = []
    for log_sigma in task["log_sigma"]:
        for log_lengthscale in task["log_lengthscale"]:
            try:
                model = _model(task["method"], data, np.exp(log_lengthscale), np.exp(2 * log_sigma))
                values.append(float(model.log_likelihood()))
            except Exception:
                values.append(np.nan)
    values = np.array(values)
    good = np.isfinite(values)
    return {"points": len(values), "failed": int((~good).sum()), "best": float(values[good].max()) / len(data["y"])}


if __name__ == "__main__":
    protocol.serve({"fit": fit, "grid": grid}, {"library": f"GPy {GPy.__version__}"})
