"""Tables: filled dates, names of columns, and the list of problems."""

from types import SimpleNamespace

import numpy as np

from sitewise.tables import describe, explain, table_of, understand
from sitewise.tables.problems import Problem
from sitewise.tables.table import has_names


def test_a_missing_date_is_the_median_date():
    days = ["2024-01-01", "2024-01-02", "2024-02-01", "2024-05-01", "2024-12-31"]
    table = understand(table_of({"day": [days[3], days[0], None, days[4], days[2], days[1]], "x": np.arange(6.0)}))
    recipe, _, _ = describe(table, impute=True)
    X = recipe.inputs(table)
    place = recipe.features.index("day (days)")
    assert np.argsort(X[:, place])[2] in (2, 4) and X[2, place] == X[4, place]


def test_problems_are_numbered_from_one():
    lines = str(explain([Problem("a is empty", ()), Problem("b is empty", ())], str, None)).splitlines()
    assert lines == ["2 problems with the table:", "  1. a is empty.", "  2. b is empty."]


def test_data_frames_dicts_and_records_have_names_and_arrays_have_not():
    frame = SimpleNamespace(columns=["a"])
    assert has_names(frame) and has_names({"a": [1.0]}) and has_names([{"a": 1.0}])
    assert not has_names(np.ones((2, 1))) and not has_names([[1.0], [2.0]])
    assert has_names(np.ones(2, dtype=[("a", float)]))
