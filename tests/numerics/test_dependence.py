import numpy as np

from sitewise.numerics.dense.dependence import dependent_columns


def test_columns_that_the_columns_before_them_determine():
    x, z = np.random.default_rng(0).normal(size=(2, 8))
    table = np.column_stack([np.ones(8), 1e6 * x, z, 1 + 2 * x - z, np.zeros(8), x**2])
    assert dependent_columns(table).tolist() == [False, False, False, True, True, False]
    assert dependent_columns(table[:2, [0, 1, 2]]).tolist() == [False, False, True]
