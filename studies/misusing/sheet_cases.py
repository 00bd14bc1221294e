"""A case: a simulated table with one mistake, drawn from its number, and the verdict on it."""

from __future__ import annotations

import functools
import re
import warnings

import numpy as np

from misusing.doors import Result
from misusing.judge import judge
from misusing.of_tables import MISTAKES, NEVER_PROPOSED, Variant
from misusing.sheet_doors import SHEET_DOORS
from misusing.sheets import SHEETS, Sheet

_TABLES, _KINDS = tuple(SHEETS), tuple(MISTAKES)


def drawn_sheet(number: int) -> tuple[str, str, int, Variant]:
    """Return table, mistake, draw and variant of a case: every pair has its turn before any pair comes again."""
    table, mistake = _TABLES[number % len(_TABLES)], _KINDS[number // len(_TABLES) % len(_KINDS)]
    draw = number // (len(_TABLES) * len(_KINDS))
    variants = MISTAKES[mistake]
    return table, mistake, draw, variants[draw % len(variants)]


@functools.lru_cache(maxsize=64)
def _sheet(table: str, draw: int) -> Sheet:
    return SHEETS[table](np.random.default_rng([22, _TABLES.index(table), draw]))


@functools.lru_cache(maxsize=64)
def _correct(table: str, draw: int, door: str) -> tuple[Result, tuple[str, ...]]:
    """Return the result of the table without a mistake, and its warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = SHEET_DOORS[door](_sheet(table, draw))
    return result, tuple(str(w.message) for w in said)


def run_sheet(number: int) -> dict[str, object]:
    """Return the verdict on a case.

    A refusal or a warning counts only if it names the mistake, and if no ready line in it leaks or erases anything.
    """
    table, mistake, draw, variant = drawn_sheet(number)
    rng = np.random.default_rng([23, number])
    door = SHEET_DOORS[variant.door]
    result, usual = _correct(table, draw, variant.door)  # raises if the study itself is wrong
    spoilt = variant.change(_sheet(table, draw), rng)

    def correct() -> Result:
        for sentence in usual:
            warnings.warn(sentence, UserWarning, stacklevel=1)
        return result

    verdict, words = judge(lambda: door(spoilt), correct)
    if verdict in ("refused", "warned"):
        ready = words[words.find("To continue") :] if "To continue" in words else ""
        if not re.search(variant.about, words) or any(setting in ready for setting in NEVER_PROPOSED):
            verdict = "wrong"
    return {
        "case": number,
        "table": table,
        "mistake": mistake,
        "door": variant.door,
        "verdict": verdict,
        "words": words[-400:],
    }
