"""A fit does not depend on the units of the inputs: bounds and starting values of lengthscales follow the columns."""

import warnings

import numpy as np
import pytest

from sitewise import Data, GPRegressor, Method, Model, kernels, likelihoods
from sitewise.learning.nested import Nested
from sitewise.parameters import Trainable

UNITS = {"seconds since 1970": (86400.0, 1.7e9), "nanometres in metres": (1e-9, 0.0), "shifted": (1.0, 1e9)}


def series(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    days = np.arange(rows, dtype=float)
    return days[:, None], np.sin(days / 7) + 0.2 * rng.standard_normal(rows)


@pytest.mark.parametrize("structure", ["full", "markov"])
@pytest.mark.parametrize("unit", UNITS)
def test_a_series_in_any_unit_of_time(structure: str, unit: str) -> None:
    (factor, shift), (days, y) = UNITS[unit], series()
    first = GPRegressor(structure=structure).fit(days, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = GPRegressor(structure=structure).fit(factor * days + shift, y)
    assert other.evidence_["ep"] == pytest.approx(first.evidence_["ep"], abs=1e-6)
    assert float(other.kernel_.lengthscale) == pytest.approx(factor * float(first.kernel_.lengthscale), rel=1e-3)
    np.testing.assert_allclose(other.predict(factor * days + shift), first.predict(days), atol=1e-4)


@pytest.mark.parametrize("kernel", [None, "isotropic", "ard", "main_effects"])
def test_columns_in_any_unit(kernel: str | None) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(50)
    units = np.array([1e9, 1e9]) if kernel == "isotropic" else np.array([1e9, 1e-9])
    exact = Method("hybrid", tol=1e-7)  # without a tolerance the search stops at its least gain
    first, other = (GPRegressor(kernel, method=exact).fit(table, y) for table in (X, X * units))
    assert other.evidence_["ep"] == pytest.approx(first.evidence_["ep"], abs=1e-5)  # the maximum is that of a MAP fit


@pytest.mark.parametrize("factor", [1e6, 1e-9])
@pytest.mark.parametrize("make", [Model.full, Model.markov])
def test_the_bounds_of_a_model_follow_its_rows(make: object, factor: float) -> None:
    days, y = series()

    def objective(unit: float) -> float:
        kernel = kernels.Matern52(20.0 * unit)
        model = make(kernel, likelihoods.Gaussian(0.5))  # type: ignore[operator]
        fit = Nested().fit(model, Data.of(unit * days, y))
        assert not fit.at_bound
        return fit.objective

    assert objective(factor) == pytest.approx(objective(1.0), abs=1e-6)


def test_the_bounds_of_every_parameter_that_has_a_unit() -> None:
    ranges = np.array([10.0, 1e-6, 3.0])
    kernel = (
        kernels.RBF(active_dims=(0, 1))
        + kernels.RBF(np.ones(2), active_dims=(0, 1))
        + kernels.Periodic(active_dims=(2,))
        + kernels.Linear(active_dims=(1,))
        + kernels.Shrunk(kernels.RBF(), np.zeros(3))
    )
    model = Model.full(kernel, likelihoods.Gaussian())
    trainable = Trainable.of(model)
    found = trainable.limits({"kernel.parts.0.variance": (0.5, 2.0)}, units=model.prior.input_units(ranges))
    limits = dict(zip(trainable.labels, np.exp(found), strict=True))
    wanted = {
        "kernel.parts.0.lengthscale": (1e-11, 1e7),
        "kernel.parts.1.lengthscale[0]": (1e-4, 1e7),
        "kernel.parts.1.lengthscale[1]": (1e-11, 1.0),
        "kernel.parts.2.lengthscale": (1e-5, 1e6),  # on the circle
        "kernel.parts.2.period": (3e-5, 3e6),
        "kernel.parts.3.variance": (1e7, 1e18),
        "kernel.parts.4.base.lengthscale": (1e-5, 1e6),  # in its own units
        "kernel.parts.0.variance": (0.5, 2.0),
        "likelihood.scale": (1e-5, 1e6),
    }
    for name, pair in wanted.items():
        np.testing.assert_allclose(limits[name], pair, rtol=1e-9)
