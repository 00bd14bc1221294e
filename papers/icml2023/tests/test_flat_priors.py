"""Predictions averaged over a grid of θ: EP of a stack of kernel matrices equals EP of the library."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cases import problem
from sitewise import EP, Data, Model, Nested, evidence, kernels, likelihoods, posterior
from sitewise_icml2023.protocols import Fold


@pytest.fixture(scope="module")
def study() -> ModuleType:
    path = Path(__file__).parents[1] / "studies" / "flat_priors.py"
    spec = importlib.util.spec_from_file_location("flat_priors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_evidence_and_probabilities_are_those_of_the_library(study: ModuleType) -> None:
    X, y = problem("probit", 20, seed=3)
    lengthscale, variance = np.array([0.5, 1.0, 3.0]), np.array([300.0, 1.0, 50.0])
    K = study.matern(study.squared_distances(X[:15], X[:15]), lengthscale, variance) + study.JITTER * np.eye(15)
    K_new = study.matern(study.squared_distances(X[15:], X[:15]), lengthscale, variance)
    log_z, p = study.expectation_propagation(K, y[:15], K_new, variance)
    for i in range(3):
        kernel = kernels.Matern52(lengthscale=lengthscale[i], variance=variance[i])
        model = Model.full(kernel, likelihoods.BernoulliProbit(), jitter=study.JITTER)
        fit = Nested(EP(), evidence.ep, fixed=("kernel.*",)).fit(model, Data.of(X[:15], y[:15]))
        assert log_z[i] == pytest.approx(fit.objective, abs=1e-8)
        found = posterior(fit.model, fit.data, fit.sites).probability(X[15:])
        np.testing.assert_allclose(p[i], found, atol=1e-5)


def test_a_box_leaves_out_the_points_beyond_its_edges(study: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evidence is 1 everywhere and the probability depends on σ² alone: averages over a box are known."""
    X = np.zeros((2, 1))
    monkeypatch.setattr(study.protocols, "fold", lambda *task: Fold(X, np.ones(2), X[:1], np.ones(1)))
    monkeypatch.setattr(
        study,
        "expectation_propagation",
        lambda K, y, K_new, variance: (np.zeros(len(K)), ((np.log10(variance) + 6) / 13)[:, None]),
    )
    row = study.fold_row("trains", 42, 0, None, ((-5, 6), (-2, 4), (-1, 2)))
    means = [np.exp(box["test_loglik"]) for box in row["boxes"]]
    np.testing.assert_allclose(means, [(0.5 + 6) / 13, (1 + 6) / 13, (0.5 + 6) / 13])
