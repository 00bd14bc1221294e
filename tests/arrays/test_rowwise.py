"""Functions of rows in compiled programs of a fixed length."""

import jax.numpy as jnp
import numpy as np
import pytest

from sitewise.arrays import rowwise


def _function(settings, shared, rows):
    weight, x = rows
    return (shared * x[0] + x[1],), (jnp.sum(weight * x[1]),)


@pytest.mark.parametrize("count", [0, 1, 300, 1000, 1025])
def test_pieces_and_tables_of_them_give_what_one_call_gives(count, monkeypatch):
    monkeypatch.setattr(rowwise, "_MAX_TABLE_ROWS", 512)
    rng = np.random.default_rng(count)
    weight, x = rng.uniform(size=count), rng.normal(size=(2, count))
    (values,), (total,) = rowwise.apply(_function, None, np.float64(3.0), (weight, x))
    np.testing.assert_allclose(values, 3 * x[0] + x[1], rtol=1e-14)
    np.testing.assert_allclose(total, np.sum(weight * x[1]), rtol=1e-12, atol=1e-12)
    assert values.shape == (count,)
