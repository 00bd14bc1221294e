"""Tests run in double precision with one BLAS thread; the library itself never changes these."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import pytest

jax.config.update("jax_enable_x64", True)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "experiments" / "icml2023"))


@pytest.fixture(scope="session")
def paper_data():
    """The folder with the paper's data sets; tests that need it are skipped where it is absent."""
    from protocol import data_directory

    directory = data_directory()
    if not (directory / "classification").is_dir():
        pytest.skip(f"the paper's data sets are not at {directory}; set SITEWISE_DATA to their folder")
    return directory


@pytest.fixture(scope="session")
def ionosphere(paper_data):
    """Fold 3 of seed 42 under the published protocol: (X_train, y_train, X_test, y_test)."""
    from protocol import folds, load

    X, y = load("ionosphere", paper_data)
    train, test = folds(len(X), 42)[3]
    return X[train], y[train], X[test], y[test]
