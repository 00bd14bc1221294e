"""A table that stays: evidences and predictions against independent code.

scikit-learn is run here; GPy's and GPBoost's values are stored in peers.json with the versions that gave them, and
`studies/peer_values.py` makes that file again.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from sitewise import EP, Data, Laplace, Model, evidence, kernels, likelihoods, posterior

PEERS = json.loads((Path(__file__).parent / "peers.json").read_text())
KERNELS = {"matern52": kernels.Matern52, "rbf": kernels.RBF}
LIKELIHOODS = {
    "gaussian": likelihoods.Gaussian(0.3),
    "probit": likelihoods.BernoulliProbit(),
    "logit": likelihoods.BernoulliLogit(),
    "poisson": likelihoods.Poisson(),
    "student-t": likelihoods.StudentT(0.3, 4.0),
}
METHODS = {"exact": (EP(), evidence.ep), "laplace": (Laplace(), evidence.laplace), "ep": (EP(), evidence.ep)}
# GPy stops its Newton steps and its EP sweeps early; the others go to the end.
TOLERANCE = {"GPy": 2e-3, "GPBoost": 1e-4, "scikit-learn": 1e-4}


def found(row):
    model = Model.full(KERNELS[row["kernel"]](PEERS["lengthscale"], PEERS["variance"]), LIKELIHOODS[row["likelihood"]])
    data = Data.of(PEERS["data"]["X"], PEERS["data"][row["target"]])
    method, read = METHODS[row["method"]]
    solution = method.solve(model, data)
    assert solution.outcome.ok
    mean, var = posterior(model, data, solution.sites).f(np.array(PEERS["data"]["X_new"]))
    return float(read(model, data, solution.sites)), np.asarray(mean), np.asarray(var)


def scikit_learn():
    d = {k: np.array(v) for k, v in PEERS["data"].items()}
    for name, kernel in (("rbf", RBF(PEERS["lengthscale"])), ("matern52", Matern(PEERS["lengthscale"], nu=2.5))):
        model = GaussianProcessClassifier(ConstantKernel(PEERS["variance"]) * kernel, optimizer=None)
        fitted = model.fit(d["X"], d["labels"])
        inner = fitted.base_estimator_
        cross = inner.kernel_(d["X_new"], d["X"])
        solved = np.linalg.solve(inner.L_, inner.W_sr_[:, None] * cross.T)
        yield {
            "peer": "scikit-learn", "likelihood": "logit", "method": "laplace", "kernel": name, "target": "labels",
            "evidence": fitted.log_marginal_likelihood_value_, "mean": cross @ (inner.y_train_ - inner.pi_),
            "var": PEERS["variance"] - np.sum(solved**2, axis=0),
        }  # fmt: skip


@pytest.mark.parametrize(
    "row", [*PEERS["rows"], *scikit_learn()], ids=lambda r: f"{r['peer']}-{r['likelihood']}-{r['method']}-{r['kernel']}"
)
def test_evidence_and_predictions(row):
    value, mean, var = found(row)
    tol = TOLERANCE[row["peer"].split()[0]]
    assert value == pytest.approx(row["evidence"], abs=tol)
    np.testing.assert_allclose(mean, row["mean"], atol=tol)
    np.testing.assert_allclose(var, row["var"], atol=tol)
