"""What a reader sees in a chart: higher values higher, bars of the right length, labels outside the frame."""

import re

import numpy as np
import pytest

from sitewise.app.report import charts, effect_charts


def _tags(chart, name):
    """The attributes of all elements of this name."""
    return [dict(re.findall(r'([\w-]+)="([^"]*)"', found)) for found in re.findall(f"<{name} ([^>]*)>", chart)]


def _texts(chart):
    """The vertical position of every text."""
    return {content: float(y) for y, content in re.findall(r'<text [^>]*?y="([\d.-]+)"[^>]*>([^<]*)<', chart)}


def test_colours_between_two_of_the_map_lie_between_them():
    low, middle, high = (
        np.array([int(charts.colour(share)[k : k + 2], 16) for k in (1, 3, 5)]) for share in (0.0, 0.125, 0.25)
    )
    np.testing.assert_allclose(middle, (low + high) / 2, atol=0.5)


@pytest.mark.parametrize(("kind", "corners"), [(1, 4), (2, 3), (3, 4), (4, 10)])
def test_marks_are_squares_triangles_diamonds_and_stars(kind, corners):
    (mark,) = _tags(charts.dot(kind, 10.0, 10.0, 4.0), "polygon")
    assert len(mark["points"].split()) == corners


def test_error_bars_reach_equally_far_to_both_sides():
    curve = {"predicted": [0.5], "observed": [0.6], "count": [40], "error": [0.1]}
    chart = charts.reliability({"vi": curve}, "predicted", "observed")
    (circle,) = _tags(chart, "circle")
    (bar,) = (line for line in _tags(chart, "line") if line["x1"] == line["x2"])
    low, centre, high = (float(a) for a in (bar["y1"], circle["cy"], bar["y2"]))
    assert low - centre == pytest.approx(centre - high) and low > high
    frame = next(rect for rect in _tags(chart, "rect"))
    assert low - high == pytest.approx(0.4 * float(frame["height"]))


@pytest.mark.parametrize("unit", [0.01, 1.0, 500.0])
def test_the_longest_bar_is_as_long_for_every_unit(unit):
    long, short = (float(r["width"]) for r in _tags(charts.bars({"a": 2 * unit, "b": unit}, "nats"), "rect"))
    assert long == 300.0 and short == 150.0


def test_bars_of_zeros_are_drawn():
    assert len(_tags(charts.bars({"a": 0.0, "b": 0.0}, "nats"), "rect")) == 2


EFFECT = {
    "column": "height", "x": [1.0, 2.0, 3.0], "text": False, "mean": [0.0, 1.0, 2.0], "low": [-0.5, 0.5, 1.5],
    "high": [0.5, 1.5, 2.5], "ticks": [],
}  # fmt: skip


def test_equal_steps_of_the_mean_are_equal_steps_upwards_inside_the_frame():
    chart = effect_charts.effect(EFFECT, "price", (-0.5, 2.5))
    frame = next(rect for rect in _tags(chart, "rect"))
    up = [float(circle["cy"]) for circle in _tags(chart, "circle")]
    assert up[0] - up[1] == pytest.approx(up[1] - up[2], abs=0.02) and up[0] > up[1]
    assert float(frame["y"]) < up[2] and up[0] < float(frame["y"]) + float(frame["height"])


@pytest.mark.parametrize("categories", [["red", "blue", "green"], ["a", "b", "c", "d", "e", "f"]])
def test_the_categories_and_the_name_of_the_column_are_below_the_frame(categories):
    each = [0.0] * len(categories)
    found = {**EFFECT, "x": categories, "text": True, "mean": each, "low": each, "high": each}
    chart = effect_charts.effect(found, "price", (-1.0, 1.0))
    frame, places = next(rect for rect in _tags(chart, "rect")), _texts(chart)
    bottom = float(frame["y"]) + float(frame["height"])
    assert all(bottom < places[name] < places["height"] for name in categories)
