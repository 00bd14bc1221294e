"""The varying parameter along a column is `predict_parameter` where the column is all that the model knows."""

import numpy as np

from sitewise import GPRegressor
from sitewise.explain.effects import background
from sitewise.explain.parameter_effects import parameter_along


def test_one_column_gives_the_predicted_parameter():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3, 3, 40))[:, None]
    y = 100 + 10 * np.sin(X[:, 0]) + 10 * np.exp(-1 + 0.5 * X[:, 0]) * rng.normal(size=40)
    model, grid = GPRegressor(varying="scale").fit(X, y), np.array([[-2.0], [0.0], [2.0]])
    for level in (0.5, 0.9):
        found = parameter_along(model, (0,), grid, background(model, None, 20), level)
        for one, other in zip(found, model.predict_parameter(grid, level), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8)
