"""Describe kernels as nested dicts of numbers and arrays, for predictions without the library.

`numpy_predictor.covariance` evaluates them.  The columns of a kernel are expressions of the columns of its inputs: a
number of a column (int), a constant (float), or a list of a function and expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise import kernels, parts
from sitewise.errors import UserError
from sitewise.estimators.numpy_predictor import covariance
from sitewise.kernels import Kernel
from sitewise.kernels.base import Product, Scaled, Sum

Described = dict[str, Any]
MATERN = (kernels.RBF, kernels.Matern12, kernels.Matern32, kernels.Matern52)


def described(kernel: Kernel, width: int) -> Described:
    """Return a kernel as a dict; `width` is the number of columns of its inputs."""
    if kernel.active_dims is None:
        return _described(kernel, width)
    columns = [int(column) for column in kernel.active_dims]
    found = _described(kernel, len(columns))
    return {**found, "columns": columns} if found["columns"] is None else within(columns, found)


def _described(kernel: Any, width: int) -> Described:
    """Return a kernel of its active columns."""
    if isinstance(kernel, kernels.Shrunk):
        return described(kernel._plain(), width)
    if isinstance(kernel, parts.Series):
        return product([within([0], described(kernel.kernel, 1)), *([] if kernel.by is None else [equal([1])])])
    if isinstance(kernel, Sum):
        return total([described(part, width) for part in kernel.parts])
    if isinstance(kernel, Product):
        return product([described(part, width) for part in kernel.parts])
    if isinstance(kernel, Scaled):
        return scaled(kernel.variance, described(kernel.base, width))
    if isinstance(kernel, kernels.Constant):
        return features([functions([1.0])], np.reshape(kernel.variance, (1, 1)), width)
    if isinstance(kernel, kernels.Linear):
        return features([functions(list(range(width)))], np.diag(np.broadcast_to(kernel.variance, width)), width)
    if isinstance(kernel, kernels.NormalScores):
        pairs = zip(np.asarray(kernel.knots).T, np.asarray(kernel.scores).T, strict=True)
        trees = [["interp", j, knots, scores] for j, (knots, scores) in enumerate(pairs)]
        return within(trees, described(kernel.base, width))
    if isinstance(kernel, kernels.Index) and not kernel.rank:
        return scaled(kernel.kappa, equal(None))
    if isinstance(kernel, kernels.Additive) and type(kernel.base) in MATERN:
        return _additive(kernel)
    if type(kernel) in (*MATERN, kernels.Laplacian):
        return stationary(type(kernel).__name__, kernel.lengthscale, kernel.variance)
    raise UserError(f"export cannot describe the kernel {type(kernel).__name__}; use model.save for this model.")


def _additive(kernel: kernels.Additive) -> Described:
    """Return offset + Σ_j κ_j + interaction Σ_{i<j} κ_i κ_j, with κ_j = v (κ(a, b) − κ(a, nodes) W κ(nodes, b))."""
    effects = []
    for j, (nodes, weight) in enumerate(zip(np.asarray(kernel.nodes).T, np.asarray(kernel.weight).T, strict=True)):
        one = stationary(type(kernel.base).__name__, kernel.lengthscale[j], 1.0)
        points = nodes[:, None]
        rank_one = -np.outer(weight, weight) / (weight @ covariance(one, points, points) @ weight)
        both = total([one, features([one], rank_one, 1, points)])
        effects.append(scaled(kernel.variance[j], within([j], both)))
    found = [functions([float(kernel.offset)]), *effects]
    if kernel.interaction is not None and len(effects) > 1:
        found.append(scaled(kernel.interaction, {"kind": "Pairs", "columns": None, "parts": effects}))
    return total(found)


def stationary(shape: str, lengthscale: Any, variance: Any) -> Described:
    """Return a stationary kernel, by the name of its shape."""
    numbers = {"lengthscale": np.asarray(lengthscale, float), "variance": np.asarray(variance, float)}
    return {"kind": shape, "columns": None, **numbers}


def functions(columns: list[Any]) -> Described:
    """Return functions of a row: expressions of its columns."""
    return {"kind": "Columns", "columns": columns}


def features(each: list[Described], matrix: Any, width: int, points: np.ndarray | None = None) -> Described:
    """Return φ(a)ᵀ C φ(b) with the functions φ, or covariances φ with points, of rows of `width` columns."""
    at = np.zeros((1, width)) if points is None else points
    loads = [{"kernel": one, "Z": at} for one in each]
    return {"kind": "Features", "columns": None, "loads": loads, "covariance": np.asarray(matrix, float)}


def equal(columns: list[Any] | None) -> Described:
    """Return 1 for rows that are equal in all columns, and 0 for others."""
    return {"kind": "Equal", "columns": columns}


def scaled(variance: Any, kernel: Described) -> Described:
    """Return a kernel times a number."""
    return product([functions([float(np.reshape(variance, ()))]), kernel])


def within(columns: list[Any] | None, kernel: Described) -> Described:
    """Return a kernel of expressions of the columns."""
    return {"kind": "Sum", "columns": columns, "parts": [kernel]}


def total(each: list[Described]) -> Described:
    return {"kind": "Sum", "columns": None, "parts": each}


def product(each: list[Described]) -> Described:
    return each[0] if len(each) == 1 else {"kind": "Product", "columns": None, "parts": each}
