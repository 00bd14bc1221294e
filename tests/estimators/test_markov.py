"""Estimators on time series: structure="markov" gives the numbers of "full"; when "auto" chooses it."""

import numpy as np
import pandas as pd
import pytest

from sitewise import Full, GPClassifier, GPRegressor, Hyperparameters, Method, Series, Sparse, kernels, load, structures
from sitewise.estimators import base

NEW = np.array([[-1.0], [2.2], [14.0]])


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 10, (50, 1))
    X[7] = X[3]
    return X, rng.poisson(np.exp(1 + np.sin(2 * X[:, 0]))).astype(float)


@pytest.fixture(scope="module")
def pair(series):
    return [
        GPRegressor(likelihood="poisson", structure=name, method=Method(tol=1e-7), integrate=False).fit(*series)
        for name in ("full", "markov")
    ]


def same(one, other, tolerance=1e-7):
    np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


def test_it_is_the_full_gp(pair):
    full, markov = pair
    assert "Markov chain" in markov.fit_report_ and "Markov" not in full.fit_report_
    same(full.predict_latent(NEW, return_std=True), markov.predict_latent(NEW, return_std=True), 1e-5)
    same(full.evidence_["ep"], markov.evidence_["ep"])
    for name in ("influence_", "sites_"):
        same(getattr(full, name), getattr(markov, name), 1e-5)


def test_rows_are_added_and_removed(series, pair):
    more = np.array([[10.5], [3.3]]), np.array([4.0, 1.0])
    latents = []
    for one in pair:
        kernel, mean = pair[0].kernel_, pair[0].mean_
        again = GPRegressor(
            kernel, mean=mean, likelihood="poisson", structure=one.structure, hyperparameters=Hyperparameters(fixed="*")
        ).fit(*series)
        latents.append(again.update(*more).forget([0, 5]).predict_latent(NEW, return_cov=True))
    for full, markov in zip(*latents, strict=True):
        same(full, markov)


@pytest.mark.parametrize("integrate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_later_rows_cost_what_they_are(monkeypatch, series, integrate):
    """The numbers of inference on all rows; copies, weights and rows of weight 0 included."""
    monkeypatch.setattr(base.GPBase, "_change", None)  # the way for any other rows
    X, y = series
    later = np.array([[10.2], [11.0], [10.2], [12.0]]), np.array([3.0, 1.0, 3.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.0])
    model = GPRegressor(likelihood="poisson", structure="markov", integrate=integrate).fit(X, y).update(*later)
    whole = (np.concatenate(pair) for pair in zip((X, y, np.ones(50)), later, strict=True))
    again = GPRegressor(
        model.kernel_, mean=model.mean_, likelihood="poisson", hyperparameters=Hyperparameters(fixed="*")
    ).fit(*whole)
    if not integrate:
        same(again.predict_latent(NEW, return_std=True), model.predict_latent(NEW, return_std=True))
    same(again.sites_, model.sites_)
    same(again.influence_, model.influence_)
    assert model.converged_ and len(model.influence_) == 54


@pytest.fixture(scope="module")
def machines():
    """Three series of different lengths, out of order: times, names, counts."""
    rng = np.random.default_rng(5)
    name = rng.permutation(np.repeat([4.0, -2.0, 7.0], [30, 12, 20]))
    time = rng.uniform(0, 8, len(name))
    return time, name, rng.poisson(np.exp(np.sin(2 * time + name))).astype(float)


def test_series_share_hyperparameters_and_nothing_else(machines):
    time, name, y = machines
    both = pd.DataFrame({"machine": name, "time": time})
    model = GPRegressor(likelihood="poisson", structure=Series("machine")).fit(both, y)
    again = GPRegressor(likelihood="poisson", structure=Series(1)).fit(np.column_stack([time, name]), y)
    new = pd.DataFrame({"machine": [4.0, 7.0, 99.0], "time": [3.0, 3.0, 3.0]})
    found = model.predict_latent(new, return_std=True)
    same(found, again.predict_latent(new[["time", "machine"]].to_numpy(), return_std=True), 1e-6)
    alone = GPRegressor(
        model.kernel_,
        mean=model.mean_,
        likelihood="poisson",
        structure="markov",
        hyperparameters=Hyperparameters(fixed="*"),
    )
    alone.fit(time[name == 7.0][:, None], y[name == 7.0])
    same([a[1:2] for a in found], alone.predict_latent([[3.0]], return_std=True))
    # A series without rows is known by its prior.
    far = alone.predict_latent([[1e6]], return_std=True)
    same([a[2:] for a in found], far)
    model.update(pd.DataFrame({"machine": [7.0], "time": [9.0]}), [2.0])
    alone.update([[9.0]], [2.0])
    same(model.predict_latent(new[1:2], return_std=True), alone.predict_latent([[3.0]], return_std=True))
    assert model.sample_y(new, n_samples=2, random_state=0).shape[0] == 3


def test_series_of_two_classes(machines):
    time, name, y = machines
    model = GPClassifier(structure=Series(1)).fit(np.column_stack([time, name]), np.where(y > 1, "many", "few"))
    assert model._latents[0].model.prior.series == 1 and model.converged_


def test_it_is_saved(pair, tmp_path):
    pair[1].save(tmp_path / "series.sitewise")
    again = load(tmp_path / "series.sitewise")
    assert again.structure == "markov"
    same(pair[1].predict(NEW), again.predict(NEW), 1e-12)


@pytest.mark.parametrize(("settings", "columns", "chosen"), [
    ({}, 1, "markov"),
    ({"structure": "full"}, 1, "full"),
    ({"kernel": kernels.RBF()}, 1, "full"),
    ({"structure": Full(jitter=1e-6)}, 1, "full"),
    ({}, 2, "full"),
    ({"structure": Sparse(5)}, 1, "sparse"),
])  # fmt: skip
def test_when_it_is_chosen(monkeypatch, series, settings, columns, chosen):
    monkeypatch.setattr(structures, "MARKOV_ROWS", 20)
    X, y = np.repeat(series[0], columns, axis=1), np.where(series[1] > 2, "many", "few")
    model = GPClassifier(**settings, random_state=0, hyperparameters=Hyperparameters(fixed="kernel*"))
    assert model.fit(X, y)._latents[0].model.prior.structure == chosen
    assert model.fit(X[:20], y[:20])._latents[0].model.prior.structure != "markov"


@pytest.mark.parametrize(("settings", "columns", "words"), [
    ({"structure": "chain"}, 1, "structure must be one of auto, exact, full, markov, sparse or a value such as Sparse"),
    ({"structure": "markov"}, 2, "inputs of one column"),
    ({"structure": "markov", "kernel": kernels.RBF()}, 1, "RBF is not a Markov process"),
    ({"structure": "markov", "method": "mcmc"}, 1, "leave structure at 'auto'"),
    ({"structure": Series(2)}, 2, "one of the two columns"),
    ({"structure": Series("time")}, 2, "one of the two columns"),
    ({"structure": Series(0)}, 1, "one of the two columns"),
    ({"structure": Series(0), "method": "mcmc"}, 2, "leave structure at 'auto'"),
])  # fmt: skip
def test_what_is_refused(series, settings, columns, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor(**settings).fit(np.repeat(series[0], columns, axis=1), series[1])
