"""Columns with side information per row: exposure, trials, censoring bounds, events and known noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from sitewise.app.input.targets import Encoding
from sitewise.errors import UserError
from sitewise.estimators.side_information import CENSORING
from sitewise.likelihoods import BY_NAME
from sitewise.tables import Table
from sitewise.tables.columns import Number

_MEANING = {
    "exposure": "the exposure per row: counts are exposure (time observed, area, people at risk) times rate",
    "trials": "the number of trials per row, of which the target is the number of successes",
    "lower": "a lower limit per row: a target at or below the limit is left-censored; an empty cell means no limit",
    "upper": "an upper limit per row: a target at or above the limit is right-censored; an empty cell means no limit",
    "event": "1 where the event was observed at the target time, 0 where the time is right-censored",
    "until": "the end of the interval that contains the value; the target is its start; an empty cell means no end",
    "noise": "the standard deviation of the measurement error per row",
}
_NO_BOUND = {"lower": -np.inf, "upper": np.inf, "until": np.inf}


def _option(name: str) -> typer.models.OptionInfo:
    """Return the command-line option that names the column of this side information."""
    takers = ", ".join(kind.name for kind in BY_NAME.values() if name in kind.keywords)
    return typer.Option(
        f"--{name}", metavar="COLUMN", help=f"For {takers}: column with {_MEANING[name]}.", show_default=False
    )


Exposure = Annotated[str | None, _option("exposure")]
Trials = Annotated[str | None, _option("trials")]
Lower = Annotated[str | None, _option("lower")]
Upper = Annotated[str | None, _option("upper")]
Event = Annotated[str | None, _option("event")]
Until = Annotated[str | None, _option("until")]
Noise = Annotated[str | None, _option("noise")]
Order = Annotated[
    str | None,
    typer.Option(
        "--order", metavar="LABELS", help="For ordinal: the labels from lowest to highest, separated by commas.",
        show_default=False,
    ),
]  # fmt: skip


def likelihood_for(likelihood: str, side: Mapping[str, str], order: str | None) -> str:
    """Return the likelihood, for "auto" the usual choice; raise if it does not take the side information."""
    if order is not None and likelihood not in ("auto", "ordinal"):
        raise UserError(f"--order is for ordered labels; say --likelihood ordinal instead of {likelihood}.")
    if likelihood == "auto":
        if order is not None:
            return "ordinal"
        usual = {"exposure": "poisson", "trials": "binomial", "lower": "censored_gaussian",
                 "upper": "censored_gaussian", "event": "weibull", "until": "weibull",
                 "noise": "heteroscedastic_gaussian"}  # fmt: skip
        return next((usual[name] for name in side), likelihood)
    kind = BY_NAME[likelihood]
    for name in side:
        if name not in kind.keywords:
            takers = " or ".join(k.name for k in BY_NAME.values() if name in k.keywords)
            raise UserError(f"--{name} is for --likelihood {takers}; leave it out with {likelihood}.")
    return likelihood


def settings(table: Table, encoding: Encoding, order: str | None) -> dict[str, Any]:
    """Return the estimator's setting `order` for ordinal targets; raise if a required column was not named."""
    _check_complete(encoding.likelihood, encoding.side)
    if BY_NAME[encoding.likelihood].support != "ranks":
        return {}
    return {"order": labels_in_order(table, encoding.target, order)}


def _check_complete(likelihood: str, side: Mapping[str, str]) -> None:
    """Raise if the likelihood requires side information and none was given."""
    kind = BY_NAME[likelihood]
    always = isinstance(kind.columns, tuple) and len(kind.columns) > 1  # else its columns depend on the options
    if always and not side:
        raise UserError(f"{likelihood} needs {' or '.join(f'--{name} COLUMN' for name in kind.keywords)}.")


def values(table: Table, side: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the side information of these columns, by the estimator's keywords."""
    return {name: _numbers(table, name, column) for name, column in side.items()}


def known(table: Table, side: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return the side information that a prediction needs: all except censoring bounds."""
    found = {}
    for name, column in side.items():
        if name in CENSORING:
            continue
        if column not in table.columns:
            plain = "; 1 in every row gives rates or shares" if name != "noise" else ""
            raise UserError(
                f"{table.name} lacks the column {column!r}, which holds {_MEANING[name].split(':')[0].split(',')[0]} "
                f"(--{name} of `sitewise fit`); add it{plain}."
            )
        found[name] = _numbers(table, name, column)
    return found


def _numbers(table: Table, name: str, column: str) -> np.ndarray:
    """Return a column of side information as numbers; raise if a cell is not a number."""
    numbers, absent = table.numbers(column), table.missing(column)
    if numbers is None:
        odd = Number(column).odd([str(t) for t in table.text(column) if t is not None])[0]
        row = int(table.lines[np.argmax(table.text(column) == odd)])
        raise UserError(
            f"column {column!r} of {table.name} (--{name}) must hold numbers, but has {odd!r} in row {row}; correct it."
        )
    if name in _NO_BOUND:
        return np.where(absent, _NO_BOUND[name], numbers)
    if np.any(absent):
        raise UserError(
            f"column {column!r} (--{name}) is empty in row {int(table.lines[np.argmax(absent)])} of {table.name}; fill "
            "it, or remove those rows."
        )
    return numbers


def labels_in_order(table: Table, target: str, order: str | None) -> list[str]:
    """Return the labels of the target from lowest to highest: in the given order, or numbers sorted."""
    found = sorted({str(v) for v in table.text(target) if v is not None})
    if order is None:
        if table.numbers(target) is None:
            shown = ",".join(found[:6])
            raise UserError(
                f"the target {target!r} holds categories without a known order: say --order {shown!r}, from the lowest "
                "to the highest."
            )
        return sorted(found, key=float)
    wanted = [label.strip() for label in order.split(",") if label.strip()]
    if sorted(wanted) != found:
        odd = sorted(set(found) ^ set(wanted)) or wanted
        raise UserError(
            f"--order must name every label of {target!r} once, separated by commas; {odd[0]!r} is "
            f"{'not in the order' if odd[0] in found else 'not in the table'}."
        )
    return wanted


def named(**columns: str | None) -> dict[str, str]:
    """Return the columns that were named, by keyword."""
    return {name: column for name, column in columns.items() if column is not None}


def kept(table: Table, names: Sequence[str]) -> dict[str, list[str]]:
    """Return columns as strings, to copy them from the table into the output."""
    return {name: ["" if v is None else str(v) for v in table.text(name)] for name in names}
