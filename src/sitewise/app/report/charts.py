"""SVG charts of the reports: calibration curves, evidence surfaces, bars.

Colours come from the style of the page.  Every mark has its numbers in `data-tip`, shown on hover, tap and focus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise.app.compare.score_table import number, short
from sitewise.app.report.page import text

# Five colours of the viridis map, whose order is also visible in grey, and on light and dark backgrounds.
_VIRIDIS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], float)


def colour(share: float) -> str:
    """Return the colour of a number in [0, 1]: 0 is the dark end of the colour map, 1 the bright end."""
    at = float(np.clip(share, 0, 1)) * (len(_VIRIDIS) - 1)
    low = min(int(at), len(_VIRIDIS) - 2)
    r, g, b = _VIRIDIS[low] + (at - low) * (_VIRIDIS[low + 1] - _VIRIDIS[low])
    return f"#{round(r):02x}{round(g):02x}{round(b):02x}"


def tag(name: str, inside: str = "", /, **attributes: Any) -> str:
    """Return an SVG element; hyphens of attributes are passed as underscores, `class` as kind, `data-tip` as tip."""
    names = {"kind": "class", "tip": "data-tip"}
    shown = {
        names.get(key, key.replace("_", "-")): f"{v:.2f}" if isinstance(v, float) else text(v)
        for key, v in attributes.items()
        if v != ""
    }
    listed = " ".join(f'{key}="{value}"' for key, value in shown.items())
    return f"<{name} {listed}>{inside}</{name}>"


def words(x: float, y: float, content: str, anchor: str = "middle", **attributes: Any) -> str:
    """Return text at a point."""
    return tag("text", text(content), x=float(x), y=float(y), text_anchor=anchor, **attributes)


def upright(x: float, y: float, content: str) -> str:
    """Return text that is rotated by 90 degrees and reads upwards."""
    return words(x, y, content, transform=f"rotate(-90 {x} {y})")


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """Return a drawing of this size; it is enlarged by at most 25 %, to keep the text size equal in all charts."""
    size = {"viewBox": f"0 0 {width:g} {height:g}", "style": f"max-width:{1.25 * width:.0f}px"}
    return tag("svg", "".join(parts), role="img", aria_label=label, **size)


# Lines differ in dashes and marks, not only in colour.
DASHES = ("", "7 4", "2 3", "9 3 2 3", "14 4")


def dot(kind: int, x: float, y: float, radius: float, **attributes: Any) -> str:
    """Return the mark of line number `kind`: circle, square, triangle, diamond or star."""
    if kind % 5 == 0:
        return tag("circle", cx=x, cy=y, r=radius, **attributes)
    if kind % 5 == 4:
        return tag("polygon", points=_star(x, y, 1.3 * radius), **attributes)
    corners, turn = {1: (4, 0.25), 2: (3, 0.5), 3: (4, 0.0)}[kind % 5]
    angles = 2 * np.pi * (np.arange(corners) + turn * (corners == 4) * 2) / corners - np.pi / 2
    points = " ".join(f"{x + 1.2 * radius * np.cos(a):.1f},{y + 1.2 * radius * np.sin(a):.1f}" for a in angles)
    return tag("polygon", points=points, **attributes)


def legend(names: Sequence[str]) -> str:
    """Return a legend: the names with the marks, dashes and colours of their lines."""
    marks = ""
    for k, name in enumerate(names):
        paint = f"var(--c{k % 5})"
        line = tag("line", x1=0, x2=34, y1=7, y2=7, stroke=paint, stroke_width=2, stroke_dasharray=DASHES[k % 5])
        marks += (
            f"<span><svg viewBox='0 0 34 14' class=key>{line}{dot(k, 17, 7, 4, fill=paint)}</svg>{text(name)}</span>"
        )
    return f"<div class=legend>{marks}</div>"


def reliability(curves: Mapping[str, Mapping[str, Sequence[float]]], x_label: str, y_label: str) -> str:
    """Return a calibration chart: observed share against predicted probability, one line per method.

    A curve with `error` has bars of ± two standard errors.
    """
    left, top, size = 52.0, 12.0, 360.0
    bottom = top + size
    # The axes end at the largest value, because probabilities of a rare class would fill only a corner.
    most = max(max(*curve["predicted"], *curve["observed"]) for curve in curves.values())
    end = next(end for end in (0.1, 0.2, 0.4, 1.0) if most <= end)

    def place(x: float, y: float) -> tuple[float, float]:
        return left + size * x / end, bottom - size * y / end

    parts = [tag("rect", kind="axis", x=left, y=top, width=size, height=size)]
    for tick in np.linspace(0, end, 5):
        x, y = place(tick, tick)
        parts += [words(x, bottom + 18, f"{tick:g}"), words(left - 8, y + 4, f"{tick:g}", "end")]
        parts.append(tag("line", kind="axis", x1=left, x2=left + size, y1=y, y2=y, opacity=0.5))
    diagonal = {"x1": left, "y1": bottom, "x2": left + size, "y2": top}
    parts.append(tag("line", stroke="var(--soft)", stroke_dasharray="4 4", **diagonal))
    for k, (name, curve) in enumerate(curves.items()):
        paint = f"var(--c{k % 5})"
        points = [place(x, y) for x, y in zip(curve["predicted"], curve["observed"], strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        line = {"fill": "none", "stroke": paint, "stroke_width": 1.5, "stroke_dasharray": DASHES[k % 5]}
        parts.append(tag("polyline", points=path, **line))
        errors = curve.get("error", np.zeros(len(points)))
        for (x, y), p, o, n, e in zip(
            points, curve["predicted"], curve["observed"], curve["count"], errors, strict=True
        ):
            ends = [place(p, min(max(o + sign * 2 * e, 0.0), end))[1] for sign in (-1, 1)]
            if e > 0:
                parts.append(tag("line", x1=x, x2=x, y1=ends[0], y2=ends[1], stroke=paint, stroke_width=2))
            give = f" ± {2 * e:.3f}" if e > 0 else ""
            tip = f"{name}\npredicted {p:.3f}\nobserved {o:.3f}{give}\n{n:g} rows"
            parts.append(dot(k, x, y, 4.0, tip=tip, fill=paint, tabindex=0))
    parts += [words(left + size / 2, bottom + 38, x_label), upright(14, top + size / 2, y_label)]
    return svg(left + size + 16, bottom + 46, parts, f"{y_label} against {x_label}")


class Mark(NamedTuple):
    """The optimum of a method on an evidence surface; `own` if the surface belongs to this method."""

    name: str
    x: float
    y: float
    own: bool


def heat(
    values: np.ndarray, x: np.ndarray, y: np.ndarray, marks: Sequence[Mark], span: tuple[float, float], label: str
) -> str:
    """Return a heat map of values[j, i] at (x[i], y[j]); NaN is blank, values outside `span` are clipped."""
    left, top, width, height = 52.0, 12.0, 460.0, 380.0
    bottom, dx, dy = top + height, width / len(x), height / len(y)
    low, high = span

    def place(a: float, b: float) -> tuple[float, float]:
        u = (a - x[0]) / (x[-1] - x[0]) * (len(x) - 1) + 0.5
        v = (b - y[0]) / (y[-1] - y[0]) * (len(y) - 1) + 0.5
        return float(left + u * dx), float(bottom - v * dy)

    parts = [tag("rect", kind="axis", x=left, y=top, width=width, height=height)]
    for j, b in enumerate(y):
        for i, a in enumerate(x):
            if not np.isfinite(values[j, i]):
                continue
            tip = f"{label}: {number(values[j, i])} nats per row\nlog ℓ {number(a, 2)}, log σ {number(b, 2)}"
            paint = colour((values[j, i] - low) / (high - low))
            # Slightly wider than the cell, to avoid visible gaps between neighbours.
            box = {"x": left + i * dx, "y": bottom - (j + 1) * dy, "width": dx + 0.3, "height": dy + 0.3}
            parts.append(tag("rect", kind="cell", tip=tip, fill=paint, **box))
    for tick in np.linspace(x[0], x[-1], 5):
        parts.append(words(place(tick, y[0])[0], bottom + 18, number(tick, 1)))
    for tick in np.linspace(y[0], y[-1], 5):
        parts.append(words(left - 8, place(x[0], tick)[1] + 4, number(tick, 1), "end"))
    parts += [words(left + width / 2, bottom + 38, "log ℓ (lengthscale)")]
    parts += [upright(14, top + height / 2, "log σ (magnitude)")]
    # The optimum of this surface's method is drawn last, on top of the other marks.
    for mark in sorted(marks, key=lambda m: m.own):
        px, py = place(mark.x, mark.y)
        tip = f"optimum of {mark.name}\nℓ {short(float(np.exp(mark.x)))}, σ {short(float(np.exp(mark.y)))}"
        line = {"stroke": "#111", "stroke_width": 1.5, "tabindex": 0, "tip": tip}
        if mark.own:
            parts.append(tag("polygon", points=_star(px, py, 11), fill="#ffffff", **line))
        else:
            parts.append(tag("circle", cx=px, cy=py, r=5, fill="#ffffffb0", **line))
    bar, steps = left + width + 18, 40
    for k in range(steps):
        box = {"x": bar, "y": top + height * k / steps, "width": 14, "height": height / steps + 0.5}
        parts.append(tag("rect", fill=colour(1 - k / (steps - 1)), **box))
    for share in (0, 0.5, 1):
        parts.append(words(bar + 20, bottom - height * share + 4, number(low + share * (high - low), 2), "start"))
    return svg(bar + 66, bottom + 46, parts, f"evidence surface of {label}")


def _star(x: float, y: float, radius: float) -> str:
    angles = np.pi * np.arange(10) / 5 - np.pi / 2
    lengths = np.where(np.arange(10) % 2 == 0, radius, 0.45 * radius)
    return " ".join(f"{x + r * np.cos(a):.1f},{y + r * np.sin(a):.1f}" for a, r in zip(angles, lengths, strict=True))


def bars(
    values: Mapping[str, float],
    unit: str,
    errors: Mapping[str, float] | None = None,
    filled: Mapping[str, float] | None = None,
) -> str:
    """Return horizontal bars from zero, negative bars to the left, with thin lines of ± two standard errors.

    `filled` is the length of the filled part of each bar; the rest is open.
    """
    errors = errors or {}
    left, width, row = min(260.0, 12 + 7.2 * max(len(name) for name in values)), 300.0, 26.0
    reach = [v + s * 2 * errors.get(n, 0.0) for n, v in values.items() for s in (-1, 1)]
    # The axis of shares is limited to [0, 1], even if error bars are longer.
    low, high = (0.0, min(1.0, max(reach))) if filled else (min(0.0, *reach), max(0.0, *reach))
    scale = width / (high - low or 1.0)
    zero, bottom = left - low * scale, 8 + len(values) * row
    parts = []
    for k, (name, value) in enumerate(values.items()):
        y = 8 + k * row
        solid = value if filled is None else min(filled[name], value)
        tip = f"{name}: {short(value, 4)} {unit}" + (f" ± {short(2 * errors[name], 2)}" if name in errors else "")
        tip += f"\nalone {short(solid, 3)}" if filled else ""
        parts.append(words(left - 10, y + 14, name if len(name) <= 34 else name[:33] + "…", "end", kind="name"))
        for end, paint in ((value, "none"), (solid, "var(--c0)")) if filled else ((value, "var(--c0)"),):
            start, stop = sorted((zero, zero + end * scale))
            box = {"x": start, "y": y, "width": max(stop - start, 1.5), "height": 18, "rx": 3}
            outline = {"stroke": "var(--c0)", "pointer_events": "all"} if filled else {}
            parts.append(tag("rect", tip=tip, fill=paint, tabindex=0, **box, **outline))
        if name in errors:
            a, b = (
                zero + min(max(value + s * 2 * errors[name], low), high) * scale
                for s in (-1, 1)
            )  # fmt: skip
            parts.append(tag("line", x1=a, x2=b, y1=y + 9, y2=y + 9, stroke="var(--ink)", stroke_width=2))
        parts.append(words(left + width + 10, y + 14, short(value, 3), "start"))
    parts.append(tag("line", kind="axis", x1=zero, x2=zero, y1=2, y2=bottom))
    return svg(left + width + 70, bottom + 4, parts, unit)
