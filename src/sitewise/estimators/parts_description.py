"""Describe a sum of parts for predictions without the library: kernels whose values at points are the loads of a row.

A part's variables x ~ N(0, C) have the loads a(x'), with one load per point z.  A level g has the point z = g and the
load [x' = g], a place has the weight that it has as a neighbour of x', a spline has the basis function φ_k(x').  Parts
with a residual e at new rows have a kernel κ, and Var[e] = κ(x', x') − aᵀ C a.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise import parts
from sitewise.errors import UserError
from sitewise.estimators.kernel_description import (
    Described,
    described,
    equal,
    features,
    functions,
    product,
    scaled,
    total,
    within,
)
from sitewise.numerics.dense.cholesky import covariance_root
from sitewise.numerics.dense.cubic_splines import SplineBasis
from sitewise.parts.neighbour_covariances import JITTER
from sitewise.parts.places import EARTH_RADIUS

ONE = functions([1.0])
NONE = scaled(0.0, equal(None))
DEGREE = float(np.pi / 180)


class DescribedPart(NamedTuple):
    """The loads of a part, its kernel κ, and a root P of C: Var[e] = κ(x, x) − |P a|².

    order      the number of the variable per load
    whitening  the matrix W if the loads are Wᵀ a with the functions a of a row that `loads` describes
    """

    loads: list[dict[str, Any]]
    order: np.ndarray
    kernel: Described = NONE
    root: np.ndarray | None = None
    whitening: np.ndarray | None = None


class DescribedSum(NamedTuple):
    """The same for a sum of parts; `whitened` has the loads of parts with a matrix W, and the matrix."""

    loads: list[dict[str, Any]]
    order: np.ndarray
    kernel: Described
    root: np.ndarray
    whitened: list[tuple[slice, np.ndarray]]


def described_parts(pairs: Sequence[tuple[Any, Any]], width: int) -> DescribedSum:
    """Return the description of a sum of parts with their layouts; `width` is the number of columns of X."""
    found = [_described(part, layout, width) for part, layout in pairs]
    ends = np.cumsum([layout.size for _, layout in pairs])
    size = int(ends[-1]) if len(ends) else 0
    roots = [np.empty((0, size))]
    for one, end in zip(found, ends, strict=True):
        if one.root is not None:
            whole = np.zeros((len(one.root), size))
            whole[:, end - len(one.order) : end] = one.root
            roots.append(whole)
    order = [one.order + end - len(one.order) for one, end in zip(found, ends, strict=True)]
    return DescribedSum(
        [load for one in found for load in one.loads], np.concatenate([np.empty(0, int), *order]),
        total([one.kernel for one in found] or [NONE]), np.concatenate(roots),
        [
            (slice(end - len(one.order), end), one.whitening)
            for one, end in zip(found, ends, strict=True) if one.whitening is not None
        ],
    )  # fmt: skip


def _described(part: Any, layout: Any, width: int) -> DescribedPart:
    used = [int(column) for column in part.used]
    if isinstance(part, parts.Constant):
        return _functions(ONE, layout, width)
    if isinstance(part, parts.Linear):
        centre = np.broadcast_to(0.0 if part.centre is None else part.centre, len(used)).tolist()
        moved = functions([["add", j, -c] for j, c in zip(used, centre, strict=True)])
        whitening = None if part.whitening is None else np.array(part.whitening)
        return _functions(moved, layout, width)._replace(whitening=whitening)
    if isinstance(part, parts.Season):
        return _functions(functions(_waves(used[0], part)), layout, width)
    if isinstance(part, parts.Tensor):
        along = zip(*_tensor_pairs(*(len(knots) for knots in part.knots)), strict=True)
        each = [_cubic(*one) for one in zip(used, part.knots, along, strict=True)]
        return _functions(product(each), layout, width)
    if isinstance(part, parts.SplineLevels):
        curves = [_cubic(used[0], part.knots, [k]) for k in range(1, len(part.knots))]
        variances = part.variances_of(len(curves))[0]
        return _of_levels(layout.levels[:, None], used[1:], curves, np.diag(variances), width)
    if isinstance(part, parts.VaryingCoefficients):
        slopes = [functions([column]) for column in used[1:]]
        covariates = [ONE, *slopes] if part.intercept else slopes
        return _of_levels(layout.levels[:, None], used[:1], covariates, np.asarray(part.covariance()), width)
    if isinstance(part, parts.Levels):
        groups, slope = (used, ONE) if part.slope is None else (used[:-1], functions(used[-1:]))
        return _of_levels(layout.levels, groups, [slope], np.reshape(part.variance, (1, 1)), width)
    if isinstance(part, parts.Area):
        return _of_areas(part, layout, used, width)
    if isinstance(part, parts.Map):
        return _of_places(part, layout, used, width)
    if type(part) is parts.Spline:
        by = [functions([column]) for column in used[1:]]
        chosen = range(0 if by else 1, layout.size + (0 if by else 1))
        return _functions(product([_cubic(used[0], part.knots, chosen), *by]), layout, width)
    raise UserError(f"export cannot describe the part {type(part).__name__}; use model.save for this model.")


def _functions(kernel: Described, layout: Any, width: int) -> DescribedPart:
    """Return the description of a part without residuals, whose loads are functions of a row."""
    return DescribedPart([{"kernel": kernel, "Z": np.zeros((layout.size, width))}], np.arange(layout.size))


def _points(values: np.ndarray, columns: list[int], width: int) -> np.ndarray:
    out = np.zeros((len(values), width))
    out[:, columns] = values
    return out


def _of_levels(
    levels: np.ndarray, columns: list[int], each: list[Described], covariance: np.ndarray, width: int
) -> DescribedPart:
    """Return the description of functions whose coefficients have this covariance, independently per level.

    The variables have the levels first, the loads have the functions first.
    """
    points, count = _points(levels, columns, width), len(each)
    loads = [{"kernel": product([equal(columns), one]), "Z": points} for one in each]
    kernel = product([equal(columns), features(each, covariance, width)])
    root = np.kron(np.eye(len(levels)), covariance_root(covariance).T)
    return DescribedPart(loads, np.arange(len(levels) * count).reshape(-1, count).T.ravel(), kernel, root)


def _of_areas(part: Any, layout: Any, used: list[int], width: int) -> DescribedPart:
    """Return the description of areas; both variables of an area have the load 1, C counts the first one."""
    areas, variance = part.graph.areas, float(np.reshape(part.variance, ()))
    points = _points(np.arange(layout.size)[:, None] % areas, used, width)
    root = np.sqrt(variance) * np.eye(areas, layout.size)
    loads = [{"kernel": equal(used), "Z": points}]
    return DescribedPart(loads, np.arange(layout.size), scaled(variance, equal(used)), root)


def _of_places(part: Any, layout: Any, used: list[int], width: int) -> DescribedPart:
    """Return the description of a map: weights of the neighbours of a place; κ has a nugget."""
    at: list[Any] = list(range(len(used)))
    if part.sphere:
        east, north = (["multiply", DEGREE, j] for j in at)
        unit = [["multiply", ["cos", north], [f, east]] for f in ("cos", "sin")] + [["sin", north]]
        at = [["multiply", EARTH_RADIUS, one] for one in unit]
    nugget = total([ONE, scaled(JITTER, equal(None))])
    kernel = product([nugget, described(part.kernel, len(at))])
    count = layout.size if part.exact_for(layout.size) else part.neighbours
    near = {"kind": "Nearest", "columns": None, "count": count, "base": kernel}
    loads = [{"kernel": within(used, within(at, near)), "Z": _points(layout.distinct, used, width)}]
    root = covariance_root(np.asarray(part.pairs(layout.distinct, layout.distinct))).T
    return DescribedPart(loads, np.arange(layout.size), within(used, within(at, kernel)), root)


def _waves(column: int, part: Any) -> list[Any]:
    """Return the functions of a season: 1, the cosines and the sines."""
    turns = ["divide", column, part.period]
    share = ["add", turns, ["multiply", -1.0, ["floor", turns]]]
    angles = [["multiply", float(2 * np.pi * j), share] for j in range(1, part.harmonics + 1)]
    return [1.0, *(["cos", angle] for angle in angles), *(["sin", angle] for angle in angles)]


def _tensor_pairs(first: int, second: int) -> list[tuple[int, int]]:
    """Return the functions of both columns per variable: 0 is 1, 1 is the column, 2 … are the curves."""
    f, s = range(2, first), range(2, second)
    pairs = [(1, 0), (0, 1), (1, 1), *((k, 0) for k in f), *((k, 1) for k in f)]
    return [*pairs, *((0, k) for k in s), *((1, k) for k in s), *((j, k) for j in f for k in s)]


def _cubic(column: int, knots: Sequence[float], chosen: Sequence[int]) -> Described:
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
