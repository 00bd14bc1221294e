"""SVG charts of the terms of a fitted function: curves, levels, coefficients, maps with exceedance probabilities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import ndtr

from sitewise.app.compare.score_table import short
from sitewise.app.report import effect_charts
from sitewise.app.report.charts import colour, svg, tag, upright, words
from sitewise.app.report.page import figure, panels
from sitewise.explain.term_effects import TermEffect

MAX_CHARTED_LEVELS = 20  # of a group: the lowest and the highest effects


def term_figures(effects: list[TermEffect], label: str) -> str:
    """Return one chart per term; a term of two columns has maps of mean, standard deviation and exceedance."""
    drawn = [_figure(one, one.label or label) for one in effects if one.kind != "map"]
    maps = [panels(*_maps(one, one.label or label)) for one in effects if one.kind == "map"]
    return (panels(*drawn) if drawn else "") + "".join(maps)


def _axis(one: TermEffect) -> str:
    if one.kind == "coefficients":
        return ""
    return " × ".join(one.columns) + (", days since 1970" if one.dates else "")


def _figure(one: TermEffect, label: str) -> str:
    if one.series:
        lines = [{"at": name, "mean": mean.tolist()} for name, mean in zip(one.series, one.mean, strict=True)]
        found = {"columns": [_axis(one), ""], "x": one.values.tolist(), "text": False, "lines": lines}
        return figure(effect_charts.together(found, label), one.note, title=one.name)
    chosen, note = _levels(one)
    found = {
        "column": _axis(one), "x": one.values[chosen].tolist(), "text": one.kind != "curve", "ticks": [],
        "mean": one.mean[chosen].tolist(), "low": one.low[chosen].tolist(), "high": one.high[chosen].tolist(),
    }  # fmt: skip
    span = float(np.min(one.low[chosen])), float(np.max(one.high[chosen]))
    name = "coefficient" if one.kind == "coefficients" else label
    return figure(effect_charts.effect(found, name, span), note, title=one.name)


def _levels(one: TermEffect) -> tuple[np.ndarray, str]:
    """Return the values to draw: of many levels those with the lowest and the highest effects."""
    every = np.arange(len(one.mean))
    if one.kind != "levels":
        return every, one.note
    order = np.argsort(one.mean, kind="stable")
    if len(order) <= MAX_CHARTED_LEVELS:
        return order, one.note
    half = MAX_CHARTED_LEVELS // 2
    return np.concatenate([order[:half], order[-half:]]), f"The {half} lowest and highest of {len(order)} levels."


def _maps(one: TermEffect, label: str) -> list[str]:
    above = ndtr(one.mean / np.maximum(one.sd, np.finfo(float).tiny))
    most = float(np.max(np.abs(one.mean))) or 1.0
    shown: Mapping[str, tuple[np.ndarray, tuple[float, float]]] = {
        label: (one.mean, (-most, most)),
        "standard deviation": (one.sd, (float(np.min(one.sd)), float(np.max(one.sd)))),
        "probability of an effect above the average": (above, (0.0, 1.0)),
    }
    return [
        figure(_heat(one, values, span, name), title=f"{one.name}: {name}") for name, (values, span) in shown.items()
    ]


def _heat(one: TermEffect, values: np.ndarray, span: tuple[float, float], label: str) -> str:
    """Return a map of values on the grid of the term, with a bar of colours."""
    left, top, width, height = 64.0, 12.0, 330.0, 290.0
    x, y = (np.unique(one.values[:, k]) for k in (0, 1))
    table = np.reshape(values, (len(y), len(x)))
    low, high = span if span[1] > span[0] else (span[0], span[0] + 1.0)
    bottom, dx, dy = top + height, width / len(x), height / len(y)
    parts = []
    for (j, i), value in np.ndenumerate(table):
        at = f"{one.columns[0]} {short(float(x[i]), 4)}, {one.columns[1]} {short(float(y[j]), 4)}"
        tip = f"{at}\n{short(float(value), 3)}"
        box = {"x": left + i * dx, "y": bottom - (j + 1) * dy, "width": dx + 0.3, "height": dy + 0.3}
        parts.append(tag("rect", kind="cell", tip=tip, fill=colour((value - low) / (high - low)), **box))
    for tick in effect_charts.ticks(float(x[0]), float(x[-1]), 5):
        parts.append(words(left + (tick - x[0]) / (x[-1] - x[0]) * width, bottom + 18, short(float(tick), 5)))
    for tick in effect_charts.ticks(float(y[0]), float(y[-1]), 5):
        at = bottom - (tick - y[0]) / (y[-1] - y[0]) * height + 4
        parts.append(words(left - 8, at, short(float(tick), 5), "end"))
    bar, steps = left + width + 12, 40
    for k in range(steps):
        box = {"x": bar, "y": top + height * k / steps, "width": 12, "height": height / steps + 0.5}
        parts.append(tag("rect", fill=colour(1 - k / (steps - 1)), **box))
    for share in (0.0, 0.5, 1.0):
        parts.append(words(bar + 17, bottom - height * share + 4, short(float(low + share * (high - low)), 3), "start"))
    parts += [words(left + width / 2, bottom + 38, one.columns[0], kind="name")]
    parts += [upright(14, top + height / 2, one.columns[1])]
    return svg(bar + 62, bottom + 46, parts, f"{label} over {one.columns[0]} and {one.columns[1]}")
