"""Mistakes in inputs, observations, labels and weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from misusing.kinds import LOW_LEVEL, QUICK, Change, add
from misusing.scenes import SCALAR, TWO_CLASSES, Scene

BOTH = (*LOW_LEVEL, "evidence_surface", "estimator")
RANDOM = np.random.Generator


def _put(table: Any, rng: RANDOM, value: Any, dtype: Any = float) -> np.ndarray:
    """A copy with one entry replaced."""
    out = np.array(table, dtype)
    out[tuple(int(rng.integers(n)) for n in out.shape)] = value
    return out


def _X(make: Any) -> Change:
    return lambda scene, rng: scene.but(X=make(scene.X, rng))


def _y(make: Any) -> Change:
    return lambda scene, rng: scene.but(y=make(scene.y, rng))


def _weight(make: Any) -> Change:
    return lambda scene, rng: scene.but(weight=make(np.ones(len(scene.X)), rng))


def _on_jax(values: np.ndarray) -> Any:
    with jax.enable_x64(True):
        return jnp.asarray(values)


def _masked(values: np.ndarray, rng: RANDOM) -> Any:
    return np.ma.MaskedArray(values, mask=_put(np.zeros(values.shape), rng, 1, bool))


add(
    "inputs",
    {
        "a missing input (NaN)": _X(lambda X, rng: _put(X, rng, np.nan)),
        "an infinite input": _X(lambda X, rng: _put(X, rng, np.inf)),
        "an input of 1e200": _X(lambda X, rng: _put(X, rng, 1e200)),
        "text among the inputs": _X(lambda X, rng: _put(X, rng, "n/a", object)),
        "None among the inputs": _X(lambda X, rng: _put(X, rng, None, object)),
        "dates as inputs": _X(lambda X, rng: np.full(X.shape, np.datetime64("2020-01-01"))),
        "complex inputs": _X(lambda X, rng: X + 1j),
        "rows of different lengths": _X(lambda X, rng: [*map(list, X[:-1]), [0.0]]),
        "no rows": lambda scene, rng: scene.but(X=scene.X[:0], y=scene.y[:0], weight=None),
        "no columns": _X(lambda X, rng: X[:, :0]),
        "inputs with three axes": _X(lambda X, rng: X[:, :, None]),
        "a row of inputs too few": _X(lambda X, rng: X[1:]),
        "inputs given as columns × rows": _X(lambda X, rng: X.T),
        "a scalar for the inputs": _X(lambda X, rng: 1.0),
        "inputs and observations swapped": lambda scene, rng: scene.but(X=scene.y, y=scene.X),
    },
    BOTH,
)
add("inputs", {"masked inputs": _X(_masked)}, QUICK)
add(
    "inputs",
    {
        "inputs as a list": _X(lambda X, rng: X.tolist()),
        "inputs as a DataFrame": _X(lambda X, rng: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])),
        "inputs as JAX arrays": _X(lambda X, rng: _on_jax(X)),
        "inputs in another order in memory": _X(lambda X, rng: np.asfortranarray(X)),
        "inputs as objects": _X(lambda X, rng: X.astype(object)),
    },
    (*QUICK, "estimator"),
)
add(
    "inputs",
    {"one column of inputs as a list of numbers": lambda scene, rng: scene.but(X=scene.X[:, 0])},
    QUICK,
    full=True,
    sparse=False,
    one_column=True,
)
add(
    "observations",
    {
        "a missing observation (NaN)": _y(lambda y, rng: _put(y, rng, np.nan)),
        "an observation too few": _y(lambda y, rng: y[1:]),
        "an observation too many": _y(lambda y, rng: np.concatenate([y, y[:1]])),
        "None among the observations": _y(lambda y, rng: _put(y, rng, None, object)),
        "no observations": _y(lambda y, rng: None),
        "a scalar for the observations": _y(lambda y, rng: 1.0),
    },
    BOTH,
)
add(
    "observations",
    {
        "an infinite observation": _y(lambda y, rng: _put(y, rng, np.inf)),
        "observations as a table of one column": _y(lambda y, rng: y[:, None]),
        "observations as a table of two columns": _y(lambda y, rng: np.stack([y, y], axis=-1)),
        "text for the observations": _y(lambda y, rng: np.array(["low", "high"])[(np.arange(len(y)) % 2)]),
        "dates for the observations": _y(lambda y, rng: np.full(len(y), np.datetime64("2020-01-01"))),
        "masked observations": _y(_masked),
    },
    LOW_LEVEL,
    SCALAR,
)
add(
    "observations",
    {
        "counts without their trials": _y(lambda y, rng: y[:, 0]),
        "more successes than trials": _y(lambda y, rng: y + np.array([9, 0])),
    },
    LOW_LEVEL,
    ("binomial",),
)


def _labels(negative: float, positive: float) -> Change:
    return _y(lambda y, rng: np.where(y > 0, positive, negative))


add(
    "labels",
    {
        "labels 1 and 2": _labels(1, 2),
        "labels 0 and 2": _labels(0, 2),
        "labels −2 and 2": _labels(-2, 2),
        "labels 0 and 1 for −1 and 1": _labels(0, 1),
        "labels False and True": _y(lambda y, rng: y > 0),
    },
    (*LOW_LEVEL, "evidence_surface", "estimator"),
    TWO_CLASSES,
)
add(
    "labels",
    {
        "a third label": _y(lambda y, rng: _put(y, rng, 0)),
        "probabilities for labels": _y(lambda y, rng: np.clip(0.5 + 0.3 * y, 0, 1)),
    },
    LOW_LEVEL,
    TWO_CLASSES,
)
add(
    "labels",
    {
        "classes counted from 1": _y(lambda y, rng: y + 1),
        "a class beyond the last": _y(lambda y, rng: _put(y, rng, 7)),
        "a class of −1": _y(lambda y, rng: _put(y, rng, -1)),
        "a class of one half": _y(lambda y, rng: _put(y, rng, 0.5)),
    },
    LOW_LEVEL,
    ("ordinal", "softmax"),
)
_POSITIVE: dict[str, Change] = {
    "a negative value": _y(lambda y, rng: _put(y, rng, -1.0)),
}
add("observations", _POSITIVE, (*LOW_LEVEL, "estimator"), ("poisson", "beta", "gamma"))
add(
    "observations",
    {"a count and a half": _y(lambda y, rng: _put(y, rng, 1.5))},
    (*LOW_LEVEL, "estimator"),
    ("poisson",),
)
add(
    "observations",
    {
        "percentages for shares": _y(lambda y, rng: 100 * y),
        "shares of exactly 0 or 1": _y(lambda y, rng: _put(y, rng, float(rng.integers(2)))),
        "a share of 1.3": _y(lambda y, rng: _put(y, rng, 1.3)),
    },
    (*LOW_LEVEL, "estimator"),
    ("beta",),
)
add("observations", {"an amount of zero": _y(lambda y, rng: _put(y, rng, 0.0))}, (*LOW_LEVEL, "estimator"), ("gamma",))
add(
    "weights",
    {
        "a negative weight": _weight(lambda w, rng: _put(w, rng, -1.0)),
        "a weight of NaN": _weight(lambda w, rng: _put(w, rng, np.nan)),
        "an infinite weight": _weight(lambda w, rng: _put(w, rng, np.inf)),
        "all weights zero": _weight(lambda w, rng: 0 * w),
        "a weight too few": _weight(lambda w, rng: w[1:]),
        "text for the weights": _weight(lambda w, rng: ["a"] * len(w)),
    },
    (*LOW_LEVEL, "evidence_surface", "estimator"),
)
add(
    "weights",
    {
        "weights as a column": _weight(lambda w, rng: w[:, None]),
        "one weight for all rows": _weight(lambda w, rng: 2.0),
        "a fraction put into whole weights": lambda scene, rng: scene.but(
            weight=None,
            change_data=lambda data: dataclasses.replace(data, weight=np.full(data.rows, 0.5)),
        ),
    },
    LOW_LEVEL,
)


def _by_hand(change: Any) -> Change:
    return lambda scene, rng: scene.but(change_data=change)


add(
    "data",
    {
        "(X, y) where Data is needed": _by_hand(lambda data: (data.X, data.y)),
        "the class Data": _by_hand(type),
        "None for the data": _by_hand(lambda data: None),
        "inputs replaced by others with fewer rows": _by_hand(lambda data: dataclasses.replace(data, X=data.X[1:])),
        "inputs replaced by a vector": _by_hand(lambda data: dataclasses.replace(data, X=data.X[:, 0])),
        "inputs replaced by NaN": _by_hand(lambda data: dataclasses.replace(data, X=np.nan * data.X)),
        "observations replaced by fewer": _by_hand(lambda data: dataclasses.replace(data, y=data.y[1:])),
        "observations replaced by NaN": _by_hand(lambda data: dataclasses.replace(data, y=np.nan * data.y)),
        "weights replaced by fewer": _by_hand(lambda data: dataclasses.replace(data, weight=data.weight[1:])),
        "weights replaced by negative ones": _by_hand(lambda data: dataclasses.replace(data, weight=-data.weight)),
    },
    (*LOW_LEVEL, "evidence_surface"),
)


def _new(change: Any) -> Change:
    def changed(scene: Scene, rng: RANDOM) -> Scene:
        return scene.but(new=change(*scene.new))

    return changed


_AT = ("posterior", "estimator", "model file")
add(
    "new rows",
    {
        "new rows with a column too few": _new(lambda X, y: (X[:, 1:], y)),
        "new rows with a column too many": _new(lambda X, y: (np.column_stack([X, X]), y)),
        "a missing input in new rows": _new(lambda X, y: (np.where(X.min() < X, X, np.nan), y)),
        "text in new rows": _new(lambda X, y: (np.full(X.shape, "a"), y)),
        "new rows with three axes": _new(lambda X, y: (X[:, :, None], y)),
        "one new row as a vector": _new(lambda X, y: (X[0], y)),
        "no new rows": _new(lambda X, y: (X[:0], y[:0])),
    },
    _AT,
)
add(
    "new rows",
    {
        "a new observation too few": _new(lambda X, y: (X, y[1:])),
        "new observations of NaN": _new(lambda X, y: (X, np.nan * y)),
        "None for the new observations": _new(lambda X, y: (X, None)),
    },
    ("posterior",),
)
add(
    "new rows", {"new labels 1 and 2": _new(lambda X, y: (X, np.arange(len(y)) % 2 + 1.0))}, ("posterior",), TWO_CLASSES
)
