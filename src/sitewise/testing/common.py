"""Shared functions of the conformance tests: reports, comparisons, finite differences and small data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from sitewise.data import Data

_RELATIVE_STEP = 1e-5  # of finite differences


def report(name: str, checks: Iterable[Iterator[str]]) -> None:
    """Raise one AssertionError with the messages of the first failed check; later checks would fail as well."""
    for check in checks:
        found = list(check)
        if found:
            raise AssertionError("\n".join(f"{name}: {message}" for message in found))


def close(a: Any, b: Any, rtol: float, atol: float) -> bool:
    """Return whether all numbers of a and b are finite and agree within the tolerances."""
    a, b = np.asarray(a), np.asarray(b)
    same = a.shape == b.shape and bool(np.all(np.isfinite(a)) and np.all(np.isfinite(b)))
    return same and bool(np.all(np.abs(a - b) <= atol + rtol * np.abs(b)))


def worst(a: Any, b: Any) -> str:
    """Return the largest difference as text for an error message."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return f"shapes {a.shape} and {b.shape}"
    return f"off by {np.max(np.abs(a - b), initial=0.0):.3g}"


def slopes_by_differences(
    function: Callable[[np.ndarray], Any], x: np.ndarray, step: float = _RELATIVE_STEP
) -> np.ndarray:
    """Return the gradient of a scalar function at x by central differences."""
    flat = np.asarray(x, float).ravel()
    out = np.zeros_like(flat)
    for i in range(flat.size):
        move = np.zeros_like(flat)
        move[i] = step * max(1.0, abs(flat[i]))
        up, down = (float(function((flat + sign * move).reshape(np.shape(x)))) for sign in (1, -1))
        out[i] = (up - down) / (2 * move[i])
    return out.reshape(np.shape(x))


def inputs(rows: int, columns: int = 2, seed: int = 0) -> np.ndarray:
    """Return a table of random inputs."""
    return np.random.default_rng(seed).normal(size=(rows, columns))


def problem(kind: str, rows: int = 12, seed: int = 0) -> Data:
    """Return a small data set with two input columns: values with Gaussian noise, or labels ±1."""
    X, rng = inputs(rows, seed=seed), np.random.default_rng(seed + 1)
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    y = f + 0.4 * rng.normal(size=rows) if kind == "values" else np.where(f + rng.logistic(size=rows) * 0.5 > 0, 1, -1)
    return Data.of(X, y.astype(float))
