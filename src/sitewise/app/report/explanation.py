"""What a fitted model says about the columns of its table, as plain data for a report.

Effects are average predictions (see `sitewise.explain.effects`) as one column of the *table* moves: a number or a
part of a date along its values, in its own units, and a text column from text to text, all of its 0/1 features at once.
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

_DRAWN = 6  # columns whose effects are drawn
_POINTS, _ROWS = 15, 100  # of each, and over how many rows it is averaged
_OF_DRAWS = 7, 30  # the same for mcmc, where every draw has an effect of its own
_LINES = (0.1, 0.5, 0.9)  # quantiles of the second column at which the first one is drawn
_MOST_LINES = 5  # of a text column, its most frequent texts
_GROUPS = 20  # the largest, whose levels are drawn
_ACROSS = 7  # points along each of these lines


class Movable(NamedTuple):
    """A column, or a part of a date: the numbers of its features, and their values at the points of a picture."""

    name: str
    features: list[int]
    labels: list[str] | None  # of a text column
    centre: float = 0.0
    scale: float = 1.0
    group: bool = False

    def points(self, model: GPBase, most: int) -> np.ndarray:
        """Values of its features, one row for each point."""
        if self.labels is None:
            return grid_of(model, self.features[0], most)[0][:, None]
        if self.group:
            values, counts = np.unique(model._X[:, self.features[0]], return_counts=True)
            return np.sort(values[np.argsort(-counts, kind="stable")][:_GROUPS])[:, None]
        # Two texts share one feature, 0 and 1; more have one each.
        return np.array([[0.0], [1.0]]) if len(self.labels) == 2 else np.eye(len(self.labels))

    def shown(self, points: np.ndarray) -> list[Any]:
        """The points in the units of the table."""
        if self.labels is not None:
            return [self.labels[int(k)] for k in points[:, 0]] if self.group else list(self.labels)
        return (self.centre + self.scale * points[:, 0]).tolist()


def strongest(model: GPBase, encoding: Encoding, most: int = 5) -> dict[str, float]:
    """The columns with the largest shares of the variation of the fitted function."""
    found = model.importance(groups={part.name: part.features for part in _movable(encoding)})
    return {found.names[j]: float(found.total[j]) for j in found.order[:most]}


def explain(model: GPBase, encoding: Encoding, X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Importances of all columns, effects of the strongest, and the two strongest together; X are the training rows."""
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
        "effects": [_effect(model, part, X, positive) for part in order[:_DRAWN]],
        "terms": _terms(model, encoding.features),
        "together": _together(model, order[:2], X, positive) if len(parts) > 1 else None,
    }


def _terms(model: GPBase, names: list[str]) -> list[dict[str, Any]]:
    """Shares of the parts of a kernel that is a sum, the largest first; none for others, and for several kernels."""
    if hasattr(model, "kernel_weights_") or len(model.predict_terms(model._X[:1]).names) <= 2:
        return []
    found = term_shares(model, names=names)
    return [
        {"term": found.names[p], "share": float(found.share[p]), "error": float(found.error[p])} for p in found.order
    ]


def _known(error: float) -> float | None:
    return float(error) if np.isfinite(error) else None


def _movable(encoding: Encoding) -> list[Movable]:
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
    """Which output is drawn, whether as one minus it, and of what it is the probability ("" for values and ranks)."""
    outputs = outputs_of(model)
    if outputs == ("",):
        return 0, False, ""
    if positive is None or positive in outputs:
        chosen = positive or outputs[int(np.argmax([np.sum(model._y == k) for k in range(len(outputs))]))]
        return outputs.index(chosen), False, chosen
    return 0, True, positive  # the first of two classes


def _size(model: GPBase) -> tuple[int, int]:
    return _OF_DRAWS if Method.of(model.method).definition.samples else (_POINTS, _ROWS)


def _effect(model: GPBase, part: Movable, X: np.ndarray, positive: str | None) -> dict[str, Any]:
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
    """Where the rows are: the deciles of a column of numbers."""
    if part.labels is not None:
        return []
    values = np.quantile(X[:, part.features[0]], np.arange(1, 10) / 10)
    return (part.centre + part.scale * values).tolist()


def _together(model: GPBase, pair: list[Movable], X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """The first column along the axis, one line for each of some values of the second."""
    along, lines = sorted(pair, key=lambda part: part.labels is not None)
    across = along.points(model, _ACROSS)
    if lines.labels is None:
        values = np.unique(np.quantile(X[:, lines.features[0]], _LINES))[:, None]
        names = lines.shown(values)
    else:
        every = lines.points(model, _ACROSS)
        rows = [int(np.sum(np.all(X[:, lines.features] == point, axis=1))) for point in every]
        common = np.sort(np.argsort(rows)[::-1][:_MOST_LINES])
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
