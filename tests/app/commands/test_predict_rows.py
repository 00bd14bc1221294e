"""Scores of predictions."""

from types import SimpleNamespace

import numpy as np
import pytest

from sitewise.app.commands.predict_rows import score


def test_errors_of_either_sign_add_to_the_root_mean_square():
    y = np.array([1.0, 5.0, 2.0])
    model = SimpleNamespace(
        predict=lambda X: y + np.array([2.0, -2.0, -1.0]), log_predictive_density=lambda X, y: np.zeros(3)
    )
    encoding = SimpleNamespace(target="y", side={}, targets=lambda table: y)
    table = SimpleNamespace(columns={"y": y}, rows=3, missing=lambda name: np.zeros(3, bool))
    assert score(model, encoding, table, np.zeros((3, 1)))["rmse"] == pytest.approx(np.sqrt(3.0))
