"""Importance, effects and interactions of the table's columns in a fitted model, as plain data for a report.

With a parameter that varies with x, the report also shows along which columns and in which rows it is large.

An effect is the average prediction (see `sitewise.explain.effects`) as one column of the *table* varies: a number or a
part of a date in its original units, or a categorical column over its categories, with all of its 0/1 features at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.app.input.targets import Encoding
from sitewise.estimators.base import GPBase
from sitewise.explain.decomposition import predict_terms, term_shares
from sitewise.explain.effects import average, background, outputs_of, points_of
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.importance import Importance, importance
from sitewise.explain.parameter_effects import parameter_along
from sitewise.explain.table_columns import Explained, TableColumn, encoded_columns, frequent_levels
from sitewise.methods import Method

MAX_EFFECTS = 6  # columns with an effect chart
EFFECT_POINTS, EFFECT_ROWS = 15, 100  # points per chart, and rows over which the prediction is averaged
MCMC_EFFECT_POINTS, MCMC_EFFECT_ROWS = 7, 30  # fewer, because every draw has an effect
INTERACTION_QUANTILES = (0.1, 0.5, 0.9)  # of the second column, one line each
MAX_VARYING_EFFECTS, MAX_VARYING_ROWS = 3, 5  # columns and rows of the parameter that varies
MAX_INTERACTION_CATEGORIES = 5  # the most frequent categories of the second column, one line each
INTERACTION_POINTS = 7  # along each line
MAX_LEVELS = 20  # the most frequent categories or groups are drawn


def strongest(model: GPBase, encoding: Encoding, most: int = 5) -> dict[str, float]:
    """Return the most important columns: the largest shares of the variance of the fitted function."""
    found = importance(_view(model, encoding))
    return {found.names[j]: float(found.total[j]) for j in found.order[:most]}


def explain(model: GPBase, encoding: Encoding, X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Return the importance of all columns, effects of the most important columns, and their interaction.

    X are the training inputs.
    """
    view = _view(model, encoding)
    found = importance(view)
    order = [view.columns[j] for j in found.order]
    return {
        "importance": _shares(found),
        "effects": [_effect(view, column, X, positive) for column in order[:MAX_EFFECTS]],
        "terms": _terms(view),
        "varying": _varying(view, X),
        "together": _together(view, order[:2], X, positive) if len(order) > 1 else None,
    }


def _shares(found: Importance) -> list[dict[str, Any]]:
    """Return the shares of all columns, largest first."""
    return [
        {
            "column": found.names[j], "alone": float(found.alone[j]), "total": float(found.total[j]),
            "alone_error": _known(found.alone_error[j]), "total_error": _known(found.total_error[j]),
        }
        for j in found.order
    ]  # fmt: skip


def _varying(view: Explained, X: np.ndarray) -> dict[str, Any] | None:
    """Return shares, effects and the largest rows of the parameter that varies with x; None if no parameter varies."""
    model: Any = view.model
    functions = model._latents[0].model.likelihood.functions
    if not functions:
        return None
    found = importance(view, function=functions[1])
    over, effects = background(model, None, EFFECT_ROWS), []
    for j in found.order[:MAX_VARYING_EFFECTS]:
        column = view.columns[j]
        values, codes = _points(view, column, EFFECT_POINTS, MAX_LEVELS)
        each = zip(("mean", "low", "high"), parameter_along(model, column.places, codes, over), strict=True)
        effects.append({
            "column": column.name, "x": values.tolist(), "text": column.levels is not None, "rows": len(over.X),
            "ticks": _deciles(column, X), **{name: one.tolist() for name, one in each},
        })  # fmt: skip
    median, low, high = model.predict_parameter(X)
    largest = [
        {"index": int(i), "median": float(median[i]), "low": float(low[i]), "high": float(high[i])}
        for i in np.argsort(-median, kind="stable")[:MAX_VARYING_ROWS]
    ]
    return {"function": functions[1], "importance": _shares(found), "effects": effects, "largest": largest}


def _view(model: GPBase, encoding: Encoding) -> Explained:
    """Return the model with the columns of the table."""
    return Explained(model, encoded_columns(encoding.columns), encoding.features)


def _terms(view: Explained) -> list[dict[str, Any]]:
    """Return the shares of variance of the terms of an additive kernel, largest first; empty for other kernels."""
    if view.model._latents[0].model.likelihood.functions:
        return []
    if view.model._averages_kernels() or len(predict_terms(view, view.model._X[:1]).names) <= 2:
        return []
    found = term_shares(view)
    return [
        {"term": found.names[p], "share": float(found.share[p]), "error": float(found.error[p])} for p in found.order
    ]


def _known(error: float) -> float | None:
    """Return a finite error, or None."""
    return float(error) if np.isfinite(error) else None


def _output(model: Fitted, positive: str | None) -> tuple[int, bool, str]:
    """Return the index of the output to draw, whether to draw one minus it, and its class ("" for values and ranks)."""
    outputs = outputs_of(model)
    if outputs == ("",):
        return 0, False, ""
    if positive is None or positive in outputs:
        chosen = positive or outputs[int(np.argmax([np.sum(model._y == k) for k in range(len(outputs))]))]
        return outputs.index(chosen), False, chosen
    return 0, True, positive  # the first of two classes


def _size(model: Fitted) -> tuple[int, int]:
    """Return the number of points of an effect, and of rows over which it is averaged."""
    if Method.of(model.method).definition.samples:
        return MCMC_EFFECT_POINTS, MCMC_EFFECT_ROWS
    return EFFECT_POINTS, EFFECT_ROWS


def _points(view: Explained, column: TableColumn, points: int, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values of a column in the units of the table, and their encodings; at most `levels` levels."""
    values, codes, _ = points_of(view, column, points)
    chosen = slice(None) if column.levels is None else frequent_levels(view, column, levels)
    return values[chosen], codes[chosen]


def _effect(view: Explained, column: TableColumn, X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Return the effect of one column with its 90 % interval."""
    model = view.model
    most, rows = _size(model)
    over = background(model, None, rows)
    values, codes = _points(view, column, most, MAX_LEVELS)
    which, flip, of = _output(model, positive)
    mean, _, low, high = (a[:, which] for a in average(model, column.places, codes, over))
    if flip:
        mean, low, high = 1 - mean, 1 - high, 1 - low
    return {
        "column": column.name, "x": values.tolist(), "text": column.levels is not None, "of": of, "rows": len(over.X),
        "ranks": getattr(model, "ranks_in_words_", ""),
        "mean": mean.tolist(), "low": low.tolist(), "high": high.tolist(), "ticks": _deciles(column, X),
    }  # fmt: skip


def _deciles(column: TableColumn, X: np.ndarray) -> list[float]:
    """Return the deciles of a numeric column; empty for categories."""
    if column.levels is not None:
        return []
    return column.back(np.quantile(X[:, column.places[0]], np.arange(1, 10) / 10)).tolist()


def _together(view: Explained, pair: list[TableColumn], X: np.ndarray, positive: str | None) -> dict[str, Any]:
    """Return the joint effect of two columns: the first along the axis, one line per value of the second."""
    model = view.model
    along, lines = sorted(pair, key=lambda column: column.levels is not None)
    across, along_codes = _points(view, along, INTERACTION_POINTS, MAX_LEVELS)
    if lines.levels is None:
        line_codes = np.unique(np.quantile(X[:, lines.places[0]], INTERACTION_QUANTILES))[:, None]
        names = lines.back(line_codes[:, 0])
    else:
        names, line_codes = _points(view, lines, INTERACTION_POINTS, MAX_INTERACTION_CATEGORIES)
    over = background(model, None, _size(model)[1])
    which, flip, of = _output(model, positive)
    drawn = []
    for code, shown in zip(line_codes, names.tolist(), strict=True):
        codes = np.column_stack([along_codes, np.repeat(code[None], len(across), axis=0)])
        mean = average(model, (*along.places, *lines.places), codes, over)[0][:, which]
        drawn.append({"at": shown, "mean": (1 - mean if flip else mean).tolist()})
    return {
        "columns": [along.name, lines.name], "x": across.tolist(), "text": along.levels is not None, "of": of,
        "rows": len(over.X), "lines": drawn,
    }  # fmt: skip
