"""Store evidences and predictions of GPy and GPBoost for tests/laws/test_against_peers.py.

In an environment with GPy and GPBoost (pip install GPy gpboost):

    python studies/peer_values.py tests/laws/peers.json

Every value is at the hyperparameters below.  sitewise is not imported here.  `studies/gpml_values.m` and
`studies/gpml_values.py` add the values of GPML afterwards.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
LENGTHSCALE, VARIANCE = 0.8, 1.7
# Student-t noise (and the deviation of Gaussian noise), Gamma's shape, Beta's precision.
SCALE, DF, SHAPE, PRECISION = 0.3, 4.0, 2.5, 8.0


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2023)
    X = rng.normal(size=(24, 2)).round(3)
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    noise = rng.standard_t(4, size=24)
    d = {
        "X": X,
        "X_new": rng.normal(size=(5, 2)).round(3),
        "labels": np.where(f + 0.5 * rng.logistic(size=24) > 0, 1.0, -1.0),
        "counts": rng.poisson(np.exp(f)).astype(float),
        "values": (f + 0.3 * noise).round(3),
    }
    d["positive"] = np.exp(d["values"]).round(3)
    d["shares"] = (1 / (1 + np.exp(-d["values"]))).round(3)
    d["outliers"] = (d["values"] + np.where(np.arange(24) % 8 == 3, 4.0, 0.0)).round(3)
    return d


def gpy(d: dict[str, np.ndarray]) -> list[dict]:
    import GPy

    Laplace = GPy.inference.latent_function_inference.Laplace
    EP = GPy.inference.latent_function_inference.EP
    probit = lambda: GPy.likelihoods.Bernoulli()  # noqa: E731
    jobs = [
        ("gaussian", "exact", "values", GPy.likelihoods.Gaussian(variance=SCALE**2), None),
        ("probit", "laplace", "labels", probit(), Laplace()),
        ("probit", "ep", "labels", probit(), EP(epsilon=1e-12)),
        ("poisson", "laplace", "counts", GPy.likelihoods.Poisson(), Laplace()),
        ("student-t", "laplace", "values", GPy.likelihoods.StudentT(deg_free=DF, sigma2=SCALE**2), Laplace()),
    ]
    out = []
    for likelihood, method, target, lik, inference in jobs:
        kernel = GPy.kern.Matern52(2, variance=VARIANCE, lengthscale=LENGTHSCALE)
        y = d[target] if target != "labels" else (d[target] > 0).astype(float)
        if method == "exact":
            model = GPy.models.GPRegression(d["X"], y[:, None], kernel, noise_var=SCALE**2)
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


def _row(
    peer: str, version: str, likelihood: str, method: str, kernel: str, target: str,
    evidence: np.ndarray, mean: np.ndarray, var: np.ndarray,
) -> dict:  # fmt: skip
    return {
        "peer": f"{peer} {version}", "likelihood": likelihood, "method": method, "kernel": kernel, "target": target,
        "evidence": float(np.ravel(evidence)[0]), "mean": np.ravel(mean).tolist(), "var": np.ravel(var).tolist(),
    }  # fmt: skip


def write(stored: dict, path: str) -> None:
    """One row of the table a line, so that a change of a value is a change of a line."""
    head = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in stored.items() if k not in ("data", "rows")]
    data = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in stored["data"].items())
    rows = ",\n".join(f" {json.dumps(row)}" for row in stored["rows"])
    with open(path, "w", encoding="utf-8") as file:
        file.write(",\n".join(["{" + head[0], *head[1:], f'"data": {{\n{data}\n}}', f'"rows": [\n{rows}\n]}}\n']))


def main() -> None:
    d = data()
    stored = {
        "lengthscale": LENGTHSCALE, "variance": VARIANCE, "scale": SCALE, "df": DF, "shape": SHAPE,
        "precision": PRECISION, "data": {k: v.tolist() for k, v in d.items()}, "rows": [*gpy(d), *gpboost(d)],
    }  # fmt: skip
    write(stored, sys.argv[1])


if __name__ == "__main__":
    main()
