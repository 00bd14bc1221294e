"""Outliers: of clean rows about one in a hundred, whatever the robust likelihood, and all wrong values."""

import numpy as np
import pytest

from sitewise import GPRegressor

ROWS = 300
X = np.linspace(0, 20, ROWS)[:, None]
NOISE = {"student_t": lambda rng: 0.2 * rng.standard_t(3, ROWS), "laplace_noise": lambda rng: rng.laplace(0, 0.2, ROWS)}


@pytest.mark.parametrize("likelihood", list(NOISE))
def test_clean_rows_are_rarely_called_outliers(likelihood):
    y = np.sin(X[:, 0]) + NOISE[likelihood](np.random.default_rng(0))
    found = GPRegressor(likelihood=likelihood).fit(X, y).outliers_
    assert len(found.rows) <= 8  # 3 are expected; more than 8 has a probability of 0.4 %
    assert 0.4 < np.mean(found.probability < 0.5) < 0.6
    assert np.all(np.diff(found.probability[found.rows]) >= 0)


@pytest.mark.parametrize("likelihood", list(NOISE))
def test_wrong_values_are_found_among_ordinary_ones(likelihood):
    rng = np.random.default_rng(1)
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=ROWS)
    wrong = np.arange(10, ROWS, 30)
    y[wrong] += np.tile([3.0, -3.0], len(wrong))[: len(wrong)]
    model = GPRegressor(likelihood=likelihood).fit(X, y)
    assert set(wrong) <= set(model.outliers_.rows) and len(model.outliers_.rows) <= len(wrong) + 3
    assert "About 3 would be expected without any wrong value." in model.fit_report_


def test_rows_of_weight_zero_are_not_counted():
    y = np.sin(X[:60, 0])
    y[5] += 4
    weight = np.ones(60)
    weight[5] = 0
    model = GPRegressor(likelihood="laplace_noise").fit(X[:60], y + 0.01 * np.cos(50 * X[:60, 0]), weight)
    assert 5 not in model.outliers_.rows and np.isnan(model.outliers_.precision[5])
