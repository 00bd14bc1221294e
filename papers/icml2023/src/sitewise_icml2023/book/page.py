"""The page "Every number of the paper"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sitewise_icml2023.book import errata, figures, tables, text
from sitewise_icml2023.book.items import ERRATUM, MET, MISSED, NOT_RUN, VERDICTS, Item, counts
from sitewise_icml2023.book.stored import Row, Stored
from sitewise_icml2023.registry import suite
from sitewise_icml2023.sampled import ESS, RHAT
from sitewise_icml2023.suites import ROBUST

WHY = {
    "": "not known",
    "start": "started from the θ of the exact gradient, not from that of Algorithm 1",
    "all rows": "fitted on all rows, those of the test folds included, with the logit link, by another program: no "
    "measure of prediction, and not computed again",
    "sparse vi": "ours predicts better: the printed run had not reached the maximum of the ELBO",
    "sparse ours": "the printed M-step also moves the sites with θ and is not what the text describes; the same "
    "objective by its exact gradient is better on every set",
    "dense": "computed by the same steps (E10); the printed run differs in a detail that is not known",
    "ard": "d lengthscales, many without a finite optimum, and many maxima: where an optimiser stops decides",
    "ard figure": "its points are ratios of the printed accuracies with one lengthscale per feature: it misses where "
    "those accuracies are missed, and every method of a set where the best one's accuracy is",
    "ard ours": "ours is the exact gradient of the same evidence (`hybrid@ard`): Algorithm 1 was not run on this set "
    "with one lengthscale per feature",
    "ard run": "Algorithm 1 with one lengthscale per feature ends where its objective falls; the round depends on "
    "rounding, and the folds of the printed runs are not known",
    "stock ep": "EP converged on every fold here; the printed standard deviation of 0.242, three times that of the "
    "other methods, suggests that it did not there",
    "robust": "made by another program, with optimisers and stopping rules that are not recorded",
    "chains": "another program's chains, under flat priors of log ℓ and log σ² whose limits are not printed (ours: "
    "1e-5 to 1e6; narrower limits: E11)",
    "bold": "marks of a t-test at p = 0.05, which depend on single folds",
    "conflict": "rounding decides whether a run converges or its objective falls",
}


def items(stored: Stored) -> list[Item]:
    """Return every printed number; the arithmetic of an erratum replaces the numbers that it explains."""
    found = [*tables.classification(stored), *tables.regression(stored), *figures.every(stored), *text.every(stored)]
    by_arithmetic = {(i.where, i.line, i.column): i for i in errata.half()[1]}
    return [by_arithmetic.get((i.where, i.line, i.column), i) for i in found]


def markdown(stored: Stored, data: Path | None = None) -> str:
    every = items(stored)
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in every:
        groups[item.where].append(item)
    return "\n".join([
        *_head(every), *_by_group(groups), *_errata(stored, data), *_folds(stored, data), *_missed(every),
        *_diagnostics(stored), *(line for where, mine in groups.items() for line in _group(where, mine)),
    ]) + "\n"  # fmt: skip


LIMITS = """A mean is met if it is off by no more than half a unit of its last printed digit and a quarter of its
standard error, sd/√folds; other folds would move it four times as far. A standard deviation sd has the error
sd/√(2 folds). An accuracy may also be off by one row of the set per repetition, its standard deviation by two; a bold
count by the number of cells whose p-value is within a factor of two of 0.05. A curve of Fig. 1 may be off by 0.002 per
row (MCMC: 0.005), 1 % of its axis; a point of Fig. 4 by two rows of its set, one for the method and one for the best,
its legend by 0.0025. Where one seed of ten was
run (¹: MCMC, and Algorithm 1 on some sets), our mean is moved by what the hybrid's differs between ten seeds and that
one, our standard deviation is multiplied by the ratio of the hybrid's; the limits are then those of five folds, plus
two standard errors of the paired differences of the two methods. Where the printed method was not run, another stands
for it (²): the exact gradient of the same evidence (`hybrid`) for Algorithm 1 with one lengthscale per feature and in
the bold counts of ten seeds, the library's own search (`laplace@ard`, `vi@ard`) for Laplace's method and VI with one
lengthscale per feature, larger steps (`hybrid-vem-fast`) for Algorithm 1 on robust regression, the exact gradient of
the sparse evidence (`hybrid-ep`) for sparse Algorithm 1, EP started from the θ of the exact gradient for EP started
from that of Algorithm 1."""


def _head(every: Sequence[Item]) -> list[str]:
    found = counts(every)
    run, explained = len(every) - found[NOT_RUN], found[MET] + found[ERRATUM]
    estimated = sum(item.one_seed and item.ours is not None for item in every)
    others = sum(bool(item.stands_in) for item in every)
    chance = sum(item.erratum == tables.CHANCE for item in every)
    return [
        "# Every number of the paper",
        "",
        "Made by `sitewise reproduce numbers --out results/icml2023 --data DIR` from stored results; only the "
        "reasons are written by hand. Protocol `published`. A curve counts as one number.",
        "",
        f"**{len(every)} printed numbers and curves: {found[MET]} met, {found[ERRATUM]} explained by a named erratum, "
        f"{found[MISSED]} not met, {found[NOT_RUN]} not run. Of the {run} that were run {explained / max(run, 1):.1%} "
        f"are met or explained, of all {explained / max(len(every), 1):.1%}. {estimated} of them are judged "
        f"by one seed of ten (¹), {others} by another method that stands for the printed one (²), {chance} by what "
        f"chance may give ({tables.CHANCE}).**",
        "",
        LIMITS.replace("\n", " "),
        "",
    ]


def _by_group(groups: dict[str, list[Item]]) -> list[str]:
    out = ["| | " + " | ".join(VERDICTS) + " |", "|---" * 5 + "|"]
    for where, mine in groups.items():
        out.append(f"| {where} | " + " | ".join(str(n) for n in counts(mine).values()) + " |")
    return [*out, ""]


def _errata(stored: Stored, data: Path | None) -> list[str]:
    return ["## Errata", "", *(f"- **{name}** {tell(stored, data)}" for name, tell in errata.EVERY.items()), ""]


def _folds(stored: Stored, data: Path | None) -> list[str]:
    known = errata.folds(stored, data)
    if not known:
        return []
    limits = list(known[0][2])
    out = [
        "## Fold by fold",
        "",
        "The authors published 50 test log densities per method on 27 sets; 18 sets are compared. "
        "Share of folds within:",
        "",
        "| | folds | " + " | ".join(f"{limit:g}" for limit in limits) + " | median difference |",
        "|---" * (3 + len(limits)) + "|",
    ]
    for method, number, shares, median in known:
        cells = " | ".join(f"{shares[limit]:.1%}" for limit in limits)
        out.append(f"| {method} | {number} | {cells} | {median:.1e} |")
    return [*out, ""]


def _missed(every: Sequence[Item]) -> list[str]:
    missed = [item for item in every if item.verdict == MISSED]
    out = ["## Not met", "", "| | | | printed | ours | difference | limit | why |", "|---" * 8 + "|"]
    for item in missed:
        printed, ours = item.shown or (f"{item.printed:g}", f"{item.ours:.4g}")
        out.append(
            f"| {item.where} | {item.line} | {item.column} | {printed} | {ours} | {item.difference:+.4f} | "
            f"{item.limit:.4f} "
            f"| {WHY.get(item.why, item.why)} |"
        )  # fmt: skip
    return [*out, ""] if missed else []


def _diagnostics(stored: Stored) -> list[str]:
    """Return the table of MCMC diagnostics per set."""
    by = {name: tables.mcmc_rows(stored, name) for name in (*suite("table1"), *ROBUST)}
    rows = [row for mine in by.values() for row in mine]
    if not rows:
        return []

    def flagged(mine: Sequence[Row]) -> int:
        return sum(r["rhat"] > RHAT or r["ess"] < ESS for r in mine)

    out = [
        "## MCMC diagnostics",
        "",
        f"{len(rows) - flagged(rows)} of {len(rows)} folds have R-hat ≤ {RHAT} and at least {ESS} effective "
        f"draws; {5 * len(by) - len(rows)} folds were not run.",
        "",
        "| set | folds | flagged | chains continued or begun again | worst R-hat | least ESS |",
        "|---" * 6 + "|",
    ]
    for name, mine in by.items():
        if mine:
            again = sum(len(r.get("attempts", ())) > 1 or r.get("continued", False) for r in mine)
            worst, least = max(r["rhat"] for r in mine), min(r["ess"] for r in mine)
            out.append(f"| {name} | {len(mine)} | {flagged(mine)} | {again} | {worst:.3f} | {least:.0f} |")
    return [*out, ""]


def _group(where: str, mine: Sequence[Item]) -> list[str]:
    """Return the items of one table or figure: cells as a table of sets × methods, other items as a list."""
    cells: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    rest = []
    for item in mine:
        method, _, what = item.column.rpartition(" ")
        if what in ("mean", "sd"):
            cells[item.line][method].append(item)
        else:
            rest.append(item)
    out = [f"## {where}", ""]
    if cells:
        methods = list(dict.fromkeys(m for line in cells.values() for m in line))
        out += ["| printed → ours | " + " | ".join(methods) + " |", "|---" * (1 + len(methods)) + "|"]
        out += [
            f"| {name} | " + " | ".join(_cell(line.get(m, [])) for m in methods) + " |" for name, line in cells.items()
        ]
        out.append("")
    if rest:
        out += ["| | | printed | ours | |", "|---" * 5 + "|"]
        for item in rest:
            printed, ours = item.shown or (f"{item.printed:.6g}", "" if item.difference is None else f"{item.ours:.6g}")
            out.append(f"| {item.line} | {item.column} | {printed} | {ours} | {item.mark} |")
        out.append("")
    return out


def _cell(pair: Sequence[Item]) -> str:
    if not pair:
        return ""
    worst = max(pair, key=lambda item: (MET, ERRATUM, NOT_RUN, MISSED).index(item.verdict))
    printed = " ± ".join(f"{item.printed:.3f}" for item in pair)
    ours = " ± ".join("?" if item.ours is None else f"{item.ours:.3f}" for item in pair)
    return printed + (" not run" if all(item.ours is None for item in pair) else f" → {ours} {worst.mark}")
