"""Starting values of lengthscales."""

import numpy as np
import pytest

from sitewise.kernels.lengthscale_start import start_lengthscale


@pytest.mark.parametrize(
    ("columns", "scale", "expected"),
    [
        (5, 1.0, 1.0),
        (30, 1.0, 1.0),
        (30, 2.0, 2 * np.sqrt(60)),
        (5, 1e3, 1e3),
        (256, 1.0, np.sqrt(2 * 256)),
        (256, 1e-3, 1e-3 * np.sqrt(2 * 256)),
    ],
)
def test_start_is_one_unless_rows_would_be_strangers(columns, scale, expected):
    X = scale * np.random.default_rng(0).normal(size=(200, columns))
    assert start_lengthscale(X) == pytest.approx(expected, rel=0.1)
