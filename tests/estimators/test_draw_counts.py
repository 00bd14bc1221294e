"""The number of draws must be a whole number of at least 1, in estimators and formulas."""

import numpy as np
import pytest

import sitewise
from sitewise import GPClassifier, GPOrdinal, GPRegressor, kernels

X = np.linspace(0, 3, 12)[:, None]
WRONG = [0, -1, 2.5, "a", True]


@pytest.fixture(scope="module", params=[GPRegressor, GPClassifier, GPOrdinal])
def estimator(request):
    y = np.arange(12) % 3 if request.param is GPOrdinal else np.arange(12) % 2
    return request.param(kernels.RBF(1.0), method="laplace", integrate=False).fit(X, y)


@pytest.mark.parametrize("wrong", WRONG)
def test_estimators_refuse_other_numbers_of_draws(estimator, wrong):
    with pytest.raises(ValueError, match=f"n_samples must be a whole number of at least 1, got {wrong!r}"):
        estimator.sample_y(X, n_samples=wrong)


def test_formulas_refuse_other_numbers_of_draws():
    model = sitewise.fit("y ~ x", {"x": X[:, 0], "y": np.cos(5 * X[:, 0])}, integrate=False)
    for wrong in WRONG:
        for draw in (model.simulate, model.check):
            with pytest.raises(ValueError, match=f"draws must be a whole number of at least 1, got {wrong!r}"):
                draw(draws=wrong)
    assert model.simulate(draws=np.int64(2)).shape == (2, 12)
