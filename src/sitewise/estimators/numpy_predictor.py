"""Predict with an exported model of sitewise, with NumPy alone: `model.export` copies this file next to the model.

    from numpy_predictor import Predictor
    model = Predictor("model.npz")
    model.predict([{"age": 31, "sex": "f"}])  # rows or a data frame with a table encoder, else numbers

The model file holds arrays and one JSON text, no code.  Each latent function is a mixture of Gaussian processes with
points Z.  With k = κ_c(Z, x), for latent functions c and e (one per class)

    E f_c(x) = μ(x) + α_cᵀ k,     cov(f_c, f_e) = [c = e] (κ_c(x, x) − Σ_i sign_i (P_c k)_i²) + (Q_c k)ᵀ Q_e k

For a sum of parts, k has the loads of x on each part's variables, and κ is the covariance of the groups' effects.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

BLOCK_ROWS = 512  # rows predicted at a time
SHAPES: dict[str, Callable[[Any], Any]] = {  # correlation as a function of the scaled squared distance
    "RBF": lambda d2: np.exp(-0.5 * d2),
    "Matern12": lambda d2: np.exp(-np.sqrt(d2)),
    "Matern32": lambda d2: (1 + np.sqrt(3 * d2)) * np.exp(-np.sqrt(3 * d2)),
    "Matern52": lambda d2: (1 + np.sqrt(5 * d2) + 5 / 3 * d2) * np.exp(-np.sqrt(5 * d2)),
}


def covariance(kernel: dict[str, Any], A: np.ndarray, B: np.ndarray) -> Any:
    """Return the matrix κ(a_i, b_j) of a kernel, given as nested dicts."""
    kind, columns = kernel["kind"], kernel["columns"]
    A, B = (A, B) if columns is None else (A[:, columns], B[:, columns])
    if kind in ("Sum", "Product"):
        parts = [covariance(part, A, B) for part in kernel["parts"]]
        return sum(parts) if kind == "Sum" else math.prod(parts)
    if kind == "Scaled":
        return kernel["variance"] * covariance(kernel["base"], A, B)
    if kind == "NormalScores":
        pairs = list(zip(kernel["knots"].T, kernel["scores"].T, strict=True))
        A, B = (np.stack([np.interp(x, *pair) for x, pair in zip(X.T, pairs, strict=True)], axis=1) for X in (A, B))
        return covariance(kernel["base"], A, B)
    if kind == "Constant":
        return np.full((len(A), len(B)), kernel["variance"])
    if kind == "Linear":
        return (A * kernel["variance"]) @ B.T
    if kind == "Index":
        return kernel["kappa"] * np.equal.outer(A[:, 0], B[:, 0])
    if kind == "Additive":
        effects = [_main_effect(kernel, A[:, [j]], B[:, [j]], j) for j in range(A.shape[1])]
        total = sum(effects)
        return kernel["offset"] + total + 0.5 * kernel["interaction"] * (total**2 - sum(one**2 for one in effects))
    if kind == "Waves":  # functions of A, as many as B has points
        return np.cos(2 * np.pi * (A / kernel["period"] % 1) * kernel["multiples"] - kernel["phases"])
    if kind == "Cubic":  # piecewise polynomials of A, as many as B has points
        i = np.searchsorted(kernel["knots"], A[:, 0])
        return sum(kernel["coefficients"][p, i] * (A - kernel["origin"][i, None]) ** p for p in range(4))
    A, B = A / kernel["lengthscale"], B / kernel["lengthscale"]
    apart = (np.subtract.outer(a, b) for a, b in zip(A.T, B.T, strict=True))
    if kind == "Laplacian":
        return kernel["variance"] * np.exp(-sum(np.abs(d) for d in apart))
    return kernel["variance"] * SHAPES[kind](sum(d**2 for d in apart))


def _main_effect(kernel: dict[str, Any], a: np.ndarray, b: np.ndarray, j: int) -> Any:
    """Return the covariance of the effect of column j, which has mean zero over the nodes of the column."""
    nodes, weight = kernel["nodes"][:, [j]], kernel["weight"][:, j]
    one = {"kind": kernel["shape"], "columns": None, "lengthscale": kernel["lengthscale"][j], "variance": 1.0}
    means = np.outer(covariance(one, a, nodes) @ weight, covariance(one, b, nodes) @ weight)
    return kernel["variance"][j] * (covariance(one, a, b) - means / (weight @ covariance(one, nodes, nodes) @ weight))


def _moments(one: dict[str, Any], X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (rows, functions) and covariance (rows, functions, functions) of one Gaussian component."""
    means, own, shared = [], [], []
    for c, alpha in enumerate(one["alpha"]):
        kernel, loads = (one[name][c % len(one[name])] for name in ("kernels", "loads"))
        k = np.concatenate([covariance(load["kernel"], X, load["Z"]) for load in loads], axis=1)
        prior = np.array([covariance(kernel, x[None], x[None])[0, 0] for x in X])
        explained = (k @ one["P"][c % len(one["P"])].T) ** 2 @ one["sign"]
        means.append(k @ alpha + one["constant"] + X @ one["slope"])
        own.append(np.maximum(prior - explained, np.finfo(float).eps * prior))
        shared.append(k @ one["Q"][c].T)
    G = np.stack(shared, axis=1)
    return np.stack(means, axis=1), np.stack(own, axis=1)[:, :, None] * np.eye(len(own)) + G @ np.swapaxes(G, 1, 2)


def _expect(function: Callable[[np.ndarray], Any], mean: Any, var: Any) -> Any:
    """Return E[function(f)], f ~ N(mean, var), by the trapezoidal rule, for functions smooth on a scale of 1."""
    sd = np.sqrt(var)
    z = np.linspace(-9, 9, 2 * math.ceil(9 * max(1.4, float(np.max(sd)) / 0.3)) + 1)
    weight = np.exp(-0.5 * z**2)
    return function(mean[..., None] + sd[..., None] * z) @ (weight / weight.sum())


def _softmax(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Return E[softmax(f)] = ∫ F_k'(s) Π_{c≠k} F_c(s) ds per row, F_c(s) = E[exp(−e^{f_c − s})], for independent f."""
    classes, own = mean.shape[1], np.diagonal(cov, axis1=1, axis2=2)
    rows = (own[:, :, None] + own[:, None, :] - 2 * cov).sum(axis=2)
    total = rows.sum(axis=1, keepdims=True) / (2 * (classes - 1))
    d = 0.5 * rows if classes == 2 else (rows - total) / (classes - 2)  # d_c + d_e ≈ Var(f_c − f_e)
    out = np.empty(mean.shape)
    for i, (m, v) in enumerate(zip(mean, np.maximum(d, 1e-6 * total / classes), strict=True)):
        s = np.arange(np.max(m - 9 * np.sqrt(v)) - 5, np.max(m + 9 * np.sqrt(v)) + 40, 0.3)
        at, var = m[:, None] - s, np.broadcast_to(v[:, None], (classes, len(s)))
        F = _expect(lambda f: np.exp(-np.exp(f)), at, var)
        slope = _expect(lambda f: np.exp(f - np.exp(f)), at, var)
        out[i] = [np.sum(slope[k] * np.prod(np.delete(F, k, axis=0), axis=0)) for k in range(classes)]
    return out / out.sum(axis=1, keepdims=True)


def _numbers(X: Any, columns: int) -> np.ndarray:
    X = np.asarray(X, float)
    if X.ndim != 2 or X.shape[1] != columns or not np.all(np.isfinite(X)):
        raise ValueError(f"Give a table of {columns} columns of finite numbers; got the shape {X.shape}.")
    return X


def _encoded(columns: list[dict[str, Any]], rows: Any) -> np.ndarray:
    """Return the numbers of a table: a list of dicts, a dict of columns, or a data frame."""
    rows, out = {name: rows[name] for name in rows.columns} if hasattr(rows, "columns") else rows, []
    for c in columns:
        name, levels = c["name"], c.get("levels")
        if name not in (rows if isinstance(rows, dict) else next(iter(rows), {})):
            raise ValueError(f"The rows have no column {name!r}.")
        values = list(rows[name]) if isinstance(rows, dict) else [row[name] for row in rows]
        absent = [v is None or v == "" or v != v for v in values]
        if any(absent) and c["fill"] is None:
            raise ValueError(f"Column {name!r} has a missing value in row {absent.index(True)}; fill it.")
        values = [c["fill"] if gone else v for v, gone in zip(values, absent, strict=True)]
        if levels is None:
            out.append((np.array([float(v) for v in values]) - c["centre"]) / c["scale"])
        else:  # an unseen category has the same distance to all known categories
            if odd := {str(v) for v in values} - set(levels):
                warnings.warn(f"Column {name!r} has categories that the model does not know: {odd}.", stacklevel=3)
            unseen, own = (0.5, levels[1:]) if len(levels) == 2 else (0.0, levels)
            out += [np.array([float(str(v) == one) if str(v) in levels else unseen for v in values]) for one in own]
    return np.stack(out, axis=1)


class Predictor:
    """A model written by `model.export(path)`."""

    def __init__(self, path: Any) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        self._model = json.loads(str(arrays["model"]), object_hook=lambda d: arrays[d["array"]] if "array" in d else d)
        self.classes_ = self._model["classes"]

    def _functions(self, X: Any) -> Iterator[list[tuple[float, dict[str, Any], np.ndarray, np.ndarray]]]:
        """Yield per latent function: weight, description, mean and covariance of its components."""
        for step in self._model["steps"]:
            if "columns" in step:
                X = _encoded(step["columns"], X)
            else:
                X = (_numbers(X, len(step["mean"])) - step["mean"]) / step["scale"]
        X = _numbers(X, self._model["n_columns"])
        for function in self._model["functions"]:
            found = []
            for weight, one in zip(function["weight"], function["components"], strict=True):
                blocks = [_moments(one, X[at : at + BLOCK_ROWS]) for at in range(0, len(X), BLOCK_ROWS)]
                found.append((weight, one, *(np.concatenate(b) for b in zip(*blocks, strict=True))))
            yield found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, one column per entry of `classes_`."""
        each = []
        for found in self._functions(X):
            if self._model["link"] == "softmax":
                return np.sum([w * _softmax(m, V) for w, _, m, V in found], axis=0)
            each.append(sum(w * self._success(m[:, 0], V[:, 0, 0]) for w, _, m, V in found))
        p = np.stack([1 - each[0], each[0]] if len(each) == 1 else each, axis=1)
        return p / p.sum(axis=1, keepdims=True)

    def _success(self, mean: np.ndarray, var: np.ndarray) -> Any:
        if self._model["link"] == "logit":
            return _expect(lambda f: 0.5 * (1 + np.tanh(0.5 * f)), mean, var)
        return np.array([0.5 * math.erfc(-z) for z in mean / np.sqrt(2 + 2 * var)])

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the most probable class per row; for values and counts E[y], and its standard deviation if asked."""
        if self.classes_ is not None:
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        (found,) = self._functions(X)
        mean, square = np.zeros((2, 1))
        for w, one, (m, V) in ((w, one["response"], (M[:, 0], C[:, 0, 0])) for w, one, M, C in found):
            if self._model["link"] == "identity":  # Var[y | f] = noise
                first, second = m, V + m**2 + one["noise"]
            else:  # E[y | f] = a e^f, Var[y | f] = b e^f + d e^{2f}
                first, rest = one["a"] * np.exp(m + V / 2), one["b"] * np.exp(m + V / 2)
                second = rest + (one["d"] + one["a"] ** 2) * np.exp(2 * m + 2 * V)
            mean, square = mean + w * first, square + w * second
        centre, scale = self._model["y_mean"], self._model["y_scale"]
        std = scale * np.sqrt(np.maximum(square - mean**2, 0))
        return (centre + scale * mean, std) if return_std else centre + scale * mean
