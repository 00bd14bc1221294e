"""Numbers as people write them: "1,234.50", "1.234,50 €", "12.5 %", "$ (99)", "1 200", "70 kg", "14:30".

A cell is a number and a unit.  Percentages are fractions (12.5 % is 0.125), and a time of day is its hours since
midnight (14:30 is 14.5, with the unit `CLOCK`); a currency or another unit is kept beside the number, so that a column
with two of them can be told.
"""

from __future__ import annotations

import re
import unicodedata

MOST_CHARACTERS = 60  # of a cell that may be a number or a date; longer ones are text
_SPACES = " \u00a0\u202f\u2009"  # blank, no-break, narrow no-break and thin space
_OTHER = {".": ",", ",": "."}
_PLAIN = {d: re.compile(rf"[+-]?(\d+({re.escape(d)}\d*)?|{re.escape(d)}\d+)([eE][+-]?\d+)?") for d in _OTHER}
# Groups of three with one mark throughout; a leading zero, as in 0,123, is no group.
_GROUPED = {
    d: re.compile(rf"[+-]?[1-9]\d{{0,2}}([{re.escape(o)}{_SPACES}'’])\d{{3}}(\1\d{{3}})*({re.escape(d)}\d*)?")
    for d, o in _OTHER.items()
}
CLOCK = "hh:mm"
_TIME = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d)(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?", re.IGNORECASE)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_CODES = "USD EUR GBP JPY CNY INR CHF CAD AUD NZD SEK NOK DKK PLN CZK HUF BRL MXN ZAR KRW SGD HKD TRY".replace(" ", "|")
_SIGNS = "".join(c for c in map(chr, range(0x24, 0x20D0)) if unicodedata.category(c) == "Sc")
_SAME = {"EUR": "€", "USD": "$", "US$": "$", "GBP": "£", "JPY": "¥", "INR": "₹"}
_MONEY = rf"[A-Z]{{0,2}}[{re.escape(_SIGNS)}]|{_CODES}"
_CELL = re.compile(
    rf"(?P<before>{_MONEY})?\s*(?P<number>[+-]?[\d.,](?:[\d.,'’{_SPACES}]*[\d.,])?(?:[eE][+-]?\d+)?)"
    rf"\s*(?P<after>{_MONEY}|[^\d\s.,+()'’/:;-][^\d()]{{0,11}})?"
)


def parse_number(text: str, decimal: str) -> float | None:
    """The number, or None; the mark that is not the decimal one, a space or an apostrophe may group thousands."""
    if len(text) > MOST_CHARACTERS:
        return None
    if _PLAIN[decimal].fullmatch(text):
        return float(text.replace(decimal, "."))
    if _GROUPED[decimal].fullmatch(text):
        return float(re.sub(rf"[^\d+\-{re.escape(decimal)}]", "", text).replace(decimal, "."))
    return float(text) if _INFINITE.fullmatch(text) else None


def parse_time(text: str) -> float | None:
    """The hours since midnight of "14:30", "14:30:15" or "2:30 pm", or None."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour = int(found[1])
    if found[4]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found[4].lower().startswith("p") else 0)
    return hour + int(found[2]) / 60 + int(found[3] or 0) / 3600 if hour < 24 else None


def surely_a_time(text: str) -> bool:
    """Whether a time is no ratio or score, such as 1:20: its hour has two digits, or more than minutes follow."""
    return parse_time(text) is not None and re.fullmatch(r"\d:\d\d", text) is None


def parse_cell(text: str, decimal: str) -> tuple[float, str] | None:
    """The number and its unit ("" for none), or None; parentheses are a minus sign, as in accounts."""
    number = parse_number(text, decimal)
    if number is not None:
        return number, ""
    if len(text) > MOST_CHARACTERS:
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
    return (sign * number / 100, "%") if unit == "%" else (sign * number, _SAME.get(unit, unit))


def is_money(unit: str) -> bool:
    """Whether the unit is a currency."""
    return re.fullmatch(_MONEY, unit) is not None
