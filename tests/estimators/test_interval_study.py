"""The study of intervals, on one set: the same set every time, and shares that are counted as it says."""

import runpy
from pathlib import Path

import numpy as np

STUDY = Path(__file__).parents[2] / "studies" / "interval_coverage.py"


def test_the_study_counts_values_inside_the_intervals() -> None:
    study = runpy.run_path(str(STUDY))
    one, again, other = (study["draw"]("heteroscedastic_gaussian", k) for k in (5, 5, 6))
    assert np.array_equal(one.y, again.y) and not np.array_equal(one.y, other.y)
    found = study["measure"](("heteroscedastic_gaussian", "fixed", 5))
    assert found["plain"] == found["exact"] and 30 <= found["plain"] <= 40
    # No interval is shorter than that of the smallest noise alone, 2 · 1.645 · 0.1.
    assert 0.3 < found["length"] < 4
    assert "| heteroscedastic_gaussian | fixed | 1 | 1 |" in study["table"]([found])
