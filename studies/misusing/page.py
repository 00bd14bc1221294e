"""Render docs/explanation/misuse.md: how user errors are detected, and which mistakes were tried."""

from __future__ import annotations

from collections import Counter
from typing import Any

from misusing.judge import OFFENDERS
from misusing.kinds import KINDS

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


def render(summary: dict[str, Any]) -> str:
    """Return the page, from the summary of a run."""
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
    return "\n".join(lines).rstrip() + "\n"


def _row(name: str, kinds: int, counts: Counter[str]) -> str:
    bad = sum(counts.get(verdict, 0) for verdict in OFFENDERS)
    cells = [counts.get(verdict, 0) for verdict in ("right", "refused", "warned")]
    return f"| {name} | {kinds} | {sum(counts.values())} | {cells[0]} | {cells[1]} | {cells[2]} | {bad} |"
