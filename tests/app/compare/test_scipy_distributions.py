"""Distributions of targets with side information, from numbers computed by hand."""

import numpy as np
import pytest

from sitewise.app.compare.scipy_distributions import side_law


def test_lifetimes_have_the_mean_total_time_per_event():
    y, event = np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 0.0, 1.0, 0.0])
    law, discrete = side_law(y, {"event": event}, {}, "positive")
    assert not discrete and law.mean() == pytest.approx(12 / 2) and law.cdf(0.0) == 0.0


def test_censored_values_of_any_sign_have_the_moments_of_the_targets():
    law, discrete = side_law(np.array([-3.0, 1.0]), {"upper": np.array([5.0, 1.0])}, {}, "values")
    assert not discrete and (law.mean(), law.std()) == (-1.0, 2.0)
