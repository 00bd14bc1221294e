"""Angles: a fit does not depend on the zero direction of y, nor on the turn in which an angle is given."""

import numpy as np
import pytest

from sitewise import Data, GPRegressor, Model, kernels, likelihoods
from sitewise.learning.nested import Nested

TURN = 2 * np.pi
ROTATIONS = (2.0, -2.5)


def wrapped(angle: np.ndarray) -> np.ndarray:
    return (np.asarray(angle) + np.pi) % TURN - np.pi


def angles(seed: int, rows: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Directions around 0.4 that vary smoothly, with noise of concentration 8."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 6, rows))[:, None]
    return X, wrapped(0.4 + np.sin(X[:, 0] + seed) + rng.vonmises(0, 8, rows))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_fit_does_not_depend_on_the_zero_direction(seed: int) -> None:
    X, y = angles(seed)
    new = np.linspace(-0.5, 6.5, 9)[:, None]
    first = GPRegressor(likelihood="von_mises", integrate=False).fit(X, y)
    mean, std = first.predict(new, return_std=True)
    low, high = first.predict_interval(new)
    weight = np.ones(len(y))
    for turn in ROTATIONS:
        rotated = wrapped(y + turn)
        other = GPRegressor(likelihood="von_mises", integrate=False).fit(X, rotated, sample_weight=weight)
        assert other.evidence_["ep"] == pytest.approx(first.evidence_["ep"], abs=1e-6)
        mean_of_other, std_of_other = other.predict(new, return_std=True)
        np.testing.assert_allclose(wrapped(mean_of_other - mean - turn), 0.0, atol=1e-5)
        np.testing.assert_allclose(std_of_other, std, rtol=1e-5)
        for end, end_of_other in zip((low, high), other.predict_interval(new), strict=True):
            np.testing.assert_allclose(wrapped(end_of_other - end - turn), 0.0, atol=1e-5)
            np.testing.assert_allclose(end_of_other - mean_of_other, end - mean, atol=1e-5)
        assert other.score(X, rotated) == pytest.approx(first.score(X, y), abs=1e-5)
        np.testing.assert_allclose(
            other.log_predictive_density(X, rotated), first.log_predictive_density(X, y), atol=1e-5
        )
        np.testing.assert_allclose(other.predict_cdf(X, rotated), first.predict_cdf(X, y), atol=1e-5)
        np.testing.assert_allclose(other.loo_.probability, first.loo_.probability, atol=1e-5)


def test_an_angle_is_the_same_in_every_turn() -> None:
    X, y = angles(3)
    positive = np.where(y < 0, y + TURN, y)
    by_turn = [
        GPRegressor(likelihood="von_mises", integrate=False).fit(X, one).evidence_["ep"] for one in (y, positive)
    ]
    assert by_turn[1] == pytest.approx(by_turn[0], abs=1e-6)
    model = Model.full(kernels.RBF(1.0), likelihoods.VonMises(5.0))
    fits = [Nested().fit(model, Data.of(X, one)).objective for one in (y, positive)]
    assert fits[1] == pytest.approx(fits[0], abs=1e-6)


def test_the_mean_direction_is_that_of_the_weighted_rows() -> None:
    X, y = angles(4, 20)
    y = wrapped(y + 3.0)
    weight = np.arange(20) % 3 + 1.0
    copies = np.repeat(np.arange(20), weight.astype(int))
    weighted = GPRegressor(likelihood="von_mises", integrate=False).fit(X, y, sample_weight=weight)
    copied = GPRegressor(likelihood="von_mises", integrate=False).fit(X[copies], y[copies])
    assert weighted.y_mean_ == copied.y_mean_
    assert weighted.evidence_["ep"] == pytest.approx(copied.evidence_["ep"], abs=1e-8)


def test_the_baseline_of_angles_does_not_depend_on_the_zero_direction() -> None:
    _, y = angles(5, 400)
    law, other = likelihoods.VonMises.baseline(y), likelihoods.VonMises.baseline(wrapped(y + 3.0))
    np.testing.assert_allclose(other.logpdf(wrapped(y + 3.0)), law.logpdf(y), atol=1e-9)


def test_degrees_are_refused() -> None:
    X, y = angles(6)
    with pytest.raises(ValueError, match="radians"):
        GPRegressor(likelihood="von_mises", integrate=False).fit(X, np.degrees(y))
    model = GPRegressor(likelihood="von_mises", integrate=False).fit(X, y)
    with pytest.raises(ValueError, match="radians"):
        model.log_predictive_density(X, np.degrees(y))
