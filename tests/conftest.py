"""Modules that the tests share, such as `cases`, are imported by their name; one small table serves many tests."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from sitewise import GPClassifier, GPRegressor
from sitewise.process.precision import working_precision


@pytest.fixture
def double():
    """The precision and threads of a fit."""
    with working_precision():
        yield


@pytest.fixture(scope="session")
def X():
    return np.random.default_rng(0).normal(size=(50, 3))


@pytest.fixture(scope="session")
def signal(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture(scope="session")
def labels(signal):
    noise = 0.3 * np.random.default_rng(1).normal(size=50)
    return np.where(signal + noise > 0, "yes", "no")


@pytest.fixture(scope="session")
def values(signal):
    return 100 + 20 * (signal + 0.3 * np.random.default_rng(2).normal(size=50))


@pytest.fixture(scope="session")
def classifier(X, labels):
    """Fitted; tests must not change it."""
    return GPClassifier(integrate=False).fit(X, labels)


@pytest.fixture(scope="session")
def regressor(X, values):
    """Fitted; tests must not change it."""
    return GPRegressor(integrate=False).fit(X, values)
