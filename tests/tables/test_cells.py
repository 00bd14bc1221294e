"""Parsing of numbers and dates, and the parts of a date."""

import datetime

import numpy as np
import pytest

from sitewise.tables import Reading, Table, understand
from sitewise.tables.cells import parse_cell, parse_number
from sitewise.tables.columns import date_parts
from sitewise.tables.dates import parse_date


@pytest.mark.parametrize(
    ("text", "decimal", "number", "unit"),
    [
        ("$1,234.50", ".", 1234.5, "$"),
        ("US$ 7", ".", 7, "$"),
        ("-$5", ".", -5, "$"),
        ("($1,234.50)", ".", -1234.5, "$"),
        ("€ 99", ".", 99, "€"),
        ("1.234,50 €", ",", 1234.5, "€"),
        ("EUR 3,5", ",", 3.5, "€"),
        ("CHF 1'200.50", ".", 1200.5, "CHF"),
        ("1\u202f234\u202f567,8", ",", 1234567.8, ""),
        ("12.5 %", ".", 0.125, "%"),
        ("12,5%", ",", 0.125, "%"),
        ("−3 %", ".", -0.03, "%"),
        ("70 kg", ".", 70, "kg"),
        ("1e3", ".", 1000, ""),
        ("14:30", ".", 14.5, "hh:mm"),
        ("14:30:36", ",", 14.51, "hh:mm"),
        ("0:06", ".", 0.1, "hh:mm"),
        ("2:30 pm", ".", 14.5, "hh:mm"),
        ("12:00 a.m.", ".", 0, "hh:mm"),
        ("12 pm", ".", 12, "pm"),
    ],
)
def test_cells_are_numbers_with_units(text, decimal, number, unit):
    assert parse_cell(text, decimal) == (pytest.approx(number, rel=1e-15), unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A1",
        "N.A.",
        "1-2",
        "5/10",
        "24:00",
        "14:60",
        "2:1",
        "13:00 pm",
        "3 Jan 2024",
        "31.12.2024",
        "<5",
        "$",
        "%",
        "€ 5 kg",
        "1,2,3",
    ],
)
def test_cells_that_are_not_numbers(text):
    assert parse_cell(text, ".") is None


@pytest.mark.parametrize(("decimal", "group"), [(".", ","), (",", "."), (".", "'"), (",", " ")])
def test_grouped_numbers_come_back(decimal, group):
    """Parsing inverts formatting; a leading zero does not start a group of thousands."""
    swap = str.maketrans({",": group, ".": decimal})
    for number in np.random.default_rng(0).uniform(-1e7, 1e7, size=50).round(2):
        assert parse_number(f"{number:,.2f}".translate(swap), decimal) == number
    assert parse_number("0,123", ".") is None and parse_number("0,123", ",") == 0.123


FORMS = {
    "%Y-%m-%d": "dmy", "%Y/%m/%d": "mdy", "%d/%m/%Y": "dmy", "%m/%d/%Y": "mdy", "%d.%m.%y": "dmy", "%m-%d-%y": "mdy",
    "%d %B %Y": "mdy", "%B %d, %Y": "dmy", "%d-%b-%y": "mdy", "%a, %d %b %Y": "dmy", "%A %d %B %Y": "dmy",
}  # fmt: skip
TIMES = {
    "": (0, 0, 0),
    " %H:%M": (1, 1, 0),
    "T%H:%M:%SZ": (1, 1, 1),
    " %I:%M:%S %p": (1, 1, 1),
    " %H:%M:%S+02:00": (1, 1, 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_come_back(form):
    rng = np.random.default_rng(1)
    for time, kept in TIMES.items():
        for seconds in rng.integers(0, 30 * 365 * 86400, size=10):
            date = datetime.datetime(1990, 1, 1) + datetime.timedelta(seconds=int(seconds))
            hour, minute, second = (a * b for a, b in zip((date.hour, date.minute, date.second), kept, strict=True))
            assert parse_date(date.strftime(form + time), FORMS[form]) == date.replace(
                hour=hour, minute=minute, second=second
            )


def test_months_and_what_is_no_date():
    assert parse_date("2024-03", "dmy") == parse_date("March 2024", "dmy") == datetime.datetime(2024, 3, 1)
    for text in (
        "2024",
        "31/31/2024",
        "30 Feb 2024",
        "3 Foo 2024",
        "12:30",
        "2024-13-01",
        "1/2",
        "2024-01-01 25:00",
        "x",
    ):
        assert parse_date(text, "dmy") is None and parse_date(text, "mdy") is None


def test_parts_of_a_date_equal_the_calendar():
    seconds = np.random.default_rng(2).integers(-(10**9), 2 * 10**9, size=200)
    dates = seconds.astype("datetime64[s]")
    origin = dates.min()
    parts = date_parts(dates, origin)
    for k, date in enumerate(dates.tolist()):
        assert [parts[p][k] for p in ("year", "month", "weekday")] == [date.year, date.month, date.isoweekday()]
        assert parts["hour"][k] == pytest.approx(date.hour + date.minute / 60 + date.second / 3600, abs=1e-9)
        assert parts["days"][k] == pytest.approx((date - origin.item()).total_seconds() / 86400, abs=1e-9)


def table(**columns):
    return Table("t.csv", {n: np.array(v, object) for n, v in columns.items()}, np.arange(1, 3))


@pytest.mark.parametrize(
    ("x", "known", "likely", "number"),
    [
        ("0.5", ("", ""), None, 1.234),  # another column has points
        ("0,5", ("", ""), None, 1234),
        ("5", ("", ""), None, 1.234),
        ("0.5", (".", ","), None, 1234),  # as in the model's table
        ("0,5", (".", "."), None, 1234),  # the file has changed the mark
        ("0.5", (",", ","), None, 1.234),
        ("5", ("", ","), None, 1234),
        ("5", ("", "."), ",", None),  # the model and the kind of file contradict each other
    ],
)
def test_an_ambiguous_decimal_mark_follows_the_file_or_the_model(x, known, likely, number):
    seen = dict(zip(("x", "n"), (Reading("number", decimal=mark) for mark in known), strict=True))
    found = understand(table(x=[x, x], n=["1.234", "1.234"]), known=seen, likely=likely)
    if number is None:
        found = understand(table(x=[x, x], n=["1,234", "1,234"]), known=seen, likely=likely)
        assert "group thousands" in found.problems[0].what
    else:
        assert found.columns["n"][0] == number and not found.problems


def test_the_order_of_day_and_month_fits_all_cells():
    found = understand(table(a=["31/12/2024", "1/2/2024"], b=["12/31/2024", "1/2/2024"]), dayfirst=True)
    assert [found.readings[n].order for n in "ab"] == ["dmy", "mdy"] and not found.problems
    assert found.columns["a"][1] == np.datetime64("2024-02-01") and found.columns["b"][1] == np.datetime64("2024-01-02")
    open_order = table(a=["3/4/2024", "1/2/2024"])
    assert "day or the month" in understand(open_order).problems[0].what
    assert "day or the month" in understand(table(a=["24-01-31", "24-02-28"])).problems[0].what
    later = understand(open_order, known={"a": Reading("date", order="mdy")})
    assert later.columns["a"][0] == np.datetime64("2024-03-04") and not later.problems
    assert not understand(table(a=["3/3/2024", "2024-05-06"])).problems  # the order does not matter
