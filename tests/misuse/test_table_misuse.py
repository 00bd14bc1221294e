"""Mistakes with simulated tables: a sample of the cases of `studies/table_misuse.py`, and the study itself."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

from misusing import sheet_cases
from misusing.judge import OFFENDERS
from misusing.of_tables import MISTAKES, Variant
from misusing.sheet_cases import drawn_sheet, run_sheet
from misusing.sheet_doors import SHEET_DOORS
from misusing.sheets import ROWS, SHEETS
from sitewise.tables import Problem, explain
from table_misuse import CASES, OUT, summary

PAIRS = len(SHEETS) * len(MISTAKES)
SLOW = "ratings"  # GPOrdinal compiles for half a minute
# Every pair of table and mistake has a draw of its own, so that the sample contains all variants.
SAMPLE = [pair + PAIRS * (7 * pair % 20) for pair in range(PAIRS) if drawn_sheet(pair)[0] != SLOW]


@pytest.mark.parametrize("number", SAMPLE[::2])
def test_no_mistake_with_a_table_passes_in_silence(number):
    row = run_sheet(number)
    assert row["verdict"] not in OFFENDERS, row


@pytest.mark.parametrize("table", [name for name in SHEETS if name != SLOW])
def test_the_correct_table_is_fitted_without_a_warning(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = SHEET_DOORS["python"](SHEETS[table](np.random.default_rng(3)))
    assert np.all(np.isfinite(found.values["predictions"]))


def _silent(sheet, rng):
    return dataclasses.replace(sheet, y=rng.permutation(sheet.y))


def _refused(sheet, rng):
    return dataclasses.replace(sheet, y=sheet.y[:-1])


@pytest.mark.parametrize(
    ("change", "about", "verdict"),
    [
        (_silent, "", "wrong"),
        (_refused, "inconsistent numbers of samples", "refused"),
        (_refused, "another mistake", "wrong"),  # the message does not name the mistake
        (lambda sheet, rng: sheet, "", "right"),
    ],
)
def test_verdicts_on_tables(change, about, verdict, monkeypatch):
    name = next(reversed(SHEETS))
    variant = Variant("python", change, about)
    monkeypatch.setattr(sheet_cases, "drawn_sheet", lambda number: (name, "a mistake", 0, variant))
    assert run_sheet(0)["verdict"] == verdict


@pytest.mark.parametrize(("setting", "verdict"), [("impute", "refused"), ("missing", "wrong")])
def test_a_ready_line_that_erases_labels_is_an_offence(setting, verdict, monkeypatch):
    name, variant = next(reversed(SHEETS)), Variant("python", lambda sheet, rng: sheet, "but also")
    sheet_cases._correct(name, 0, "python")  # with the true door
    monkeypatch.setattr(sheet_cases, "drawn_sheet", lambda number: (name, "a mistake", 0, variant))
    problem = Problem("column 'n' has numbers, but also '3+'", (({setting: ["3+"]}, "to fill it"),), recommended=True)

    def refuse(sheet):
        raise explain([problem], str, lambda settings: f"TableEncoder({setting}=['3+'])")

    monkeypatch.setitem(SHEET_DOORS, "python", refuse)
    monkeypatch.setattr("misusing.judge.is_clear", lambda error: True)
    assert run_sheet(0)["verdict"] == verdict


def test_cases_cover_all_tables_mistakes_and_variants():
    drawn = [drawn_sheet(number) for number in range(CASES)]
    assert CASES == 20 * PAIRS and {(case[0], case[1]) for case in drawn} == {(t, m) for t in SHEETS for m in MISTAKES}
    assert {id(case[3]) for case in drawn} == {id(v) for variants in MISTAKES.values() for v in variants}
    one, other = (SHEETS["ratings"](np.random.default_rng(1)) for _ in range(2))
    assert one.train.equals(other.train) and len(one.train) == ROWS


def test_the_recorded_run_is_complete_and_found_nothing_silent():
    found = json.loads((OUT / "tables.json").read_text(encoding="utf-8"))
    assert found["cases"] == CASES and found["offenders"] == []
    rows = [{"table": t, "mistake": m, "verdict": "right"} for t in SHEETS for m in MISTAKES]
    assert summary(rows)["verdicts"] == {"right": PAIRS} and summary(rows)["offenders"] == []
