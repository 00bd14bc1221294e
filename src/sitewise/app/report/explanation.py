"""Importance, effects and interactions of the table's columns in a fitted model, as plain data for a report.

An effect is the average prediction (see `sitewise.explain.effects`) as one column of the *table* varies: a number or a
part of a date in its original units, or a categorical column over its categories, with all of its 0/1 features at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitewise.app.input.targets import Encoding
from sitewise.estimators.base import GPBase
from sitewise.explain.decomposition import term_shares
from sitewise.explain.effects import average, background, grid_of, moved, outputs_of
from sitewise.methods import Method
from sitewise.tables.columns import Group, Levels

MAX_EFFECTS = 6  # columns with an effect chart
EFFECT_POINTS, EFFECT_ROWS = 15, 100  # points per chart, and rows over which the prediction is averaged
MCMC_EFFECT_POINTS, MCMC_EFFECT_ROWS = 7, 30  # fewer, because every draw has an effect
INTERACTION_QUANTILES = (0.1, 0.5, 0.9)  # of the second column, one line each
MAX_INTERACTION_CATEGORIES = 5  # the most frequent categories of the second column, one line each
INTERACTION_POINTS = 7  # along each line
MAX_GROUPS = 20  # the largest groups are drawn


class Movable(NamedTuple):
    """A column or a part of a date that an effect varies: its features, and their values at the points of a chart."""

    name: str
    features: list[int]
    labels: list[str] | None  # categories or groups; None for numbers
    centre: float = 0.0
    scale: float = 1.0
    group: bool = False

    def points(self, model: GPBase, most: int) -> np.ndarray:
        """Return the values of the features, one row per point of the chart."""
        if self.labels is None:
            return grid_of(model, self.features[0], most)[0][:, None]
        if self.group:
            values, counts = np.unique(model._X[:, self.features[0]], return_counts=True)
            return np.sort(values[np.argsort(-counts, kind="stable")][:MAX_GROUPS])[:, None]
        # Two categories share one feature, 0 and 1; otherwise each category has a feature.
        return np.array([[0.0], [1.0]]) if len(self.labels) == 2 else np.eye(len(self.labels))

    def shown(self, points: np.ndarray) -> list[Any]:
        """Return the points in the units of the table."""
        if self.labels is not None:
            return [self.labels[int(k)] for k in points[:, 0]] if self.group else list(self.labels)
        return (self.centre + self.scale * points[:, 0]).tolist()


def strongest(model: GPBase, encoding: Encoding, most: int = 5) -> dict[str, float]:
    """Return the most important columns: the largest shares of the variance of the fitted function."""
    found = model.importance(groups={part.name: part.features for part in _movable(encoding)})
    return {found.names[j]: float(found.total[j]) for j in found.order[:most]}


def explain(model: GPBase, encoding: Encoding, X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Return the importance of all columns, effects of the most important columns, and their interaction.

    X are the training inputs.
    """
    parts = {part.name: part for part in _movable(encoding)}
    found = model.importance(groups={name: part.features for name, part in parts.items()})
    order = [parts[found.names[j]] for j in found.order]
    shares = [
        {
            "column": found.names[j], "alone": float(found.alone[j]), "total": float(found.total[j]),
            "alone_error": _known(found.alone_error[j]), "total_error": _known(found.total_error[j]),
        }
        for j in found.order
    ]  # fmt: skip
    return {
        "importance": shares,
        "effects": [_effect(model, part, X, positive) for part in order[:MAX_EFFECTS]],
        "terms": _terms(model, encoding.features),
        "together": _together(model, order[:2], X, positive) if len(parts) > 1 else None,
    }


def _terms(model: GPBase, names: list[str]) -> list[dict[str, Any]]:
    """Return the shares of variance of the terms of an additive kernel, largest first; empty for other kernels."""
    if hasattr(model, "kernel_weights_") or len(model.predict_terms(model._X[:1]).names) <= 2:
        return []
    found = term_shares(model, names=names)
    return [
        {"term": found.names[p], "share": float(found.share[p]), "error": float(found.error[p])} for p in found.order
    ]


def _known(error: float) -> float | None:
    """Return a finite error, or None."""
    return float(error) if np.isfinite(error) else None


def _movable(encoding: Encoding) -> list[Movable]:
    """Return the columns and parts of dates whose effects can be drawn."""
    found: list[Movable] = []
    at = 0
    for column in encoding.columns:
        places = range(at, at + len(column.features))
        if isinstance(column, Levels):
            found.append(Movable(column.name, list(places), list(column.levels)))
        elif isinstance(column, Group):
            found.append(Movable(column.name, list(places), list(column.levels), group=True))
        else:
            centre, scale = (np.atleast_1d(getattr(column, name)) for name in ("centre", "scale"))
            found += [
                Movable(name, [k], None, float(c), float(s))
                for name, k, c, s in zip(column.features, places, centre, scale, strict=True)
            ]
        at += len(column.features)
    return found


def _output(model: GPBase, positive: str | None) -> tuple[int, bool, str]:
    """Return the index of the output to draw, whether to draw one minus it, and its class ("" for values and ranks)."""
    outputs = outputs_of(model)
    if outputs == ("",):
        return 0, False, ""
    if positive is None or positive in outputs:
        chosen = positive or outputs[int(np.argmax([np.sum(model._y == k) for k in range(len(outputs))]))]
        return outputs.index(chosen), False, chosen
    return 0, True, positive  # the first of two classes


def _size(model: GPBase) -> tuple[int, int]:
    """Return the number of points of an effect, and of rows over which it is averaged."""
    if Method.of(model.method).definition.samples:
        return MCMC_EFFECT_POINTS, MCMC_EFFECT_ROWS
    return EFFECT_POINTS, EFFECT_ROWS


def _effect(model: GPBase, part: Movable, X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Return the effect of one column with its 90 % interval."""
    most, rows = _size(model)
    points, over = part.points(model, most), background(model, None, rows)
    which, flip, of = _output(model, positive)
    blocks = moved(over.X, dict(zip(part.features, points.T, strict=True)))
    mean, _, low, high = (a[:, which] for a in average(model, blocks, over))
    if flip:
        mean, low, high = 1 - mean, 1 - high, 1 - low
    return {
        "column": part.name, "x": part.shown(points), "text": part.labels is not None, "of": of, "rows": len(over.X),
        "ranks": getattr(model, "ranks_in_words_", ""),
        "mean": mean.tolist(), "low": low.tolist(), "high": high.tolist(), "ticks": _deciles(part, X),
    }  # fmt: skip


def _deciles(part: Movable, X: np.ndarray) -> list[float]:
    """Return the deciles of a numeric column; empty for categories."""
    if part.labels is not None:
        return []
    values = np.quantile(X[:, part.features[0]], np.arange(1, 10) / 10)
    return (part.centre + part.scale * values).tolist()


def _together(model: GPBase, pair: list[Movable], X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Return the joint effect of two columns: the first along the axis, one line per value of the second."""
    along, lines = sorted(pair, key=lambda part: part.labels is not None)
    across = along.points(model, INTERACTION_POINTS)
    if lines.labels is None:
        values = np.unique(np.quantile(X[:, lines.features[0]], INTERACTION_QUANTILES))[:, None]
        names = lines.shown(values)
    else:
        every = lines.points(model, INTERACTION_POINTS)
        rows = [int(np.sum(np.all(X[:, lines.features] == point, axis=1))) for point in every]
        common = np.sort(np.argsort(rows)[::-1][:MAX_INTERACTION_CATEGORIES])
        values, names = every[common], [lines.shown(every)[k] for k in common]
    over = background(model, None, _size(model)[1])
    which, flip, of = _output(model, positive)
    drawn = []
    for value, shown in zip(values, names, strict=True):
        columns = dict(zip(along.features, across.T, strict=True))
        columns |= dict(zip(lines.features, np.repeat(value[:, None], len(across), axis=1), strict=True))
        mean = average(model, moved(over.X, columns), over)[0][:, which]
        drawn.append({"at": shown, "mean": (1 - mean if flip else mean).tolist()})
    return {
        "columns": [along.name, lines.name], "x": along.shown(across), "text": along.labels is not None, "of": of,
        "rows": len(over.X), "lines": drawn,
    }  # fmt: skip
