"""Tables: pure functions of rows → Markdown, LaTeX, CSV.

A cell is mean ± population sd over the folds of all seeds, as in the paper.  In each line the best mean is bold, and
so is every method that a paired t-test over the same folds (two-sided, p = 0.05) does not distinguish from it.
Methods are compared on the folds that all of them have; a line says how many folds are missing.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise_icml2023 import paper

METRICS = {"loglik": "test_loglik", "accuracy": "test_acc"}
TITLES = {"loglik": "test log density", "accuracy": "test accuracy"}
SHOWN = {
    "laplace": "LA", "ep": "EP", "vi": "VI", "hybrid": "Hybrid", "hybrid-vem": "Hybrid (Alg. 1)", "mcmc": "MCMC",
    "ep-frozen": "EP as printed", "laplace-softplus": "LA as printed", "vi-joint": "VI as printed",
}  # fmt: skip
P = 0.05


class Cell(NamedTuple):
    mean: float
    sd: float
    bold: bool
    folds: int


class Line(NamedTuple):
    """One data set; `printed` holds the paper's cells, which were bolded among the paper's own methods."""

    set: str
    cells: dict[str, Cell]
    printed: dict[str, paper.Printed]
    missing: int


class Table(NamedTuple):
    title: str
    protocol: str
    methods: tuple[str, ...]
    lines: list[Line]
    paper_methods: tuple[str, ...]
    saw_test_rows: tuple[str, ...] = ()  # of the paper's methods

    def paper_label(self, method: str) -> str:
        return ("Ours" if method == "hybrid-vem" else label(method)) + ("†" if method in self.saw_test_rows else "")

    def bold_counts(self) -> dict[str, int]:
        return dict(Counter(m for line in self.lines for m, cell in line.cells.items() if cell.bold))


def p_value(best: np.ndarray, other: np.ndarray) -> float:
    """Of a paired t-test, two-sided; 1 with a single fold, which cannot distinguish anything."""
    from scipy.stats import ttest_rel

    gap = best - other
    if len(gap) < 2:
        return 1.0
    if np.ptp(gap) <= 1e-12 * np.max(np.abs(best)):  # the test has no answer without spread
        return float(np.all(np.abs(gap) <= 1e-12 * np.max(np.abs(best))))
    return float(ttest_rel(best, other).pvalue)


def build(
    rows: Sequence[dict[str, Any]],
    table: str,
    metric: str,
    protocol: str,
    methods: Sequence[str],
    sets: Sequence[str],
    seeds: Sequence[int],
    reference: str | None = None,
) -> Table:
    """Select and summarise.  `reference` names the paper's table (its captions and numbers), if it has one."""
    wanted = {(s, m) for s in sets for m in methods}
    values: dict[tuple[str, str], dict[tuple[int, int], float]] = defaultdict(dict)
    for row in rows:
        pair = (row["set"], row["method"])
        value = row.get(METRICS[metric])
        if pair in wanted and row["protocol"] == protocol and row["seed"] in seeds and value is not None:
            values[pair][row["seed"], row["fold"]] = value
    printed = paper.printed(reference, metric) if reference else {}
    lines = []
    for name in sets:
        have = [m for m in methods if values.get((name, m))]
        if not have:
            continue
        common = sorted(set.intersection(*(set(values[name, m]) for m in have)))
        numbers = {m: np.array([values[name, m][fold] for fold in common]) for m in have}
        lines.append(Line(name, _cells(numbers), printed.get(name, {}), 5 * len(seeds) - len(common)))
    printed_methods = dict.fromkeys(m for line in lines for m in line.printed)
    title = f"{table}: {TITLES[metric]}, protocol {protocol}, seeds {_span(seeds)}"
    leaks = paper.saw_test_rows(reference) if reference else ()
    return Table(title, protocol, tuple(methods), lines, tuple(printed_methods), leaks)


def _cells(numbers: dict[str, np.ndarray]) -> dict[str, Cell]:
    if not len(next(iter(numbers.values()))):
        return {}
    best = max(numbers, key=lambda m: numbers[m].mean())
    return {
        m: Cell(float(v.mean()), float(v.std()), p_value(numbers[best], v) >= P, len(v)) for m, v in numbers.items()
    }


def _span(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) < 10 else "42, 1–9"


def label(method: str) -> str:
    name, _, modifiers = method.partition("@")
    return SHOWN.get(name, name) + (f" ({modifiers})" if modifiers else "")


def markdown(table: Table) -> str:
    ours = [label(m) for m in table.methods]
    theirs = [f"paper: {table.paper_label(m)}" for m in table.paper_methods]
    out = [
        f"**{table.title}**",
        "",
        "| set | " + " | ".join(ours + theirs) + " |",
        "|---" * (1 + len(ours + theirs)) + "|",
    ]
    for line in table.lines:
        cells = [_show(line.cells.get(m), "**{}**", " ± ") for m in table.methods]
        cells += [_show(line.printed.get(m), "**{}**", " ± ") for m in table.paper_methods]
        note = f" ({line.missing} folds missing)" if line.missing else ""
        out.append(f"| {line.set}{note} | " + " | ".join(cells) + " |")
    out.append("| *bold* | " + " | ".join(_counts(table)) + " |")
    if table.paper_methods and table.protocol != "published":
        out += ["", "The paper's columns are under its own protocol, `published`."]
    if table.saw_test_rows:
        out += ["", "† Fitted on all rows, those of the test folds included: no measure of prediction."]
    return "\n".join(out) + "\n"


def latex(table: Table) -> str:
    ours = [label(m) for m in table.methods]
    theirs = [table.paper_label(m).replace("†", r"$^\dagger$") for m in table.paper_methods]
    out = [f"% {table.title}", rf"\begin{{tabular}}{{l|{'c' * len(ours)}|{'c' * len(theirs)}}}", r"\toprule"]
    if theirs:
        out.append(rf"& \multicolumn{{{len(ours)}}}{{c|}}{{sitewise}} & \multicolumn{{{len(theirs)}}}{{c}}{{paper}} \\")
    out += [" & ".join(["", *ours, *theirs]) + r" \\", r"\midrule"]
    for line in table.lines:
        cells = [_show(line.cells.get(m), r"\mathbf{{{}}}", r" \pm ", "${}$") for m in table.methods]
        cells += [_show(line.printed.get(m), r"\mathbf{{{}}}", r" \pm ", "${}$") for m in table.paper_methods]
        out.append(" & ".join([rf"{{\sc {_escaped(line.set)}}}", *cells]) + r" \\")
    out += [r"\midrule", " & ".join(["Bold count", *_counts(table)]) + r" \\", r"\bottomrule", r"\end{tabular}"]
    return "\n".join(out) + "\n"


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "_%&#$" else c for c in text)


def as_csv(table: Table) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["set", "source", "method", "mean", "sd", "bold", "folds"])
    for line in table.lines:
        for method, cell in line.cells.items():
            writer.writerow(
                [line.set, "sitewise", method, f"{cell.mean:.6g}", f"{cell.sd:.6g}", int(cell.bold), cell.folds]
            )
        for method, fact in line.printed.items():
            source = "paper, fitted on test rows" if method in table.saw_test_rows else "paper"
            writer.writerow([line.set, source, method, fact.mean, fact.sd, int(fact.bold), ""])
    return buffer.getvalue()


def _show(cell: Cell | paper.Printed | None, bold: str, between: str, around: str = "{}") -> str:
    if cell is None:
        return "–"
    text = f"{cell.mean:.3f}{between}{cell.sd:.3f}"
    return around.format(bold.format(text) if cell.bold else text)


def _counts(table: Table) -> list[str]:
    ours = table.bold_counts()
    theirs = Counter(m for line in table.lines for m, fact in line.printed.items() if fact.bold)
    return [str(ours.get(m, 0)) for m in table.methods] + [str(theirs[m]) for m in table.paper_methods]
