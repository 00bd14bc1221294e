"""SVG charts of effects: the average prediction along one column, or per value of a second column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sitewise.app.compare.score_table import short
from sitewise.app.report.charts import DASHES, dot, legend, svg, tag, upright, words

Plain = Mapping[str, Any]
_LEFT, _TOP, _WIDTH, _HEIGHT = 64.0, 12.0, 360.0, 220.0
_BOTTOM = _TOP + _HEIGHT
MAX_LABEL_CHARACTERS = 14  # of a category below the axis
MIN_SLANTED_LABELS = 5  # with this number of categories or more, labels are slanted


def ticks(low: float, high: float, most: int = 6) -> np.ndarray:
    """Return round numbers between low and high: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return np.array([low])
    raw = (high - low) / (most - 1)
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))
    return step * np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) + 0.0  # no −0


class _Axes:
    """Axes of an effect chart; a categorical column (`text`) has one position per category."""

    def __init__(self, x: Sequence[Any], text: bool, low: float, high: float) -> None:
        self.text, self.labels = text, [str(v) for v in x] if text else []
        at = np.arange(len(x), dtype=float) if text else np.asarray(x, float)
        self.x = at
        self.start, self.end = (at[0] - 0.5, at[-1] + 0.5) if text else (at.min(), at.max())
        pad = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
        self.low, self.high = low - pad, high + pad

    def across(self, x: float) -> float:
        return float(_LEFT + _WIDTH * (x - self.start) / ((self.end - self.start) or 1.0))

    def up(self, y: float) -> float:
        return float(_BOTTOM - _HEIGHT * (y - self.low) / (self.high - self.low))

    def path(self, y: Sequence[float]) -> str:
        return " ".join(f"{self.across(a):.1f},{self.up(b):.1f}" for a, b in zip(self.x, y, strict=True))

    def drawn(self, parts: Sequence[str], x_label: str, y_label: str) -> str:
        """Return the chart of these parts with its axes."""
        frame = [tag("rect", kind="axis", x=_LEFT, y=_TOP, width=_WIDTH, height=_HEIGHT)]
        for tick in ticks(self.low, self.high):
            y = self.up(tick)
            frame.append(tag("line", kind="axis", x1=_LEFT, x2=_LEFT + _WIDTH, y1=y, y2=y, opacity=0.5))
            frame.append(words(_LEFT - 8, y + 4, short(float(tick), 4), "end"))
        below = 38.0
        if not self.text:
            frame += [words(self.across(t), _BOTTOM + 20, short(float(t), 5)) for t in ticks(self.start, self.end)]
        elif len(self.labels) < MIN_SLANTED_LABELS:
            frame += [words(self.across(k), _BOTTOM + 20, _cut(name)) for k, name in enumerate(self.labels)]
        else:
            below = 86.0
            for k, name in enumerate(self.labels):
                x = self.across(k)
                frame.append(words(x, _BOTTOM + 16, _cut(name), "end", transform=f"rotate(-40 {x} {_BOTTOM + 16})"))
        frame += [words(_LEFT + _WIDTH / 2, _BOTTOM + below, x_label, kind="name")]
        frame += [upright(14, _TOP + _HEIGHT / 2, y_label)]
        return svg(_LEFT + _WIDTH + 16, _BOTTOM + below + 10, [*frame, *parts], f"{y_label} against {x_label}")


def _cut(name: str) -> str:
    """Return a label of at most `MAX_LABEL_CHARACTERS` characters."""
    return name if len(name) <= MAX_LABEL_CHARACTERS else name[: MAX_LABEL_CHARACTERS - 1] + "…"


def effect(found: Plain, y_label: str, span: tuple[float, float]) -> str:
    """Return a chart of the average prediction with its band; for categories, dots with bars.

    `span` is the common range of all effects of a report.
    """
    axes = _Axes(found["x"], found["text"], *span)
    parts = []
    rows = list(zip(axes.x, found["x"], found["mean"], found["low"], found["high"], strict=True))
    if not found["text"]:
        there = axes.path(found["high"]).split() + axes.path(found["low"]).split()[::-1]
        parts.append(tag("polygon", points=" ".join(there), fill="var(--c0)", fill_opacity=0.2))
        parts.append(tag("polyline", points=axes.path(found["mean"]), fill="none", stroke="var(--c0)", stroke_width=2))
        inside = [t for t in found["ticks"] if axes.start <= t <= axes.end]
        for t in inside:
            x = axes.across(t)
            parts.append(tag("line", x1=x, x2=x, y1=_BOTTOM, y2=_BOTTOM - 7, stroke="var(--ink)", stroke_width=1.2))
    for x, shown, mean, low, high in rows:
        value = shown if isinstance(shown, str) else short(shown, 4)
        tip = f"{found['column']} {value}\n{short(mean, 3)}\n90 %: {short(low, 3)} to {short(high, 3)}"
        if found["text"]:
            at = axes.across(x)
            ends = {"x1": at, "x2": at, "y1": axes.up(low), "y2": axes.up(high)}
            parts.append(tag("line", stroke="var(--c0)", stroke_width=2, **ends))
        size = 4.5 if found["text"] else 2.5
        parts.append(dot(0, axes.across(x), axes.up(mean), size, tip=tip, fill="var(--c0)", tabindex=0))
    return axes.drawn(parts, found["column"], y_label)


def together(found: Plain, y_label: str) -> str:
    """Return a chart of the average prediction along the first column, one line per value of the second column."""
    first, second = found["columns"]
    values = [line["mean"] for line in found["lines"]]
    axes = _Axes(found["x"], found["text"], float(np.min(values)), float(np.max(values)))
    parts, names = [], []
    for k, line in enumerate(found["lines"]):
        paint = f"var(--c{k % 5})"
        names.append(f"{second} {line['at'] if isinstance(line['at'], str) else short(line['at'], 3)}")
        parts.append(tag(
            "polyline", points=axes.path(line["mean"]), fill="none", stroke=paint, stroke_width=2,
            stroke_dasharray=DASHES[k % 5],
        ))  # fmt: skip
        for x, shown, mean in zip(axes.x, found["x"], line["mean"], strict=True):
            value = shown if isinstance(shown, str) else short(shown, 4)
            tip = f"{names[-1]}\n{first} {value}\n{short(mean, 3)}"
            parts.append(dot(k, axes.across(x), axes.up(mean), 3.5, tip=tip, fill=paint, tabindex=0))
    return axes.drawn(parts, first, y_label) + legend(names)
