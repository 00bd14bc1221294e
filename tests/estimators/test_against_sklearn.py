"""The recorded comparison with scikit-learn, made by studies/compare_sklearn.py."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def experiment():
    spec = importlib.util.spec_from_file_location("compare_sklearn", ROOT / "studies" / "compare_sklearn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mean_loss(experiment, name, method):
    return np.mean([r["log_loss"] for r in experiment.finished() if (r["set"], r["method"]) == (name, method)])


def test_log_loss_is_no_worse_than_scikit_learns(experiment):
    names = {r["set"] for r in experiment.finished()}
    better = {n for n in names if mean_loss(experiment, n, "sitewise") <= mean_loss(experiment, n, "scikit-learn")}
    assert experiment.BREAST_CANCER in better
    assert len(names) == 19
    assert len(better - {experiment.BREAST_CANCER}) >= 12


def test_the_page_shows_the_rows(experiment):
    assert experiment.PAGE.read_text() == experiment.table(experiment.finished())
