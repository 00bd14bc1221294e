"""Arrays come back bit for bit; what is damaged is refused, and nothing else is ever built from a file."""

import base64
import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sitewise.process.json_values import decode, encode, finite

KINDS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")


def there_and_back(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


@given(st.data(), st.sampled_from(KINDS), st.sampled_from("<>"))
def test_arrays_keep_dtype_shape_and_every_bit(data: st.DataObject, kind: str, order: str) -> None:
    dtype = np.dtype(order + kind)
    raw = data.draw(arrays.arrays(np.uint8, st.integers(0, 20).map(lambda n: n * dtype.itemsize)))
    array = (raw % 2 if kind == "?" else raw).view(dtype)  # any bits: NaNs with a payload, subnormals, −0
    if array.size % 3 == 0:
        array = array.reshape(3, -1)
    found = there_and_back({"a": [array]})["a"][0]
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()
    assert found.flags.writeable


@pytest.mark.parametrize("array", [np.array(1.5), np.zeros((0, 3)), np.arange(12.0).reshape(3, 4).T, np.ones(3)[::-1]])
def test_shapes_and_layouts(array: np.ndarray) -> None:
    found = there_and_back(array)
    assert found.shape == array.shape and np.array_equal(found, array)


def test_what_is_not_an_array_becomes_plain_json() -> None:
    value = {"nan": np.nan, "scalar": np.float64(np.inf), "count": np.int32(3), 4: (1, [True, None, "x"])}
    plain = {"nan": None, "scalar": None, "count": 3, "4": [1, [True, None, "x"]]}
    assert there_and_back(value) == plain == finite(value)
    assert finite({"a": np.array([1.0, np.nan])}) == {"a": [1.0, None]}
    assert np.array_equal(there_and_back(jnp.arange(3)), np.arange(3))


def test_only_numbers_are_kept() -> None:
    for wrong in (np.array(["text"]), np.array([{}], object), np.zeros(1, "M8[s]"), np.zeros(1, [("a", "f8")])):
        with pytest.raises(TypeError, match="Only arrays of numbers"):
            encode(wrong)
    with pytest.raises(ValueError, match="choose another name"):
        encode({"__array__": 1})


def text(count: int) -> str:
    return base64.b64encode(bytes(8 * count)).decode()


@pytest.mark.parametrize(
    "content",
    [
        ["<f8", [2], text(1)],  # too short, too long
        ["<f8", [2], text(3)],
        ["<f8", [10**12], text(1)],  # memory is not taken on a file's word
        ["<f8", [0, 10**30], ""],
        ["<f8", [-1], text(1)],
        ["<f8", [1.0], text(1)],
        ["<f8", [True], text(1)],
        ["<f8", [1] * 100, text(1)],
        ["<f8", [1], text(1)[:-1]],
        ["<f8", [1], "*" + text(1)[1:]],
        ["<f8", [1], "*" + text(1)],
        ["<f8", [1], "é" + text(1)[1:]],
        ["|O", [1], text(1)],
        ["object", [1], text(1)],
        ["|V8", [1], text(1)],
        [["<f8"], [1], text(1)],
        ["<f8", 1, text(1)],
        ["<f8", [1], None],
        ["<f8", [1]],
        None,
    ],
)
def test_a_damaged_array_is_refused(content: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode({"__array__": content})
