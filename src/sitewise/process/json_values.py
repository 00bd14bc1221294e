"""Convert values to and from JSON: NaN and infinity become null; NumPy arrays are stored exactly.

An array is written as {"__array__": [dtype, shape, base64 of its little-endian bytes]}.  Reading builds
arrays of numbers only, from exactly the stored bytes: nothing is unpickled, and a wrong size is refused before memory
is allocated.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

_ARRAY = "__array__"
_NUMBERS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
_DTYPES = frozenset(np.dtype(order + kind).str for order in "<>" for kind in _NUMBERS)


def finite(value: Any) -> Any:
    """Return plain JSON for other programs: NaN and infinity become null, arrays become lists."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def encode(value: Any) -> Any:
    """Return JSON as `finite` does, but store arrays exactly, including NaN and infinity."""
    if isinstance(value, dict):
        if _ARRAY in value:
            raise ValueError(f"{_ARRAY!r} marks an array; choose another name for the entry.")
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return _encode_array(np.asarray(value))
    return finite(value)


def decode(value: Any) -> Any:
    """Return the argument of `encode`, with tuples as lists; ValueError or TypeError if an array is damaged."""
    if isinstance(value, dict):
        if _ARRAY in value:
            return _decode_array(*value[_ARRAY])
        return {k: decode(v) for k, v in value.items()}
    return [decode(v) for v in value] if isinstance(value, list) else value


def _encode_array(array: np.ndarray) -> dict[str, Any]:
    if array.dtype.str not in _DTYPES:
        raise TypeError(f"Only arrays of numbers can be stored; got dtype {array.dtype}.")
    little = array.astype(array.dtype.newbyteorder("<"))
    return {_ARRAY: [array.dtype.str, list(array.shape), base64.b64encode(little.tobytes()).decode()]}


def _decode_array(dtype: str, shape: list[int], content: str) -> np.ndarray:
    if dtype not in _DTYPES or not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        raise ValueError("not an array of numbers")
    kind, raw = np.dtype(dtype), base64.b64decode(content, validate=True)
    return np.frombuffer(raw, kind.newbyteorder("<")).reshape(shape).astype(kind)  # ValueError for any other size
