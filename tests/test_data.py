import numpy as np

from sitewise.data import Data, bucket


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
