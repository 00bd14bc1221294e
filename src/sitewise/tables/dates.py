"""Parse dates: 2024-03-31, 31/03/2024, 3/31/24, 31 March 2024, Mar 31, 2024, each with or without a time.

Where day and month are both numbers, the order says which comes first: "dmy" or "mdy".  Time zones are ignored: month,
weekday and hour are local.

Eight digits, as in 20240331, may be a date or a number: `eight_digits` decides.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection

from sitewise.tables.cells import MAX_CELL_CHARACTERS

ORDERS = ("dmy", "mdy")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAMES = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
                "november", "december")  # fmt: skip
_MONTH_NUMBER = {name: k for names in (_MONTHS, _MONTH_NAMES) for k, name in enumerate(names, 1)} | {"sept": 9}
_DAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?[.,]?\s+)?"
_TIME = (
    r"(?:[T\s,]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?\s*(?P<half>[ap]\.?m\.?)?"
    r"\s*(?:Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
)
_MONTH = r"(?P<name>[a-z]{3,9})\.?"
_NTH = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_FORMS = [
    re.compile(_DAY + form + _TIME, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
        r"(?P<year>\d{4})-(?P<month>\d{2})",
        rf"(?P<first>\d{{1,2}})(?P<mark>[-/.])(?P<then>\d{{1,2}})(?P=mark){_YEAR}",
        rf"{_NTH}[\s./-]+{_MONTH},?[\s./-]+{_YEAR}",
        rf"{_MONTH}\s*{_NTH},?\s+(?P<year>\d{{4}})",
        rf"{_MONTH}[\s./-]+(?P<year>\d{{4}})",
    )
]
_DIGITS = re.compile(r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)")
_DATE_NAME = re.compile(r"(?:.*[\W_])?(?:date|day|datum|dt|ymd|yyyymmdd)(?:[\W_\d].*)?|.*date", re.IGNORECASE)
# Ten distinct numbers that are all valid dates are dates: of random numbers from 19000101 to 20991231, one in 27 is.
MIN_DISTINCT_DATES = 10
_SHORT_YEAR = re.compile(r"\d{1,2}-\d{1,2}-\d{2}(\D.*)?")


def has_ambiguous_year(text: str) -> bool:
    """Whether the year may come first or last, as in 24-01-31."""
    return _SHORT_YEAR.fullmatch(text) is not None


def parse_date(text: str, order: str) -> datetime.datetime | None:
    """Return the date of a string, or None; the default time is midnight, the default day the first of the month."""
    for form in _FORMS if len(text) <= MAX_CELL_CHARACTERS else ():
        if found := form.fullmatch(text):
            return _date(found.groupdict(), order)
    return None


def parse_digits(text: str) -> datetime.datetime | None:
    """Return the date of eight digits (year, month, day; 1900 to 2099), or None."""
    found = _DIGITS.fullmatch(text.removesuffix(".0"))  # data frames write a float column with ".0"
    return None if found is None else _date({**found.groupdict(), "hour": "", "half": ""}, "")


def eight_digits(name: str, texts: Collection[str]) -> dict[str, datetime.datetime]:
    """Return the dates of a column of eight-digit numbers, or an empty dict if the numbers are not dates.

    The column holds dates if all values are valid dates from 1900-01-01 to 2099-12-31, and if its name says so (date,
    day, datum, dt, ymd or yyyymmdd is a word of the name, or the name ends in date) or it has at least ten distinct
    values.
    """
    dates = {}
    for text in texts:
        date = parse_digits(text)
        if date is None:
            return {}
        dates[text] = date
    return dates if _DATE_NAME.fullmatch(name) or len(dates) >= MIN_DISTINCT_DATES else {}


def _date(part: dict[str, str | None], order: str) -> datetime.datetime | None:
    year = int(part["year"] or 0)
    if len(part["year"] or "") == 2:
        year += 1900 if year >= 70 else 2000
    if part.get("name"):
        month, day = _MONTH_NUMBER.get(str(part["name"]).lower(), 0), part.get("day")
    elif part.get("first"):
        day, number = (part["first"], part["then"]) if order == "dmy" else (part["then"], part["first"])
        month = int(number or 0)
    else:
        month, day = int(part["month"] or 0), part.get("day")
    hour = int(part["hour"] or 0)
    if part["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if str(part["half"]).lower().startswith("p") else 0)
    try:
        minute, second = (int(part.get(name) or 0) for name in ("minute", "second"))
        return datetime.datetime(year, month, int(day or 1), hour, minute, second)
    except ValueError:
        return None
