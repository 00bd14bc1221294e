"""Estimators whose structure is a list of parts: fits, names, terms, files, updates, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from sitewise import GPClassifier, GPRegressor, Hyperparameters, load
from sitewise.parts import Levels, Linear, Map


def table(rows: int = 150) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 6, (rows, 2)), columns=["east", "north"])
    X["site"], X["dose"] = rng.integers(0, 5, rows), rng.normal(size=rows)
    offsets = np.array([-1.0, 0.5, 0.0, 1.0, -0.5])
    return X, np.sin(X["east"]) + offsets[X["site"]] + 0.7 * X["dose"].to_numpy() + 0.2 * rng.normal(size=rows)


PARTS = [Map(("east", "north")), Levels("site"), Linear("dose")]


@pytest.fixture(scope="module")
def fitted() -> tuple[GPRegressor, pd.DataFrame, np.ndarray]:
    X, y = table()
    return GPRegressor(structure=PARTS).fit(X, y), X, y


def test_a_regressor_finds_the_parts(fitted) -> None:
    model, X, y = fitted
    found = model.predict_terms(X)
    assert set(found.names) >= {"east × north", "site", "dose"}
    slope = np.polyfit(X["dose"], found.mean[:, found.names.index("dose")], 1)[0]
    assert abs(slope - 0.7) < 0.1
    np.testing.assert_allclose(found.mean.sum(axis=1), model.predict(X), rtol=1e-6)
    low, high = model.predict_interval(X[:50], 0.9)[:2]
    assert 0.7 < np.mean((low <= y[:50]) & (y[:50] <= high)) <= 1.0


def test_files_hold_parts(fitted, tmp_path) -> None:
    model, X, _ = fitted
    model.save(tmp_path / "map.sitewise")
    again = load(tmp_path / "map.sitewise")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again.structure) == repr(model.structure)


def test_a_new_level_is_less_certain(fitted) -> None:
    model, X, _ = fitted
    known, new = X[:1], X[:1].assign(site=99)
    assert model.predict(new, return_std=True)[1][0] > model.predict(known, return_std=True)[1][0]


def test_update_equals_inference_with_all_rows() -> None:
    X, y = table(60)
    labels = y > 0
    model = GPClassifier(structure=[Map(("east", "north")), Levels("site")]).fit(X[:50], labels[:50])
    model.update(X[50:], labels[50:])
    learned = list(model.models_[0][0].prior.kernel.parts)
    whole = GPClassifier(structure=learned, hyperparameters=Hyperparameters(fixed="*")).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"structure": []}, "an empty list"),
        ({"structure": [Map((0, 1)), 3]}, "got 3"),
        ({"structure": Map((0, 9))}, "no column 9"),
        ({"structure": Map(("lon", "lat"))}, "no column 'lon'"),
        ({"structure": Map((0, 1)), "kernel": "ard"}, "replace kernel"),
        ({"structure": Map((0, 1)), "groups": "site"}, "replace groups"),
        ({"structure": Map((0, 1)), "method": "mcmc"}, "mcmc samples the full GP"),
    ],
)
def test_refusals_are_one_sentence(settings, words: str) -> None:
    X, y = table(20)
    with pytest.raises(ValueError, match=words):
        GPClassifier(**settings).fit(X, y > 0)


def test_a_column_that_no_part_uses_is_named():
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.uniform(size=(12, 2)), np.arange(12) % 3]), rng.normal(size=12)
    with pytest.warns(UserWarning, match="No part uses column 1"):
        GPRegressor(structure=[Linear(0), Levels(2)]).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GPRegressor(structure=[Linear(0), Levels(2, slope=1)]).fit(X, y)
    assert not [one for one in caught if "No part uses" in str(one.message)]
