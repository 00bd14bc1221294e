"""Numbers and sentences of the text that can be checked, and the sizes of the data sets."""

from __future__ import annotations

import dataclasses

import numpy as np

from sitewise_icml2023 import paper, tables
from sitewise_icml2023.book import tables as cells
from sitewise_icml2023.book.items import Item, statement
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.registry import get, suite

ROW_NUMBER, CAPTION = "E3", "E6"
WHERE = "Text"
CONFLICT = 0.54


def every(stored: Stored) -> list[Item]:
    return [*conflict(stored), *from_tables(stored), *sizes()]


def conflict(stored: Stored) -> list[Item]:
    """The share of runs that the E/M conflict ended."""
    for seeds, title in ((SEEDS, "ten seeds"), ((42,), "seed 42")):
        rows = [stored.folds(name, "hybrid-vem", seeds) for name in suite("table1")]
        if all(row is not None for row in rows):
            fell = np.array(["fell" in r["reason"] for row in rows if row is not None for r in row])
            # Two standard errors of the difference of two shares, ours and one of 1 350 runs, and rounding.
            limit = 0.005 + 2 * np.sqrt(CONFLICT * (1 - CONFLICT) * (1 / len(fell) + 1 / 1350))
            line = f"share of runs with the E/M conflict ({title}, {len(fell)} runs)"
            return [Item(WHERE, line, "share", CONFLICT, float(fell.mean()), float(limit), "", "conflict")]
    return [Item(WHERE, "share of runs with the E/M conflict", "share", CONFLICT, None, 0.0)]


def _ahead(table: str) -> list[str]:
    """Sets of a printed table where Ours is bold and VI is not."""
    lines = paper.printed(table, "loglik")
    return [name for name, line in lines.items() if line["hybrid-vem"].bold and not line["vi"].bold]


def from_tables(stored: Stored) -> list[Item]:
    """Sentences about the tables: two that the printed tables contradict, and one that ours decide."""
    table1 = paper.printed("table1", "loglik")
    best = [name for name, line in table1.items() if line["mcmc"].mean >= max(c.mean for c in line.values())]
    ahead = {table: _ahead(table) for table in ("table1", "table1-seed42")}
    out = [
        statement(
            "Caption of Table 1", "MCMC", "best on all data sets except balloons",
            f"by the printed numbers it has, or shares, the best mean on {len(best)} of {len(table1)}",
            len(best) < len(table1) - 1, CAPTION,
        ),
        statement(
            WHERE, "Ours against VI", "outperforms VI on three data sets",
            f"by the printed marks (Ours bold, VI not) on {len(ahead['table1'])} in Table 1 and on "
            f"{len(ahead['table1-seed42'])} in the single-seed table",
            all(len(names) != 3 for names in ahead.values()), CAPTION,
        ),
    ]  # fmt: skip
    columns = {
        m: [cells.for_counts(stored, "table1", name, m, "loglik") for name in table1] for m in ("vi", "hybrid-vem")
    }
    holds, said = None, ""
    if all(v is not None for column in columns.values() for v, _ in column):
        pairs = [(a, b) for (a, _), (b, _) in zip(*columns.values(), strict=True) if a is not None and b is not None]
        gaps = np.array([ours.mean() - vi.mean() for vi, ours in pairs])
        worse = [gap < 0 and tables.p_value(*pair) < tables.P for gap, pair in zip(gaps, pairs, strict=True)]
        same_or_better = len(pairs) - sum(worse)
        holds = same_or_better > len(pairs) / 2
        said = (
            f"the same or better on {same_or_better} of {len(pairs)} by the test of the tables, ahead in the mean on "
            f"{int(np.sum(gaps > 0))}; mean difference {np.mean(gaps):+.4f}"
        )
    item = statement(WHERE, "Ours against VI, ten seeds", "the same or better on most data sets", said, holds)
    other = next((stands for column in columns.values() for _, stands in column if stands), "")
    out.append(dataclasses.replace(item, stands_in=other))
    return out


def sizes() -> list[Item]:
    """n and d of every set: the printed d counts the row number."""
    out = []
    for name in (*suite("table1"), *suite("table3"), "neal", "boston", "stock"):
        record, printed = get(name), paper.sizes()[name]
        erratum = ROW_NUMBER if record.row_column else ""
        out.append(Item("Sizes of the data sets", name, "n", printed[0], record.rows, 0.0))
        out.append(
            Item("Sizes of the data sets", name, "d", printed[1], record.features + record.row_column, 0.0, erratum)
        )
    return out
