"""Predict with an exported model of sitewise, with NumPy alone: `model.export` copies this file next to the model.

    from numpy_predictor import Predictor
    Predictor("model.npz").predict([{"age": 31, "sex": "f"}])  # of a formula or with a table encoder; else numbers

The model file holds arrays and one JSON text, no code.  Each latent function is a mixture of Gaussian processes with
points Z.  With k = κ_c(Z, x), for latent functions c and e (one per class)

    E f_c(x) = μ(x) + α_cᵀ k,     cov(f_c, f_e) = [c = e] (κ_c(x, x) − Σ_i sign_i (P_c k)_i²) + (Q_c k)ᵀ Q_e k

For a sum of parts, k has the loads of x on each part's variables, and κ is the covariance of groups, maps and series.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

BLOCK_ROWS, EPSILON = 512, np.finfo(float).eps  # rows predicted at a time; the smallest share of a variance
NAMES = "abs add cos divide equal exp expm1 floor interp less less_equal log log1p multiply power sin sqrt tanh"
FUNCTIONS = {name: getattr(np, name) for name in NAMES.split()}
SUB = re.compile(r"(:[\d.]+) ?(Z|[+-][\d:]+)$").sub  # replaces the end of a time and its time zone
COMBINED: Any = {"Sum": sum, "Product": math.prod, "Pairs": lambda k: (sum(k) ** 2 - sum(one**2 for one in k)) / 2}
SHAPES: dict[str, Callable[[Any], Any]] = {  # correlation as a function of the scaled squared distance
    "RBF": lambda d2: np.exp(-0.5 * d2),
    "Matern12": lambda d2: np.exp(-np.sqrt(d2)),
    "Matern32": lambda d2: (1 + np.sqrt(3 * d2)) * np.exp(-np.sqrt(3 * d2)),
    "Matern52": lambda d2: (1 + np.sqrt(5 * d2) + 5 / 3 * d2) * np.exp(-np.sqrt(5 * d2)),
    "Laplacian": lambda d: np.exp(-d),  # of the sum of absolute differences
}


def _value(tree: Any, columns: Any) -> Any:
    """Return an expression: the number of a column (int), a constant, or a list of a function and expressions."""
    if isinstance(tree, list):
        return np.asarray(FUNCTIONS[tree[0]](*(_value(one, columns) for one in tree[1:])), float)
    return columns[tree] if isinstance(tree, int) else tree


def _table(trees: list[Any], columns: Any) -> np.ndarray:
    return np.array([np.full(len(columns[0]), _value(tree, columns)) for tree in trees]).T


def covariance(kernel: dict[str, Any], A: np.ndarray, B: np.ndarray) -> Any:
    """Return the matrix κ(a_i, b_j) of a kernel, given as nested dicts; or of functions of a_i, one per b_j."""
    kind, columns = kernel["kind"], kernel["columns"]
    A, B = (X if columns is None else _table(columns, X.T) for X in (A, B))
    if kind in COMBINED:
        return COMBINED[kind]([covariance(part, A, B) for part in kernel["parts"]])
    if kind == "Equal":
        return (A[:, None] == B).all(axis=2)
    if kind == "Features":  # inner products of functions
        return _loads(kernel["loads"], A) @ kernel["covariance"] @ _loads(kernel["loads"], B).T
    if kind == "Columns":  # functions of A
        return A
    if kind == "Cubic":  # functions of A: piecewise polynomials
        i = np.searchsorted(kernel["knots"], A[:, 0])
        return sum(kernel["coefficients"][p, i] * (A - kernel["origin"][i, None]) ** p for p in range(4))
    if kind == "Nearest":
        return np.stack([_weights(kernel, a, B) for a in A])
    A, B = A / kernel["lengthscale"], B / kernel["lengthscale"]
    apart = (np.subtract.outer(a, b) for a, b in zip(A.T, B.T, strict=True))
    return kernel["variance"] * SHAPES[kind](sum(map(np.abs if kind == "Laplacian" else np.square, apart)))


def _weights(kernel: dict[str, Any], a: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the weights K⁻¹k of the points nearest to a, from whose values the value at a is predicted."""
    near, out = np.argsort(np.sum((B - a) ** 2, axis=1), kind="stable")[: kernel["count"]], np.zeros(len(B))
    K, k = (covariance(kernel["base"], B[near], X) for X in (B[near], a[None]))
    out[near] = np.linalg.solve(K, k)[:, 0]
    return out


def _loads(parts: list[dict[str, Any]], X: np.ndarray) -> np.ndarray:
    return np.concatenate([covariance(part["kernel"], X, part["Z"]) for part in parts], axis=1)


def _moments(one: dict[str, Any], X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (rows, functions) and covariance (rows, functions, functions) of one Gaussian component."""
    means, own, shared = [], [], []
    for c, alpha in enumerate(one["alpha"]):
        kernel, parts = (one[name][c % len(one[name])] for name in ("kernels", "loads"))
        k = _loads(parts, X)
        prior = np.concatenate([np.diagonal(covariance(kernel, x, x)) for x in np.array_split(X, 1 + len(X) // 16)])
        means.append(k @ alpha + one["constant"] + X @ one["slope"])
        own.append(np.maximum(prior - (k @ one["P"][c % len(one["P"])].T) ** 2 @ one["sign"], EPSILON * prior))
        shared.append(k @ one["Q"][c].T)
    G = np.stack(shared, axis=1)
    return np.stack(means, axis=1), np.stack(own, axis=1)[:, :, None] * np.eye(len(own)) + G @ np.swapaxes(G, 1, 2)


def _expect(function: Callable[[np.ndarray], Any], mean: Any, var: Any) -> Any:
    """Return E[function(f)], f ~ N(mean, var), by the trapezoidal rule, for functions smooth on a scale of 1."""
    z = np.linspace(-9, 9, 2 * math.ceil(9 * max(1.4, math.sqrt(np.max(var)) / 0.3)) + 1)
    weight = np.exp(-0.5 * z**2)
    return function(mean[..., None] + np.sqrt(var)[..., None] * z) @ (weight / weight.sum())


def _softmax(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return E[softmax(f)] = ∫ F_k'(s) Π_{c≠k} F_c(s) ds per row, F_c(s) = E[exp(−e^{f_c − s})], for independent f."""
    classes, own = mean.shape[1], np.diagonal(cov, axis1=1, axis2=2)
    rows = (own[:, :, None] + own[:, None, :] - 2 * cov).sum(axis=2)
    total = rows.sum(axis=1, keepdims=True) / (2 * (classes - 1))
    d = 0.5 * rows if classes == 2 else (rows - total) / (classes - 2)  # d_c + d_e ≈ Var(f_c − f_e)
    out = np.empty(mean.shape)
    for i, (m, v) in enumerate(zip(mean, np.maximum(d, 1e-6 * total / classes), strict=True)):
        s = np.arange(np.max(m - 9 * np.sqrt(v)) - 5, np.max(m + 9 * np.sqrt(v)) + 40, 0.3)
        F = _expect(lambda f: np.exp(-np.exp(f)), m[:, None] - s, v[:, None])
        slope = _expect(lambda f: np.exp(f - np.exp(f)), m[:, None] - s, v[:, None])
        out[i] = [np.sum(slope[k] * np.prod(np.delete(F, k, axis=0), axis=0)) for k in range(classes)]
    return out / out.sum(axis=1, keepdims=True)


def _text(v: Any) -> str:
    """Return the name of a category; equal numbers have equal names."""
    whole = isinstance(v, float | np.floating) and v % 1 == 0 and -(2.0**64) < v < 2.0**64
    return str(int(v)) if whole else f"{v:.12g}" if isinstance(v, float | np.floating) else str(v).strip()


def _read(c: dict[str, Any], rows: Any) -> np.ndarray:
    """Return a column of a dict of columns, or of a data frame, as numbers."""
    found = list[Any]()
    for name in c["names"]:
        if name not in rows:
            raise ValueError(f"The rows have no column {name!r}.")
        found.append([c["fill"] if v is None or _text(v).lower() in c["missing"] else v for v in rows[name]])
        if any(v is None for v in found[-1]):
            raise ValueError(f"Column {name!r} has a missing value in row {found[-1].index(None)}; fill it.")
    if c["levels"] is None and c["unit"] != 1:  # dates, by the clock time without the time zone; numbers are days
        found[0] = [int(v * 86400) if isinstance(v, int | float | np.number) else SUB(r"\1", str(v)) for v in found[0]]
    if c["levels"] is None:
        return np.array(found[0], c["type"]).astype(float) / c["unit"]
    number = {tuple(level): k for k, level in enumerate(c["levels"].tolist())}
    labels = [tuple(map(_text, row)) for row in zip(*found, strict=True)]
    if c["checked"] and (odd := {":".join(label) for label in labels} - {":".join(level) for level in number}):
        message = f"Column {':'.join(c['names'])!r} has categories that the model does not know: {odd}."
        if c["unseen"] is None:
            raise ValueError(message)
        warnings.warn(message, stacklevel=5)
    return np.array([number.get(label, c["unseen"]) for label in labels], float)


class Predictor:
    """A model written by `model.export(path)`."""

    def __init__(self, path: Any) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        self._model = json.loads(str(arrays["model"]), object_hook=lambda d: arrays[d["array"]] if "array" in d else d)
        self.classes_ = self._model["classes"]

    def _responses(self, X: Any) -> Iterator[tuple[Any, Any]]:
        """Yield E[y] and Var[y] per latent function; for joint classes with one column per class."""
        X = [X] if isinstance(X, dict) and not any(map(np.ndim, X.values())) else X  # one row as a dict
        if isinstance(next(iter(X), None), dict):  # rows as dicts
            X = {name: [row.get(name) for row in X] for name in dict.fromkeys(name for row in X for name in dict(row))}
        for step in self._model["steps"]:
            by_name = isinstance(X, dict) or hasattr(X, "columns") or not step.get("by_position")
            columns = [_read(c, X) for c in step["inputs"] if by_name] or np.asarray(X, float).T
            if np.shape(columns)[:-1] != (step["width"],) or not np.isfinite(X := _table(step["trees"], columns)).all():
                raise ValueError(f"Give a table of {step['width']} columns of finite numbers.")
        blocks = np.array_split(X, 1 + len(X) // BLOCK_ROWS)
        for weight, components in self._model["functions"]:
            each = np.array([np.hstack([self._response(one, rows) for rows in blocks]) for one in components])
            mean = np.tensordot(weight, each[:, 0], 1)
            yield mean, np.tensordot(weight, each[:, 1] + (each[:, 0] - mean) ** 2, 1)

    def _response(self, one: dict[str, Any], X: np.ndarray) -> np.ndarray:
        """Return E[y] and Var[y] of one component."""
        mean, cov = _moments(one, X)
        link, y, m, V = self._model["link"], one["response"], mean[:, 0], cov[:, 0, 0]
        if link == "identity":  # E[y | f] = centre + scale f, Var[y | f] = scale² noise
            return np.stack([y["centre"] + y["scale"] * m, y["scale"] ** 2 * (V + y["noise"])])
        if link == "log":  # E[y | f] = a e^f, Var[y | f] = b e^f + d e^{2f}
            rate = np.exp(m + V / 2)
            return np.stack([y["a"] * rate, y["b"] * rate + rate**2 * (y["d"] * np.exp(V) + y["a"] ** 2 * np.expm1(V))])
        if link == "probit":
            p = np.array([0.5 * math.erfc(-z) for z in m / np.sqrt(2 + 2 * V)])
        else:
            p = _softmax(mean, cov) if link == "softmax" else _expect(lambda f: 0.5 * (1 + np.tanh(0.5 * f)), m, V)
        return np.stack([p, p - p**2])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, one column per entry of `classes_`."""
        each = [mean for mean, _ in self._responses(X)]
        p = each[0] if each[0].ndim == 2 else np.stack([1 - each[0], *each] if len(each) == 1 else each, axis=1)
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the most probable class; for numbers and formulas E[y], if asked with its standard deviation."""
        if self._model["predicts_class"]:
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        ((mean, var),) = self._responses(X)
        return (mean, np.sqrt(var)) if return_std else mean
