"""Charts as SVG.

Colours are those of the page.  Every mark has its numbers in `data-tip`, which the page shows on hover, tap and focus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise.app.report.page import number, short, text

# Five colours of the viridis map, whose order is also visible in grey, and on light and dark backgrounds.
_VIRIDIS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], float)


def colour(share: float) -> str:
    """The colour of a share: 0 is the dark end, 1 the bright one."""
    at = float(np.clip(share, 0, 1)) * (len(_VIRIDIS) - 1)
    low = min(int(at), len(_VIRIDIS) - 2)
    r, g, b = _VIRIDIS[low] + (at - low) * (_VIRIDIS[low + 1] - _VIRIDIS[low])
    return f"#{round(r):02x}{round(g):02x}{round(b):02x}"


def _tag(name: str, inside: str = "", /, **attributes: Any) -> str:
    """An element.  Hyphens are written as underscores, `class` as kind, `data-tip` as tip; numbers get two decimals."""
    names = {"kind": "class", "tip": "data-tip"}
    shown = {
        names.get(key, key.replace("_", "-")): f"{v:.2f}" if isinstance(v, float) else text(v)
        for key, v in attributes.items()
    }
    listed = " ".join(f'{key}="{value}"' for key, value in shown.items())
    return f"<{name} {listed}>{inside}</{name}>"


def _words(x: float, y: float, words: str, anchor: str = "middle", **attributes: Any) -> str:
    return _tag("text", text(words), x=float(x), y=float(y), text_anchor=anchor, **attributes)


def _upright(x: float, y: float, words: str) -> str:
    return _words(x, y, words, transform=f"rotate(-90 {x} {y})")


def _svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    return _tag("svg", "".join(parts), viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label)


def legend(names: Sequence[str]) -> str:
    """The names with the colours of their lines."""
    marks = "".join(f'<span><i style="background:var(--c{k % 5})"></i>{text(n)}</span>' for k, n in enumerate(names))
    return f"<div class=legend>{marks}</div>"


def reliability(curves: Mapping[str, Mapping[str, Sequence[float]]], x_label: str, y_label: str) -> str:
    """Observed share against predicted probability, one line per method; on the diagonal predictions are calibrated.

    Dots grow with their rows, so that a bin of two rows is not mistaken for an error.
    """
    left, top, size = 52.0, 12.0, 420.0
    bottom = top + size

    def place(x: float, y: float) -> tuple[float, float]:
        return left + size * x, bottom - size * y

    parts = [_tag("rect", kind="axis", x=left, y=top, width=size, height=size)]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, y = place(tick, tick)
        parts += [_words(x, bottom + 18, f"{tick:g}"), _words(left - 8, y + 4, f"{tick:g}", "end")]
        parts.append(_tag("line", kind="axis", x1=left, x2=left + size, y1=y, y2=y, opacity=0.5))
    diagonal = {"x1": left, "y1": bottom, "x2": left + size, "y2": top}
    parts.append(_tag("line", stroke="var(--soft)", stroke_dasharray="4 4", **diagonal))
    for k, (name, curve) in enumerate(curves.items()):
        paint = f"var(--c{k % 5})"
        points = [place(x, y) for x, y in zip(curve["predicted"], curve["observed"], strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(_tag("polyline", points=path, fill="none", stroke=paint, stroke_width=1.5))
        for (x, y), p, o, n in zip(points, curve["predicted"], curve["observed"], curve["count"], strict=True):
            tip = f"{name}\npredicted {p:.3f}\nobserved {o:.3f}\n{n:g} rows"
            radius = 2.5 + 5.0 * float(np.sqrt(n / max(curve["count"])))
            parts.append(_tag("circle", tip=tip, cx=x, cy=y, r=radius, fill=paint, fill_opacity=0.8, tabindex=0))
    parts += [_words(left + size / 2, bottom + 38, x_label), _upright(14, top + size / 2, y_label)]
    return _svg(left + size + 16, bottom + 46, parts, f"{y_label} against {x_label}") + legend(list(curves))


class Mark(NamedTuple):
    """A method's optimum on a surface."""

    name: str
    x: float
    y: float
    own: bool


def heat(
    values: np.ndarray, x: np.ndarray, y: np.ndarray, marks: Sequence[Mark], span: tuple[float, float], label: str
) -> str:
    """values[j, i] at (x[i], y[j]) as cells; NaN is blank.  `span` maps to the colours; values outside are clipped."""
    left, top, width, height = 52.0, 12.0, 460.0, 380.0
    bottom, dx, dy = top + height, width / len(x), height / len(y)
    low, high = span

    def place(a: float, b: float) -> tuple[float, float]:
        u = (a - x[0]) / (x[-1] - x[0]) * (len(x) - 1) + 0.5
        v = (b - y[0]) / (y[-1] - y[0]) * (len(y) - 1) + 0.5
        return float(left + u * dx), float(bottom - v * dy)

    parts = [_tag("rect", kind="axis", x=left, y=top, width=width, height=height)]
    for j, b in enumerate(y):
        for i, a in enumerate(x):
            if not np.isfinite(values[j, i]):
                continue
            tip = f"{label}: {number(values[j, i])} nats a row\nlog ℓ {number(a, 2)}, log σ {number(b, 2)}"
            paint = colour((values[j, i] - low) / (high - low))
            # A little wider than the cell, so that no gap is visible between neighbours.
            box = {"x": left + i * dx, "y": bottom - (j + 1) * dy, "width": dx + 0.3, "height": dy + 0.3}
            parts.append(_tag("rect", kind="cell", tip=tip, fill=paint, **box))
    for tick in np.linspace(x[0], x[-1], 5):
        parts.append(_words(place(tick, y[0])[0], bottom + 18, number(tick, 1)))
    for tick in np.linspace(y[0], y[-1], 5):
        parts.append(_words(left - 8, place(x[0], tick)[1] + 4, number(tick, 1), "end"))
    parts += [_words(left + width / 2, bottom + 38, "log ℓ (lengthscale)")]
    parts += [_upright(14, top + height / 2, "log σ (magnitude)")]
    # The method's own optimum comes last, so that it is on top.
    for mark in sorted(marks, key=lambda m: m.own):
        px, py = place(mark.x, mark.y)
        tip = f"optimum of {mark.name}\nℓ {short(float(np.exp(mark.x)))}, σ {short(float(np.exp(mark.y)))}"
        line = {"stroke": "#111", "stroke_width": 1.5, "tabindex": 0, "tip": tip}
        if mark.own:
            parts.append(_tag("polygon", points=_star(px, py, 11), fill="#ffffff", **line))
        else:
            parts.append(_tag("circle", cx=px, cy=py, r=5, fill="#ffffffb0", **line))
    bar, steps = left + width + 18, 40
    for k in range(steps):
        box = {"x": bar, "y": top + height * k / steps, "width": 14, "height": height / steps + 0.5}
        parts.append(_tag("rect", fill=colour(1 - k / (steps - 1)), **box))
    for share in (0, 0.5, 1):
        parts.append(_words(bar + 20, bottom - height * share + 4, number(low + share * (high - low), 2), "start"))
    return _svg(bar + 66, bottom + 46, parts, f"evidence surface of {label}")


def _star(x: float, y: float, radius: float) -> str:
    angles = np.pi * np.arange(10) / 5 - np.pi / 2
    lengths = np.where(np.arange(10) % 2 == 0, radius, 0.45 * radius)
    return " ".join(f"{x + r * np.cos(a):.1f},{y + r * np.sin(a):.1f}" for a, r in zip(angles, lengths, strict=True))


def bars(values: Mapping[str, float], unit: str, errors: Mapping[str, float] | None = None) -> str:
    """Horizontal bars from zero, negative ones to the left; an error is a thin line of two standard errors."""
    errors = errors or {}
    left, width, row = min(260.0, 12 + 7.2 * max(len(name) for name in values)), 420.0, 26.0
    reach = [v + s * 2 * errors.get(n, 0.0) for n, v in values.items() for s in (-1, 1)]
    low, high = min(0.0, *reach), max(0.0, *reach)
    scale = width / (high - low or 1.0)
    zero, bottom = left - low * scale, 8 + len(values) * row
    parts = []
    for k, (name, value) in enumerate(values.items()):
        y = 8 + k * row
        start, end = sorted((zero, zero + value * scale))
        tip = f"{name}: {short(value, 4)} {unit}" + (f" ± {short(errors[name], 2)}" if name in errors else "")
        box = {"x": start, "y": y, "width": max(end - start, 1.5), "height": 18, "rx": 3}
        parts.append(_words(left - 10, y + 14, name if len(name) <= 34 else name[:33] + "…", "end", kind="name"))
        parts.append(_tag("rect", tip=tip, fill="var(--c0)", tabindex=0, **box))
        if name in errors:
            a, b = (zero + (value + s * 2 * errors[name]) * scale for s in (-1, 1))
            parts.append(_tag("line", x1=a, x2=b, y1=y + 9, y2=y + 9, stroke="var(--ink)", stroke_width=2))
        parts.append(_words(left + width + 10, y + 14, short(value, 3), "start"))
    parts.append(_tag("line", kind="axis", x1=zero, x2=zero, y1=2, y2=bottom))
    return _svg(left + width + 70, bottom + 4, parts, unit)
