"""Parse the numbers of a table file: "1,234.50", "1.234,50 €", "12.5 %", "$ (99)", "1 200", "70 kg", "14:30".

A cell is a number and a unit.  A percentage becomes a fraction (12.5 % is 0.125), and a time of day becomes the hours
since midnight (14:30 is 14.5, with the unit `CLOCK`).  A currency or another unit is kept beside the number in order to
detect columns with several units.
"""

from __future__ import annotations

import re
import unicodedata

MAX_CELL_CHARACTERS = 60  # longer cells are neither numbers nor dates
_SPACES = " \u00a0\u202f\u2009"  # blank, no-break, narrow no-break and thin space
_THOUSANDS_MARK = {".": ",", ",": "."}  # by decimal mark
_PLAIN = {d: re.compile(rf"[+-]?(\d+({re.escape(d)}\d*)?|{re.escape(d)}\d+)([eE][+-]?\d+)?") for d in _THOUSANDS_MARK}
# Groups of three digits with the same mark between all groups; a leading zero, as in 0,123, does not start a group.
_GROUPED = {
    d: re.compile(rf"[+-]?[1-9]\d{{0,2}}([{re.escape(o)}{_SPACES}'’])\d{{3}}(\1\d{{3}})*({re.escape(d)}\d*)?")
    for d, o in _THOUSANDS_MARK.items()
}
CLOCK = "hh:mm"
_TIME = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d)(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?", re.IGNORECASE)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_CURRENCY_CODES = "USD EUR GBP JPY CNY INR CHF CAD AUD NZD SEK NOK DKK PLN CZK HUF BRL MXN ZAR KRW SGD HKD TRY".replace(
    " ", "|"
)
_CURRENCY_SIGNS = "".join(c for c in map(chr, range(0x24, 0x20D0)) if unicodedata.category(c) == "Sc")
_SIGN_OF_CURRENCY = {"EUR": "€", "USD": "$", "US$": "$", "GBP": "£", "JPY": "¥", "INR": "₹"}
_MONEY = rf"[A-Z]{{0,2}}[{re.escape(_CURRENCY_SIGNS)}]|{_CURRENCY_CODES}"
_CELL = re.compile(
    rf"(?P<before>{_MONEY})?\s*(?P<number>[+-]?[\d.,](?:[\d.,'’{_SPACES}]*[\d.,])?(?:[eE][+-]?\d+)?)"
    rf"\s*(?P<after>{_MONEY}|[^\d\s.,+()'’/:;-][^\d()]{{0,11}})?"
)


def parse_number(text: str, decimal: str) -> float | None:
    """Return the number that a string holds, or None.

    `decimal` is the decimal mark, "." or ","; the other mark, a space or an apostrophe may group thousands.
    """
    if len(text) > MAX_CELL_CHARACTERS:
        return None
    if _PLAIN[decimal].fullmatch(text):
        return float(text.replace(decimal, "."))
    if _GROUPED[decimal].fullmatch(text):
        return float(re.sub(rf"[^\d+\-{re.escape(decimal)}]", "", text).replace(decimal, "."))
    return float(text) if _INFINITE.fullmatch(text) else None


def parse_time(text: str) -> float | None:
    """Return the hours since midnight of "14:30", "14:30:15" or "2:30 pm", or None if the string is not a time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour = int(found[1])
    if found[4]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found[4].lower().startswith("p") else 0)
    return hour + int(found[2]) / 60 + int(found[3] or 0) / 3600 if hour < 24 else None


def is_unambiguous_time(text: str) -> bool:
    """Whether a string can only be a time of day, unlike 1:20, which may be a ratio or a score.

    The hour of an unambiguous time has two digits, or seconds, am or pm follow the minutes.
    """
    return parse_time(text) is not None and re.fullmatch(r"\d:\d\d", text) is None


def parse_cell(text: str, decimal: str) -> tuple[float, str] | None:
    """Return the number and the unit ("" if none) of a cell, or None; parentheses mean a minus sign, as in accounts."""
    number = parse_number(text, decimal)
    if number is not None:
        return number, ""
    if len(text) > MAX_CELL_CHARACTERS:
        return None
    hours = parse_time(text)
    if hours is not None:
        return hours, CLOCK
    text = text.replace("−", "-")
    sign = 1.0
    if bare := re.fullmatch(r"\((.*)\)|-\s*([^\d\s-].*)", text):  # (99) and -$99
        text, sign = (bare[1] or bare[2] or "").strip(), -1.0
    found = _CELL.fullmatch(text)
    number = None if found is None else parse_number(found["number"], decimal)
    if found is None or number is None or (found["before"] and found["after"]):
        return None
    unit = (found["before"] or found["after"] or "").strip()
    return (sign * number / 100, "%") if unit == "%" else (sign * number, _SIGN_OF_CURRENCY.get(unit, unit))


def is_money(unit: str) -> bool:
    """Whether the unit is a currency."""
    return re.fullmatch(_MONEY, unit) is not None
