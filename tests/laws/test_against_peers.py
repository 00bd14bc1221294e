"""A table that stays: evidences and predictions against independent code.

scikit-learn is run here; GPy's, GPBoost's and GPML's values are stored in peers.json with the versions that gave them.
`studies/peer_values.py`, then `studies/gpml_values.m` and `.py`, make that file again.

Where GPML is wrong, its row says by how much and why (`difference`: GPML's value minus that of an independent brute
force).  Then our value must be the right one, and the cause must be seen to give the difference.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, posterior
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

PEERS = json.loads((Path(__file__).parent / "peers.json").read_text())
KERNELS = {"matern52": kernels.Matern52, "rbf": kernels.RBF}
LIKELIHOODS = {
    "gaussian": lambda **rule: likelihoods.Gaussian(PEERS["scale"], **rule),
    "probit": likelihoods.BernoulliProbit,
    "logit": likelihoods.BernoulliLogit,
    "poisson": likelihoods.Poisson,
    "gamma": lambda **rule: likelihoods.Gamma(PEERS["shape"], **rule),
    "beta": lambda **rule: likelihoods.Beta(PEERS["precision"], **rule),
    "student-t": lambda **rule: likelihoods.StudentT(PEERS["scale"], PEERS["df"], **rule),
}
METHODS = {
    "exact": (EP(), evidence.ep),
    "laplace": (Laplace(), evidence.laplace),
    "ep": (EP(), evidence.ep),
    "vi": (VI(), evidence.elbo),
}
# GPy stops its Newton steps and its EP sweeps early, GPBoost and scikit-learn a little; GPML is taken to the end.
TOLERANCE = {"GPy": 2e-3, "GPBoost": 1e-4, "scikit-learn": 1e-4, "GPML": 1e-6}


def problem(row, **rule):
    kernel = KERNELS[row["kernel"]](PEERS["lengthscale"], PEERS["variance"])
    model = Model.full(kernel, LIKELIHOODS[row["likelihood"]](**rule))
    return model, Data.of(PEERS["data"]["X"], PEERS["data"][row["target"]])


def found(row, **rule):
    model, data = problem(row, **rule)
    method, read = METHODS[row["method"]]
    solution = method.solve(model, data)
    assert solution.outcome.ok
    mean, var = posterior(model, data, solution.sites).f(np.array(PEERS["data"]["X_new"]))
    return {"evidence": float(read(model, data, solution.sites)), "mean": np.asarray(mean), "var": np.asarray(var)}


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


def agree(ours, theirs, tol, less=None):
    for name in ("evidence", "mean", "var"):
        right = np.asarray(theirs[name]) - np.asarray(less[name] if less else 0.0)
        np.testing.assert_allclose(ours[name], right, rtol=0, atol=tol, err_msg=name)


def named(rows):
    keys = ("peer", "likelihood", "method", "kernel", "target")
    return pytest.mark.parametrize("row", rows, ids=["-".join(row[k] for k in keys) for row in rows])


def different(likelihood_names, method):
    rows = [row for row in PEERS["rows"] if "difference" in row]
    return named([row for row in rows if row["likelihood"] in likelihood_names and row["method"] == method])


@named([*PEERS["rows"], *scikit_learn()])
def test_evidence_and_predictions(row):
    agree(found(row), row, TOLERANCE[row["peer"].split()[0]], row.get("difference"))


@different(("poisson", "gamma", "beta"), "ep")
def test_gpml_ep_is_that_of_twenty_points(row):
    agree(found(row, quadrature=GaussHermite(20)), row, 1e-8)


@different(("logit",), "ep")
def test_gpml_ep_of_the_logit_errs_in_its_normalisers(row):
    """At GPML's own sites the right evidence is found, and what GPML adds is the error of its Σ log ∫ cavity·σ.

    (EP's evidence is stationary in the sites, so that their error counts in the second order only.)
    """
    model, data = problem(row)
    sites = Sites(np.array(row["nat1"]), np.array(row["prec"]))
    there = float(evidence.ep(model, data, sites))
    assert there == pytest.approx(row["evidence"] - row["difference"]["evidence"], abs=1e-6)
    with working_precision():
        likelihood, data, q, sites = evidence.conditioned(model, data, sites)
        cavity = q.cavity(sites, 1.0)
        exact = likelihood.log_expected_prob(data.y, cavity.mean, cavity.f_var)
        excess = float(np.sum(np.array(row["log_z"]) - exact))
    assert excess == pytest.approx(row["evidence"] - there, abs=1e-9)


@different(("student-t",), "vi")
def test_gpml_kl_loses_a_sign(row):
    """GPML's value is the ELBO of its q, but there T(λ) has a negative precision, of which GPML keeps |·|."""
    model, data = problem(row)
    sites = Sites(np.array(row["nat1"]), np.array(row["prec"]))
    assert float(evidence.elbo(model, data, sites)) == pytest.approx(row["evidence"], abs=1e-6)
    with working_precision():
        target = VI(min_prec=-np.inf).propose(*evidence.conditioned(model, data, sites))
    lost = np.asarray(target.prec) < 0
    assert lost.sum() == 1
    np.testing.assert_allclose(np.where(lost, -1, 1) * target.prec, sites.prec, rtol=1e-5)
    np.testing.assert_allclose(np.where(lost, -1, 1) * target.nat1, sites.nat1, rtol=1e-5)
