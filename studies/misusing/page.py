"""Render docs/explanation/misuse.md: how user errors are detected, and which mistakes were tried."""

from __future__ import annotations

from collections import Counter
from typing import Any

from misusing.judge import OFFENDERS
from misusing.kinds import KINDS
from misusing.of_tables import MISTAKES
from misusing.sheets import SHEETS

_TOP = """# How user errors are detected

<!-- Written by `python studies/misuse.py --page`; edit studies/misusing/page.py. -->

A wrong model that converges is worse than an error. Every function that takes a model and data (`Inference.solve`, an
evidence, `posterior`, the learners, the samplers, `evidence_surface`, the estimators) therefore checks them once before
it computes (`sitewise.model.check`): columns against `active_dims`, lengthscales and inducing inputs, observations
against the likelihood, weights, sites, and the values and shapes of all parameters. Under `jax.jit`, `grad` and `vmap`
only the shapes are checked, because the values are not known.

Some mistakes cannot be detected: columns in another order than intended, a wrong unit of measurement, rows that were
shuffled against their observations.

The study `studies/misuse.py` takes small correct problems, makes one plausible mistake in each, sometimes two, and
classifies the result:

- *right*: the numbers of the correct problem, for example if a list is passed instead of an array;
- *refused*: a `ValueError` or `TypeError` whose message names the mistake;
- *warned*: a warning, or a result that says that it has not converged or ended at a bound;
- *undetected*: other numbers without a warning, or an error message of another library.
"""

_TABLES = """## Mistakes with tables

Some mistakes are made before there is an array: categories that look like numbers, a column of row numbers, a copy of
the target. The study `studies/table_misuse.py` simulates ten kinds of tables, makes ten kinds of mistakes in each, and
compares the result with the result of the correct table, in two places: a pipeline of `TableEncoder` and an estimator,
and the reading step of `sitewise fit` and `sitewise predict`. Refusals and warnings count only if they name the
mistake. A command line that the message proposes must not leak the target, and must not erase rows or labels.
"""


def render(summary: dict[str, Any], tables: dict[str, Any]) -> str:
    """Return the page, from the summaries of the two studies."""
    found = {name: Counter(summary["kinds"][name]) for name in KINDS}  # a recorded run may have further kinds
    lines = [
        _TOP,
        f"Of {sum(map(Counter.total, found.values()))} cases, some of them with two mistakes:",
        "",
        "| mistakes in | kinds | cases | right | refused | warned | undetected |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = dict.fromkeys(kind.group for kind in KINDS.values())
    for group in groups:
        counts = [found[kind.name] for kind in KINDS.values() if kind.group == group]
        lines.append(_row(group, len(counts), sum(counts, Counter())))
    lines.append(_row("all", len(KINDS), sum(found.values(), Counter())))
    lines += ["", "## Mistakes that were tried", ""]
    for group in groups:
        names = sorted(kind.name for kind in KINDS.values() if kind.group == group)
        lines += [f"**{group[0].upper()}{group[1:]}**: {'; '.join(names)}.", ""]
    lines += [_TABLES, *_of_tables(tables["counts"])]
    return "\n".join(lines).rstrip() + "\n"


def _of_tables(counts: dict[str, Any]) -> list[str]:
    """Return the counts of the study of tables, by mistake and by table."""
    lines = []
    by_mistake = {m: sum((Counter(counts[t][m]) for t in SHEETS), Counter[str]()) for m in MISTAKES}
    by_table = {t: sum((Counter(counts[t][m]) for m in MISTAKES), Counter[str]()) for t in SHEETS}
    for title, kinds, found in (("mistake", MISTAKES, by_mistake), ("table", None, by_table)):
        number = "variants" if kinds else "kinds of mistakes"
        lines += [
            f"| {title} | {number} | cases | right | refused | warned | undetected |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_row(name, len(kinds[name]) if kinds else len(MISTAKES), found[name]) for name in found]
        lines += [
            _row("all", sum(map(len, MISTAKES.values())) if kinds else len(MISTAKES), sum(found.values(), Counter()))
        ]
        lines += [""]
    return lines


def _row(name: str, kinds: int, counts: Counter[str]) -> str:
    bad = sum(counts.get(verdict, 0) for verdict in OFFENDERS)
    cells = [counts.get(verdict, 0) for verdict in ("right", "refused", "warned")]
    return f"| {name} | {kinds} | {sum(counts.values())} | {cells[0]} | {cells[1]} | {cells[2]} | {bad} |"
