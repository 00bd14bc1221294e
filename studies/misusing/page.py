"""docs/explanation/misuse.md: what may come of a mistake, and the kinds that were tried."""

from __future__ import annotations

from collections import Counter
from typing import Any

from misusing.judge import OFFENDERS
from misusing.kinds import KINDS

_TOP = """# What comes of a mistake

<!-- Written by `python studies/misuse.py --page`; edit studies/misusing/page.py. -->

A wrong model that converges is worse than an error. Everything that takes a model and data
(`Inference.solve`, an evidence, `posterior`, the learners, the samplers, `evidence_surface`, the estimators) looks at
them once before it computes (`sitewise.model.check`): columns against `active_dims`, lengthscales and inducing inputs,
observations against the likelihood, weights, sites, and the values and shapes of all parameters. Under `jax.jit`,
`grad` and `vmap` the shapes are checked and the values, which are not known then, are not.

What a program cannot know, it cannot refuse: columns in another order than the user believes, a unit of measurement
that is not the one meant, rows that were shuffled against their observations.

The hunt (`studies/misuse.py`) takes small correct problems, makes one plausible mistake in each, sometimes two, and
looks at what comes of it:

- *right*: the numbers of the correct problem, as where a list stands for an array;
- *refused*: a `ValueError` or `TypeError` with a sentence that names the thing;
- *warned*: a warning, or a result that says it has not converged or ended at a bound;
- *offender*: other numbers without a word, or the words of a library the user did not call.
"""


def render(summary: dict[str, Any]) -> str:
    """The page, from the summary of a run."""
    found = {name: Counter(summary["kinds"][name]) for name in KINDS}  # a recorded run may have further kinds
    lines = [
        _TOP,
        f"Of {sum(map(Counter.total, found.values()))} cases, some of them with two mistakes:",
        "",
        "| mistakes in | kinds | cases | right | refused | warned | offenders |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = dict.fromkeys(kind.group for kind in KINDS.values())
    for group in groups:
        counts = [found[kind.name] for kind in KINDS.values() if kind.group == group]
        lines.append(_row(group, len(counts), sum(counts, Counter())))
    lines.append(_row("all", len(KINDS), sum(found.values(), Counter())))
    lines += ["", "## The kinds", ""]
    for group in groups:
        names = sorted(kind.name for kind in KINDS.values() if kind.group == group)
        lines += [f"**{group[0].upper()}{group[1:]}**: {'; '.join(names)}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(name: str, kinds: int, counts: Counter[str]) -> str:
    bad = sum(counts.get(verdict, 0) for verdict in OFFENDERS)
    cells = [counts.get(verdict, 0) for verdict in ("right", "refused", "warned")]
    return f"| {name} | {kinds} | {sum(counts.values())} | {cells[0]} | {cells[1]} | {cells[2]} | {bad} |"
