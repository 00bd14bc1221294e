"""Columns of times and of eight-digit dates, and columns that only look like them."""

import datetime

import numpy as np
import pytest

from sitewise.errors import UserError
from sitewise.tables import Reading, Recipe, Table, describe, explain, table_of, understand

DAYS = [f"{np.datetime64('2023-12-20') + np.timedelta64(3 * k, 'D')}".replace("-", "") for k in range(12)]


def read(name, cells, known=None):
    return understand(table_of({name: cells}), known=known)


def kind(name, cells):
    return {"M": "date", "f": "number", "O": "text"}[read(name, cells).columns[name].dtype.kind]


@pytest.mark.parametrize(
    "cells",
    [
        ["2024-03-01 14:30", "2024-03-02 00:00"],
        ["2024-03-01T14:30:00Z", "2024-03-02T00:00:00Z"],
        ["2024-03-01T14:30:00.250+01:00", "2024-03-02"],
        ["1 Mar 2024 14:30", "2 Mar 2024"],
        ["Mar 1, 2024 2:30 pm", "Mar 2, 2024"],
        ["March 1st, 2024, 14:30", "March 2nd, 2024"],
    ],
)
def test_dates_with_times_and_names_of_months(cells):
    table = read("x", cells)
    assert table.dates("x").tolist() == [datetime.datetime(2024, 3, 1, 14, 30), datetime.datetime(2024, 3, 2)]
    assert not table.problems


@pytest.mark.parametrize(
    ("cells", "hours"),
    [
        (["14:30", "9:15", None], [14.5, 9.25, np.nan]),
        (["00:00", "23:59"], [0, 23 + 59 / 60]),
        (["1:00:36", "2:00:00"], [1.01, 2]),
        (["9:00 am", "2:30 pm"], [9, 14.5]),
        ([datetime.time(14, 30), datetime.time(0, 6)], [14.5, 0.1]),
    ],
)
def test_times_of_day_are_hours(cells, hours):
    table = read("at", cells)
    np.testing.assert_allclose(table.numbers("at"), hours)
    assert table.readings["at"] == Reading("number", decimal="", unit="hh:mm")
    recipe, notes, problems = describe(table, impute=True)
    assert any("'at' holds times of day, used as hours" in n for n in notes) and not problems
    again = Recipe.from_plain(recipe.to_plain())
    assert again.problems(read("at", ["8:10", "9:20"], again.readings)) == []  # alone, these might be ratios
    (problem,) = again.problems(read("at", ["14:30", "24:30"], again.readings))
    assert "held times of day when the model was fitted, but row 2 of X has '24:30'" in problem.what
    (problem,) = again.problems(read("at", ["14", "15"], again.readings))
    assert "had the unit 'hh:mm' when the model was fitted and has no unit" in problem.what


@pytest.mark.parametrize(
    "cells",
    [
        ["2:1", "0:0", "3:2"],  # scores
        ["1:10", "1:20", "1:40"],  # dilutions, all of them times too
        ["1:10", "1:80", "1:160"],
        ["16:9", "4:3", "16:10"],
        ["14:30", "25:00", "61:20"],  # minutes and seconds
    ],
)
def test_ratios_and_scores_are_categories(cells):
    assert kind("x", cells) == "text"


def test_times_and_numbers_do_not_mix():
    (problem,) = read("at", [*(f"{h}:30" for h in range(10, 20)), "16"]).problems
    assert "has times of day, but not in row 11 ('16')" in problem.what
    (problem,) = read("x", ["14", "15.5", "16:30", "17"]).problems
    assert "holds numbers, but also '16:30' (row 3)" in problem.what


@pytest.mark.parametrize("make", [str, int, float, lambda day: f"{day}.0"])
def test_eight_digits_are_dates_where_all_are_and_there_are_many(make):
    table = read("x", [make(day) for day in DAYS])
    assert np.datetime_as_string(table.dates("x"), unit="D")[1] == "2023-12-23" and table.dates("x").dtype == "M8[s]"
    assert any("eight digits of each number in 'x' were read as a date" in note for note in table.notes)


@pytest.mark.parametrize("name", ["date", "Order Date", "orderdate", "OrderDate", "day", "start_dt", "date_2", "ymd"])
def test_a_column_name_makes_few_numbers_dates(name):
    assert kind(name, ["20240229", "", "20231231"]) == "date"
    assert kind("code", ["20240229", "", "20231231"]) == "number"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("date", ["20240229", "20230229"]),  # no leap year
        ("date", ["20240101", "20241301"]),
        ("date", ["20240001", "20240002"]),  # a year and a counter
        ("date", ["18991231", "20240101"]),
        ("date", ["2024010", "20240102"]),
        ("date", ["20240101.5", "20240102"]),
        ("date", ["20,240,101", "20,240,102"]),
        ("date", ["-20240101", "20240102"]),
        ("daylight", ["20240101", "20240102"]),
        ("price", [*DAYS, "20240000"]),
        ("price", DAYS[:9]),
        ("price", [str(20000000 + 7919 * k) for k in range(40)]),
        ("price", [f"$ {day}" for day in DAYS]),
    ],
)
def test_numbers_that_look_like_dates_stay_numbers(name, cells):
    assert kind(name, cells) == "number"


def test_a_model_reads_eight_digits_as_it_did_before():
    date, number = {"x": Reading("date")}, {"x": Reading("number")}
    assert read("x", ["20240101"], date).dates("x") is not None
    assert read("x", [20240101.0, np.nan], date).dates("x")[0] == np.datetime64("2024-01-01")
    assert read("x", DAYS, number).dates("x") is None
    recipe, _, _ = describe(read("x", DAYS))
    (problem,) = recipe.problems(read("x", ["20240101", "20241301"], recipe.readings))
    assert "held dates when the model was fitted, but row 2 of X has '20241301'" in problem.what


def test_a_unit_in_few_cells_is_a_problem():
    (problem,) = read("x", ["10", "1O", "12", "13", "0"]).problems
    assert "holds numbers, but also '1O' (row 2)" in problem.what
    assert read("x", ["0", "0", "5 kg"]).readings["x"].unit == "kg"
    assert read("x", ["$ 5", "6", "7"]).readings["x"].unit == "$"  # accounts have it in the first row only
    recipe, _, _ = describe(read("x", ["10", "11.5"]))
    (problem,) = recipe.problems(read("x", ["10", "1O", "12"], recipe.readings))
    assert "but row 2 of X has '1O'; correct it" in problem.what
    (problem,) = recipe.problems(read("x", ["10 kg", "11 kg"], recipe.readings))
    assert "had no unit when the model was fitted and has the unit 'kg'" in problem.what
    recipe, _, _ = describe(read("x", ["10 %", "11.5 %"]))
    (problem,) = recipe.problems(read("x", ["10 %", "12"], recipe.readings))
    assert "row 2 of X has '12'" in problem.what


def test_settings_that_are_not_available_are_not_suggested():
    (problem,) = table_of({"x": [1, [2]]}, "t").problems
    assert "drop" in str(explain([problem], str, None))
    error = explain([problem], str, str, offered=("missing",))
    assert isinstance(error, UserError) and str(error).endswith("numbers, dates and text; convert it.")


def test_times_and_dates_without_readings_are_parsed():
    table = Table("t", {"at": np.array(["14:30"], object), "day": np.array([20240101.0])}, np.array([1]))
    assert [v.dtype.kind for v in understand(table).columns.values()] == ["f", "M"]


def test_numbers_with_19_digits_remain_numbers_and_different_strings():
    table = read("id", ["1234567890123456001", "1234567890123456002", "007", None])
    assert table.numbers("id") is not None
    assert table.text("id").tolist() == ["1234567890123456001", "1234567890123456002", "7", None]
