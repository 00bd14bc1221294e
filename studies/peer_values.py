"""Evidences and predictions by other people's code, stored once for tests/laws/test_against_peers.py.

In an environment with GPy and GPBoost (pip install GPy gpboost):

    python studies/peer_values.py tests/laws/peers.json

Every value is at given hyperparameters: ℓ = 0.8, σ² = 1.7.  sitewise is not imported here.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
LENGTHSCALE, VARIANCE = 0.8, 1.7


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2023)
    X = rng.normal(size=(24, 2)).round(3)
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    noise = rng.standard_t(4, size=24)
    return {
        "X": X,
        "X_new": rng.normal(size=(5, 2)).round(3),
        "labels": np.where(f + 0.5 * rng.logistic(size=24) > 0, 1.0, -1.0),
        "counts": rng.poisson(np.exp(f)).astype(float),
        "values": (f + 0.3 * noise).round(3),
    }


def gpy(d: dict[str, np.ndarray]) -> list[dict]:
    import GPy

    Laplace = GPy.inference.latent_function_inference.Laplace
    EP = GPy.inference.latent_function_inference.EP
    probit = lambda: GPy.likelihoods.Bernoulli()  # noqa: E731
    jobs = [
        ("gaussian", "exact", "values", GPy.likelihoods.Gaussian(variance=0.09), None),
        ("probit", "laplace", "labels", probit(), Laplace()),
        ("probit", "ep", "labels", probit(), EP(epsilon=1e-12)),
        ("poisson", "laplace", "counts", GPy.likelihoods.Poisson(), Laplace()),
        ("student-t", "laplace", "values", GPy.likelihoods.StudentT(deg_free=4.0, sigma2=0.09), Laplace()),
    ]
    out = []
    for likelihood, method, target, lik, inference in jobs:
        kernel = GPy.kern.Matern52(2, variance=VARIANCE, lengthscale=LENGTHSCALE)
        y = d[target] if target != "labels" else (d[target] > 0).astype(float)
        if method == "exact":
            model = GPy.models.GPRegression(d["X"], y[:, None], kernel, noise_var=0.09)
        else:
            model = GPy.core.GP(d["X"], y[:, None], kernel=kernel, likelihood=lik, inference_method=inference)
        mean, var = model._raw_predict(d["X_new"])
        out.append(
            _row("GPy", GPy.__version__, likelihood, method, "matern52", target, model.log_likelihood(), mean, var)
        )
    return out


def gpboost(d: dict[str, np.ndarray]) -> list[dict]:
    import gpboost as gpb

    out = []
    for likelihood, name, target in (
        ("probit", "bernoulli_probit", "labels"),
        ("logit", "bernoulli_logit", "labels"),
        ("poisson", "poisson", "counts"),
    ):
        # Its Gaussian covariance is exp(−d²/ρ²): ρ = √2 ℓ.
        model = gpb.GPModel(gp_coords=d["X"], cov_function="gaussian", likelihood=name)
        pars = np.array([VARIANCE, np.sqrt(2) * LENGTHSCALE])
        y = d[target] if target != "labels" else (d[target] > 0).astype(float)
        value = -model.neg_log_likelihood(cov_pars=pars, y=y)
        found = model.predict(
            y=y, cov_pars=pars, gp_coords_pred=d["X_new"], predict_var=True, predict_response=False
        )  # fmt: skip
        out.append(
            _row("GPBoost", gpb.__version__, likelihood, "laplace", "rbf", target, value, found["mu"], found["var"])
        )
    return out


def _row(peer, version, likelihood, method, kernel, target, evidence, mean, var) -> dict:
    return {
        "peer": f"{peer} {version}", "likelihood": likelihood, "method": method, "kernel": kernel, "target": target,
        "evidence": float(np.ravel(evidence)[0]), "mean": np.ravel(mean).tolist(), "var": np.ravel(var).tolist(),
    }  # fmt: skip


def main() -> None:
    d = data()
    rows = [*gpy(d), *gpboost(d)]
    stored = {
        "lengthscale": LENGTHSCALE, "variance": VARIANCE, "data": {k: v.tolist() for k, v in d.items()}, "rows": rows,
    }  # fmt: skip
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(stored, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
