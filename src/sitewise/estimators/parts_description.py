"""Describe a sum of parts for predictions without the library: kernels whose values at points are the loads of a row.

A part's variables x have the loads a(x'), with one load per point z: a level g has the point z = g and the load
[x' = g], a column has a point with 1 in this column and the load x'_j, a spline has the basis function φ_k(x').
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sitewise import parts
from sitewise.errors import UserError
from sitewise.numerics.dense.cubic_splines import SplineBasis

Kernel = dict[str, Any]
ONE: Kernel = {"kind": "Constant", "columns": None, "variance": 1.0}


def described_parts(pairs: Sequence[tuple[Any, Any]], columns: int) -> tuple[list[dict[str, Any]], Kernel, np.ndarray]:
    """Return kernel and points per part, the covariance of the groups' effects, and a root of it on all variables.

    `pairs` are parts with their layouts, `columns` is the number of columns of X.  With the root P, the residual
    variance of a row with the loads a is κ(x, x) − |P a|², the variance of levels without training rows.
    """
    loads, effects, roots = [], [], []
    for part, layout in pairs:
        kernel, points, is_group = _described(part, layout, columns)
        loads.append({"kernel": kernel, "Z": points})
        variance = float(np.ravel(part.variance)[0]) if is_group else 0.0
        own = np.full(layout.size, np.sqrt(variance))
        if isinstance(part, parts.Area):
            own[part.graph.areas :] = 0.0  # both variables of an area have the load 1
        effects.append({"kind": "Scaled", "columns": None, "variance": variance, "base": kernel if is_group else ONE})
        roots.append(own)
    return loads, {"kind": "Sum", "columns": None, "parts": effects}, np.diag(np.concatenate(roots))


def _described(part: Any, layout: Any, columns: int) -> tuple[Kernel, np.ndarray, bool]:
    """Return the kernel and the points of the loads, and whether the part has one effect per group."""
    points, used = np.zeros((layout.size, columns)), [int(column) for column in part.used]
    if isinstance(part, parts.Constant):
        return ONE, points, False
    if isinstance(part, parts.Linear) and part.centre is not None:
        raise UserError("export cannot describe Linear with centre; use model.save, or subtract the centre beforehand.")
    if isinstance(part, parts.Linear):
        points[np.arange(layout.size), used] = 1.0
        return _column(*used), points, False
    if isinstance(part, parts.Season):
        turns = np.arange(1, part.harmonics + 1)
        multiples, phases = np.concatenate([[0], turns, turns]), np.repeat([0, np.pi / 2], [len(turns) + 1, len(turns)])
        waves = {"kind": "Waves", "period": part.period, "multiples": multiples, "phases": phases}
        return {**_column(*used), **waves}, points, False
    if isinstance(part, parts.Area):
        points[:, used[0]] = np.arange(layout.size) % part.graph.areas
        return _same(used[0]), points, True
    if isinstance(part, parts.Levels):
        groups, slope = (used, []) if part.slope is None else (used[:-1], used[-1:])
        points[:, groups] = layout.levels
        points[:, slope] = 1.0
        return _product([*map(_same, groups), *map(_column, slope)]), points, True
    if type(part) is parts.Spline:
        first, by = used[0], used[1:]
        points[:, by] = 1.0
        chosen = range(0 if by else 1, layout.size + (0 if by else 1))
        return _product([_cubic(first, part.knots, chosen), *map(_column, by)]), points, False
    raise UserError(f"export cannot describe the part {type(part).__name__}; use model.save for this model.")


def _column(*used: int) -> Kernel:
    return {"kind": "Linear", "columns": list(used), "variance": 1.0}


def _same(column: int) -> Kernel:
    return {"kind": "Index", "columns": [column], "kappa": 1.0}


def _product(factors: list[Kernel]) -> Kernel:
    return factors[0] if len(factors) == 1 else {"kind": "Product", "columns": None, "parts": factors}


def _cubic(column: int, knots: Sequence[float], chosen: Sequence[int]) -> Kernel:
    """Return polynomials between the knots of 1, the standardised column and the curves of `parts.splines`.

    With values v and second derivatives c at the knots u, and d = x − u_i, the function in an interval of length h is
    v_i + d ((v_{i+1} − v_i)/h − h (2 c_i + c_{i+1})/6) + d² c_i/2 + d³ (c_{i+1} − c_i)/(6 h);  beyond the knots it is
    a straight line.
    """
    u = np.array(knots)
    basis = SplineBasis.of(u)
    v = np.column_stack([np.ones_like(u), (u - np.mean(u)) / np.std(u), basis.values])[:, chosen]
    c = np.column_stack([0 * u, 0 * u, basis.curvatures])[:, chosen]
    h = np.diff(u)[:, None]
    slope = (v[1:] - v[:-1]) / h - h * (2 * c[:-1] + c[1:]) / 6
    last = (v[-1:] - v[-2:-1]) / h[-1:] + h[-1:] * (c[-2:-1] + 2 * c[-1:]) / 6
    none = np.zeros_like(v[:1])
    powers = [
        np.concatenate([v[:1], v]), np.concatenate([slope[:1], slope, last]),
        np.concatenate([none, c[:-1] / 2, none]), np.concatenate([none, (c[1:] - c[:-1]) / (6 * h), none]),
    ]  # fmt: skip
    return {
        "kind": "Cubic", "columns": [column], "knots": u, "origin": np.concatenate([u[:1], u]),
        "coefficients": np.stack(powers),
    }  # fmt: skip
