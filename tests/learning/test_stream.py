import numpy as np
import pandas as pd
import pytest

from sitewise.learning.stream import Stream

X = np.arange(46.0).reshape(23, 2)
y = np.arange(23.0)


def whole(stream, order=None):
    parts = [(b.X[b.weight > 0], b.y[b.weight > 0]) for b in stream.batches(order)]
    return [np.concatenate(p) for p in zip(*parts, strict=True)]


def test_every_source_gives_the_same_batches(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    tables = Stream(lambda: iter([(X[:4], y[:4]), (X[4:19], y[4:19]), (X[19:], y[19:])]), 7)
    for stream in (Stream((X, y), 7), Stream((mapped, y), 7), tables):
        assert stream.rows == 23 and repr(stream) == "Stream(23 rows in batches of 7)"
        batches = list(stream.batches())
        assert [b.rows for b in batches] == [7] * 4
        assert [int(b.weight.sum()) for b in batches] == [7, 7, 7, 2]
        np.testing.assert_array_equal(whole(stream)[0], X)
        np.testing.assert_array_equal(whole(stream)[1], y)


def test_in_random_order_every_row_comes_once():
    rows, values = whole(Stream((X, y), 7), np.random.default_rng(0))
    assert sorted(values) == list(y)
    assert list(values) != list(y)
    np.testing.assert_array_equal(rows[:, 0], 2 * values)


@pytest.mark.parametrize(
    ("source", "size", "message"),
    [
        ((X, y[:5]), 4, "one y per row"),
        ((X, y), 0, "at least one row"),
        (lambda: iter([]), 4, "holds no rows"),
        ([X, y], 4, r"Give \(X, y\)"),
    ],
)
def test_bad_sources_are_named(source, size, message):
    with pytest.raises(ValueError, match=message):
        Stream(source, size)


def test_frames_are_tables():
    batches = list(Stream((pd.DataFrame(X, columns=["a", "b"]), pd.Series(y)), 10).batches())
    np.testing.assert_array_equal(batches[0].X, X[:10])


def test_an_iterator_that_cannot_start_again_is_named():
    once = iter([(X, y)])
    with pytest.raises(ValueError, match="23 rows at first and 0 now"):
        list(Stream(lambda: once, 7).batches())
