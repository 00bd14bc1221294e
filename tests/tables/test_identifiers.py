"""Columns that count or name the rows are left out or asked about, by what they hold."""

import shlex

import numpy as np
import pytest

from sitewise.tables import Problem, describe, table_of, understand

RNG = np.random.default_rng(6)
ROWS = 80
OTHER = RNG.normal(size=ROWS)


def kind(name, values, other=OTHER, **settings):
    """ "used", "left out" or "asked"."""
    columns = {name: values} if other is None else {name: values, "other": other[: len(values)]}
    recipe, notes, problems = describe(understand(table_of(columns)), **settings)
    if any(name in problem.columns for problem in problems):
        assert all(problem.fix == {} for problem in problems)
        return "asked"
    left_out = any(
        f"column {name!r}" in note and "left out" in note and f"(--use {shlex.quote(name)}) keeps it" in note
        for note in notes
    )
    assert left_out != (name in recipe.features)
    return "left out" if left_out else "used"


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["rownames", "x", "Index", "unnamed 1", "patient"])
def test_numbers_of_rows_are_left_out_under_any_name(first, name):
    count = np.arange(first, first + ROWS)
    assert kind(name, count) == "left out" and kind(name, RNG.permutation(count)) == "left out"
    assert kind(name, count, use=[name]) == "used"


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("week", np.arange(ROWS), "asked"),
        ("year", np.arange(1900, 1900 + ROWS), "asked"),
        ("customer", 5001 + RNG.permutation(ROWS), "asked"),
        ("customer", 5001 + np.sort(RNG.permutation(2 * ROWS)[:ROWS]), "asked"),  # some customers left
        ("obs", np.cumsum(RNG.integers(1, 3, 40)), "asked"),  # few rows, some left out
        ("obs", RNG.permutation(np.cumsum(RNG.integers(1, 3, 40))), "used"),
        ("customer_id", RNG.permutation(10**6)[:ROWS], "left out"),
        ("year", 1800 + np.sort(RNG.permutation(2 * ROWS)[:ROWS]), "used"),
        ("price", RNG.permutation(10**5)[:ROWS], "used"),  # no ties in 80 of 10⁵ numbers: chance 0.97
        ("price", np.arange(ROWS) + 0.5, "used"),
        ("grade", np.arange(ROWS) % 20, "used"),
        ("row", np.arange(ROWS) % 45 + 1, "left out"),  # two tables, one below the other
        ("nr of trial", np.arange(ROWS) % 40, "asked"),
        ("week", np.arange(ROWS) % 40, "used"),
        ("score", np.append(np.arange(1, ROWS), 5), "used"),
    ],
)
def test_content_and_name_decide(name, values, expected):
    assert kind(name, values) == expected


def test_row_numbers_are_recognised_after_rows_were_left_out():
    table = table_of({"rownames": np.arange(1, ROWS + 1), "other": OTHER}).take(np.flatnonzero(np.arange(ROWS) % 3))
    recipe, notes, problems = describe(table)
    assert recipe.features == ["other"] and not problems and "'rownames' counts the rows from 2 to 80" in notes[0]


def test_the_only_column_is_asked_about():
    assert kind("x", np.arange(ROWS), other=None) == "asked"
    assert kind("x", np.arange(ROWS), other=None, use=["x"]) == "used"


def test_a_text_that_differs_in_every_row_is_left_out_and_many_categories_are_asked_about():
    assert kind("name", [f"N{k}" for k in range(ROWS)]) == "left out"
    _, _, (note,) = describe(understand(table_of({"note": [f"n{k % 60}" for k in range(ROWS)], "x": OTHER})))
    assert note.fix == {"drop": ["note"]}  # 60 categories in 80 rows
    _, _, (town,) = describe(understand(table_of({"town": [f"t{k % 35}" for k in range(ROWS)], "x": OTHER})))
    assert town.fix == {} and len(town.ways) == 2  # 35 categories in 80 rows may matter


def test_the_suggested_settings_fill_gaps_only():
    """Problems by default recommend nothing, so that a new problem cannot leak or erase by oversight."""
    assert Problem("what", (({"drop": ["x"]}, "to leave it out"),)).fix == {}
    _, _, (problem,) = describe(understand(table_of({"x": [None, *OTHER]})))
    assert problem.fix == {"impute": True}


def code_notes(name, values, **settings):
    columns = {name: values, "other": RNG.normal(size=len(values))}
    return [note for note in describe(understand(table_of(columns)), **settings)[1] if "if they are codes" in note]


@pytest.mark.parametrize("name", ["district", "subject", "BROOD", "patient_id", "storeId", "ID", "zip code", "Region"])
def test_numbers_named_as_groups_are_used_and_noted(name):
    codes = np.repeat(RNG.permutation(20), 4)
    (note,) = code_notes(name, codes)
    assert f"column {name!r} holds 20 different whole numbers in 80 rows and is used as a number" in note
    assert f"(--groups {shlex.quote(name)})" in note and f"(--categorical {shlex.quote(name)})" in note
    assert kind(name, codes) == "used"


def test_a_code_that_hardly_repeats_is_dropped_by_the_noted_option():
    (note,) = code_notes("ID", np.append(np.arange(70) * 37, np.arange(10) * 37))
    assert "(--drop ID)" in note and "--groups" not in note


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, RNG.integers(18, 80, ROWS)) for name in ("age", "mpg_city", "year", "rating", "school", "students")),
        ("acid", RNG.integers(0, 20, ROWS)),
        ("region", RNG.integers(0, 2, ROWS)),  # two codes
        ("district", RNG.integers(0, 20, ROWS) + 0.5),
    ],
)
def test_ages_counts_and_ratings_are_not_noted_as_codes(name, values):
    assert not code_notes(name, values)


def test_a_code_is_not_noted_after_a_decision():
    codes = np.repeat(np.arange(20), 4)
    assert not code_notes("district", codes, use=["district"])
    assert not code_notes("district", codes, groups=["district"])
