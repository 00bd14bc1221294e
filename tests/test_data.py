import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Model, evidence, kernels, likelihoods
from sitewise.data import Data, bucket
from sitewise.sites import Sites


def test_buckets_are_few_and_never_much_larger():
    sizes = {bucket(n) for n in range(1, 2001)}
    assert len(sizes) < 50
    for n in range(1, 2001):
        assert n <= bucket(n) <= max(32, n * 1.13 + 31)


def test_padding_has_no_weight_and_valid_values():
    data = Data.of(np.arange(6.0).reshape(3, 2), [1.0, 2.0, 3.0]).pad(5)
    assert list(data.weight) == [1, 1, 1, 0, 0] and list(data.mask) == [True] * 3 + [False] * 2
    assert np.all(data.X[3:] == data.X[0]) and np.all(data.y[3:] == data.y[0])


def test_fractional_weights_are_noticed():
    assert Data.of(np.ones((2, 1)), [1, 2], [0.5, 1]).fractional
    assert not Data.of(np.ones((2, 1)), [1, 2], [0, 3]).fractional
    assert Data(np.ones((2, 1)), np.ones(2), np.array([0.5, 1])).fractional
    assert not Data(np.ones((2, 1)), np.ones(2), jnp.array([0.0, 3])).fractional


@pytest.mark.parametrize("make", [Data, Data.of])
def test_traced_weights_may_be_fractions(make):
    """Leave-one-out takes out half of a row of weight 1/2, also where the weights are traced."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(5, 1)), rng.normal(size=5), np.array([0.5, 1.0, 2.0, 0.25, 1.0])
    model, sites = Model.full(kernels.RBF(), likelihoods.StudentT()), Sites(0.3 * y, np.full(5, 0.4))
    want = evidence.loo(model, Data.of(X, y, weight), sites)
    found = jax.jit(lambda w: evidence.loo(model, make(X, y, w), sites))(weight)
    np.testing.assert_allclose(found, want, rtol=1e-9)
    wrong = jax.jit(lambda w: evidence.loo(model, Data(X, y, w, fractional=False), sites))(weight)
    assert abs(wrong - want) > 1e-3
