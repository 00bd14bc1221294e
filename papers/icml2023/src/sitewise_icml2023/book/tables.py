"""The printed tables, cell by cell.

A mean may be off by half a unit of its last digit and a quarter of its standard error, sd/√folds: other folds would
move it four times as far.  A standard deviation sd has the error sd/√(2 folds).  One row of the set that changes its
side in every repetition moves an accuracy by 1/n and its standard deviation by at most 2/n; that much is allowed too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from sitewise_icml2023 import paper, tables, variants
from sitewise_icml2023.book.items import MISSED, Item
from sitewise_icml2023.book.stored import Row, Stored
from sitewise_icml2023.protocols import FOLDS, SEEDS
from sitewise_icml2023.registry import get
from sitewise_icml2023.sampled import NARROW_LIMITS

TITLES = {
    "table1": "Table 1 and its accuracies, ten seeds", "table1-seed42": "Single-seed tables of the appendix",
    "table2": "Table 2, robust regression", "table3": "Table 3, sparse models",
    "table-ard": "ARD tables of the appendix", "table-ep-init": "EP started from our θ, appendix",
}  # fmt: skip
DIGIT = 5e-4
SHARE = 0.25
FROZEN = "E1"
CHANCE = "E8"
STOPPED = "E9"
DENSE = "E10"
NARROW = "E11"
AS_SEARCHED = "laplace-softplus"  # with one lengthscale the maximum, unless the search ended early
REPEATS = "ard-repeats.jsonl"
FLAT_PRIORS = "flat-priors.jsonl"
LEAST_REPEATS = 5
LEAST_SHARE = 0.05  # of the tables that chance may give, for a cell to be explained by chance
# The methods that stand for a printed column, the first that was run, and the erratum under which they do.
PLAIN: dict[str, tuple[str, ...]] = {
    "laplace": ("laplace",),
    "ep": ("ep-frozen",),
    "vi": ("vi",),
    "hybrid-vem": ("hybrid-vem",),
}
STANDS_FOR: dict[str, dict[str, tuple[str, ...]]] = {
    "table1": {**PLAIN, "mcmc": ("mcmc",)},
    "table1-seed42": PLAIN,
    "table-ep-init": {**PLAIN, "ep@from-hybrid": ("ep-frozen@from-hybrid-vem", "ep-frozen@from-hybrid")},
    "table-ard": {m: tuple(f"{name}@ard" for name in names) for m, names in PLAIN.items()}
    | {
        "laplace": ("laplace-softplus@ard", "laplace@ard"),
        "vi": ("vi-joint@ard", "vi@ard"),
        "hybrid-vem": ("hybrid-vem@ard", "hybrid@ard"),
    },
    "table3": {
        "laplace": ("laplace@m500",),
        "ep": ("ep@m500",),
        "vi": ("vi@m500",),
        "hybrid-vem": ("dense-ep@m500", "hybrid-ep@m500"),
    },
}
WHY = {
    ("table-ep-init", "", "ep@from-hybrid"): "start",
    ("table3", "", "laplace"): "all rows",
    ("table3", "", "ep"): "all rows",
    ("table3", "", "vi"): "sparse vi",
    ("table3", "", "hybrid-vem"): "sparse ours",
    ("table-ard", "", "vi"): "ard",
    ("table-ard", "", "laplace"): "ard",
    ("table-ard", "", "ep"): "ard",
    ("table-ard", "", "hybrid-vem"): "ard ours",
    ("table2", "stock", "ep"): "stock ep",
    ("table2", "", "laplace"): "robust",
    ("table2", "", "ep"): "robust",
    ("table2", "", "vi"): "robust",
    ("table2", "", "hybrid-vem"): "robust",
    ("table2", "", "mcmc"): "chains",
    ("table1", "", "mcmc"): "chains",
}

# The reason of a miss where the printed method itself was run; `WHY` has that of its stand-in.
WHY_IF_RUN = {
    ("table-ep-init", "ep@from-hybrid"): "",
    ("table-ard", "hybrid-vem"): "ard run",
    ("table3", "hybrid-vem"): "dense",
}


def where(table: str, metric: str) -> str:
    return f"{TITLES[table]}: {tables.TITLES[metric]}"


def limits(cell: paper.Printed, folds: int, metric: str, rows: int) -> tuple[float, float]:
    """How far the mean and the standard deviation may lie from the printed ones."""
    row = 1 / rows if metric == "accuracy" else 0.0
    mean, sd = (SHARE * cell.sd / np.sqrt(k * folds) for k in (1, 2))
    return DIGIT + max(float(mean), row), DIGIT + max(float(sd), 2 * row)


def cell_items(
    table: str, metric: str, name: str, method: str, cell: paper.Printed, folds: int, ours: np.ndarray | None
) -> list[Item]:
    """Mean and standard deviation of one cell."""
    erratum = FROZEN if method.startswith("ep") and table not in ("table2", "table3") else ""
    why = WHY.get((table, name, method), WHY.get((table, "", method), ""))
    found = (None, None) if ours is None else (float(ours.mean()), float(ours.std()))
    return [
        Item(where(table, metric), name, f"{method} {what}", printed, value, limit, erratum, why)
        for what, printed, value, limit in zip(
            ("mean", "sd"), cell[:2], found, limits(cell, folds, metric, get(name).rows), strict=True
        )
    ]


def seeds_of(table: str) -> Sequence[int]:
    return SEEDS if table == "table1" else (42,)


def cells(stored: Stored, table: str, metric: str) -> list[Item]:
    """All cells of a table of classification; of ten seeds also those of which one was run."""
    out, seeds = [], seeds_of(table)
    for name, line in paper.printed(table, metric).items():
        for method, cell in line.items():
            if method in STANDS_FOR[table]:
                ours = column(stored, table, name, method, tables.METRICS[metric])
                if ours is None and len(seeds) > 1:
                    items = _from_one_seed(stored, metric, name, method, cell)
                    out += _with_narrow_priors(stored, metric, name, cell, items) if method == "mcmc" else items
                else:
                    items = cell_items(table, metric, name, method, cell, FOLDS * len(seeds), ours)
                    other = _stand_in(stored, table, name, method)
                    items = [dataclasses.replace(item, stands_in=other) for item in items]
                    if (table, method) in WHY_IF_RUN and not other:
                        items = [dataclasses.replace(item, why=WHY_IF_RUN[table, method]) for item in items]
                    if (table, method) == ("table3", "hybrid-vem") and not other:
                        items = [dataclasses.replace(item, erratum=DENSE) for item in items]
                    if method == "mcmc":
                        items = _with_narrow_priors(stored, metric, name, cell, items)
                    if method == "laplace" and any(item.verdict == MISSED for item in items):
                        items = _as_searched(stored, table, metric, name, cell, items)
                    if table == "table-ard" and any(item.verdict == MISSED for item in items):
                        search = STANDS_FOR[table][method][0]
                        items = _by_chance(items, repeats(stored, name, search, tables.METRICS[metric]))
                    out += items
    return out


def _as_searched(
    stored: Stored, table: str, metric: str, name: str, cell: paper.Printed, items: list[Item]
) -> list[Item]:
    """A cell of Laplace's method that its maximum misses: by the search as it was made, if that meets it."""
    ours = stored.values(name, AS_SEARCHED, tables.METRICS[metric], seeds_of(table))
    if ours is None or table == "table-ard":
        return items
    again = cell_items(table, metric, name, "laplace", cell, len(ours), ours)
    again = [dataclasses.replace(item, erratum=STOPPED) for item in again]
    return items if any(item.verdict == MISSED for item in again) else again


def _with_narrow_priors(stored: Stored, metric: str, name: str, cell: paper.Printed, items: list[Item]) -> list[Item]:
    """A cell of MCMC that is missed with wide limits of the flat priors: with narrow limits, if these meet it."""
    ours = with_narrow_limits(stored, name, tables.METRICS[metric])
    if ours is None or all(item.verdict != MISSED for item in items):
        return items
    again = cell_items("table1", metric, name, "mcmc", cell, len(ours), ours)
    again = [dataclasses.replace(item, erratum=NARROW) for item in again]
    return items if any(item.verdict == MISSED for item in again) else again


def with_narrow_limits(stored: Stored, name: str, key: str) -> np.ndarray | None:
    """Return our folds under narrow limits of the flat priors: of chains, or where there are none by quadrature."""
    chains = stored.values(name, variants.NARROW, key, SEEDS)
    return by_quadrature(stored, name, key, NARROW_LIMITS) if chains is None else chains


def by_quadrature(stored: Stored, name: str, key: str, limits: tuple[int, int]) -> np.ndarray | None:
    """Return our folds averaged over a grid of θ within these limits; None if one of ten seeds is missing."""
    found = {
        (row["seed"], row["fold"]): box[key]
        for row in stored.lines(FLAT_PRIORS)
        if row["set"] == name
        for box in row["boxes"]
        if (box["low"], box["high"]) == limits
    }
    keys = [(seed, fold) for seed in SEEDS for fold in range(FOLDS)]
    return np.array([found[k] for k in keys]) if all(k in found for k in keys) else None


def repeats(stored: Stored, name: str, search: str, key: str) -> list[np.ndarray]:
    """Per fold, what searches gave that began within 1e-10 of each other; empty if there are few."""
    mine = [row for row in stored.lines(REPEATS) if (row["set"], row["method"]) == (name, search)]
    rows = [row for row in mine if np.isfinite(row["test_loglik"])]
    ends = [np.array([row[key] for row in rows if row["fold"] == fold]) for fold in range(FOLDS)]
    return ends if all(len(values) >= LEAST_REPEATS for values in ends) else []


def _by_chance(items: list[Item], ends: Sequence[np.ndarray]) -> list[Item]:
    """A cell whose folds may end in any of these places.

    It is explained if one in twenty of such tables meets mean and standard deviation together, within the ordinary
    limits; the one that is nearest to the printed numbers is shown.
    """
    if not ends:
        return items
    rng = np.random.default_rng(0)
    drawn = np.stack([rng.choice(values, 4000) for values in ends])
    found = np.stack([drawn.mean(axis=0), drawn.std(axis=0)])
    far = np.stack([np.abs(f - item.printed) / item.limit for f, item in zip(found, items, strict=True)]).max(axis=0)
    if np.mean(far <= 1) < LEAST_SHARE:
        return items
    nearest = found[:, np.argmin(far)]
    return [
        dataclasses.replace(item, ours=float(value), erratum=CHANCE, stands_in="")
        for item, value in zip(items, nearest, strict=True)
    ]


def _stand_in(stored: Stored, table: str, name: str, method: str) -> str:
    """The method whose folds stand for a printed cell where the method itself was not run; else empty."""
    wanted, *others = STANDS_FOR[table][method]
    if not others or stored.folds(name, wanted, seeds_of(table)) is not None:
        return ""
    return next((m for m in others if stored.folds(name, m, seeds_of(table)) is not None), "")


def column(stored: Stored, table: str, name: str, method: str, key: str) -> np.ndarray | None:
    """Our folds that stand for a printed cell."""
    found = (stored.values(name, m, key, seeds_of(table)) for m in STANDS_FOR[table][method])
    return next((values for values in found if values is not None), None)


def for_counts(stored: Stored, table: str, name: str, method: str, metric: str) -> tuple[np.ndarray | None, str]:
    """Our folds for what is said of a whole table, and the method that stands for the printed one where it has to;
    of ten seeds that is the exact gradient for Algorithm 1, of which some sets have one."""
    found = column(stored, table, name, method, tables.METRICS[metric])
    if found is None and (table, method) == ("table1", "hybrid-vem"):
        return stored.values(name, "hybrid", tables.METRICS[metric], SEEDS), "hybrid"
    return found, _stand_in(stored, table, name, method)


def bold_counts(table: str, metric: str, numbers: dict[str, dict[str, np.ndarray | None]]) -> list[Item]:
    """Bold counts by the paper's rule among the paper's methods; a p-value within a factor of two of 0.05 is open.

    `numbers` are our folds of every set and method.
    """
    printed = paper.bold_count(table, metric)
    bold, near = dict.fromkeys(printed, 0), dict.fromkeys(printed, 0)
    complete = all(v is not None for line in numbers.values() for v in line.values())
    for line in numbers.values() if complete else ():
        known = {m: v for m, v in line.items() if v is not None}
        best = max(known, key=lambda m: known[m].mean())
        for m, v in known.items():
            p = tables.p_value(known[best], v)
            bold[m] += p >= tables.P
            near[m] += tables.P / 2 <= p <= 2 * tables.P
    return [
        Item(where(table, metric), "bold count", m, count, float(bold[m]) if complete else None, float(near[m]),
             FROZEN if table not in ("table2", "table3") else "", "bold")
        for m, count in printed.items()
    ]  # fmt: skip


def classification(stored: Stored) -> list[Item]:
    """All tables of classification."""
    out: list[Item] = []
    for table in STANDS_FOR:
        for metric in tables.METRICS:
            printed = paper.printed(table, metric)
            if not printed:
                continue
            out += cells(stored, table, metric)

            wanted = paper.bold_count(table, metric)
            found = {n: {m: for_counts(stored, table, n, m, metric) for m in wanted} for n in printed}
            other = next((stands for line in found.values() for _, stands in line.values() if stands), "")
            counts = bold_counts(table, metric, {n: {m: v for m, (v, _) in line.items()} for n, line in found.items()})
            out += [dataclasses.replace(item, stands_in=other) for item in counts]
    return out


def mcmc_rows(stored: Stored, name: str) -> list[Row]:
    """Sampled folds of seed 42: of the store, or of the file of Table 2."""
    wanted = (name, "published", "mcmc", 42)
    rows = [r for r in stored.rows if (r["set"], r["protocol"], r["method"], r["seed"]) == wanted]
    rows = rows or [r for r in stored.lines("table2.jsonl") if r["set"] == name and r["method"] == "mcmc"]
    return sorted(rows, key=lambda r: r["fold"])


def _from_one_seed(stored: Stored, metric: str, name: str, method: str, cell: paper.Printed) -> list[Item]:
    """Mean and standard deviation over ten seeds as far as seed 42 tells them, and how much further they may be off.

    The hybrid was run on all seeds, and folds that are hard for one method are hard for the others.  Our mean is moved
    by what the hybrid's over ten seeds differs from that of seed 42; our standard deviation is multiplied by the ratio
    of the hybrid's.  The paired differences of the two methods have the standard deviation d; the limits are those of
    five folds, plus two standard errors, 2d/√5 for the mean and 2d/√10 for the standard deviation.
    """
    key = tables.METRICS[metric]
    mine = stored.values(name, STANDS_FOR["table1"][method][0], key, (42,))
    every, first = (stored.values(name, "hybrid", key, seeds) for seeds in (SEEDS, (42,)))
    items = cell_items("table1", metric, name, method, cell, FOLDS, mine)
    if mine is None or every is None or first is None:
        return [dataclasses.replace(item, ours=None) for item in items]
    ratio = float(every.std() / first.std()) if first.std() > 0 else 1.0
    found = float(mine.mean() + every.mean() - first.mean()), float(mine.std()) * ratio
    slack = [2 * float((mine - first).std(ddof=1)) / np.sqrt(k * FOLDS) for k in (1, 2)]
    return [
        dataclasses.replace(item, ours=ours, limit=item.limit + more, one_seed=True)
        for item, ours, more in zip(items, found, slack, strict=True)
    ]


def regression(stored: Stored) -> list[Item]:
    """Table 2 and the MCMC means in the text beside it."""
    rows = {(r["set"], r["method"], r["fold"]): r["test_loglik"] for r in stored.lines("table2.jsonl")}
    printed = paper.printed("table2", "loglik")
    stands = {"hybrid-vem": ("hybrid-vem", "hybrid-vem-fast")}  # the second takes larger steps

    def found(name: str, method: str) -> tuple[np.ndarray | None, str]:
        """The folds, and the method that they are of if it is another one."""
        for m in stands.get(method, (method,)):
            mine = stored.values(name, m, "test_loglik", (42,))
            if mine is None and all((name, m, fold) in rows for fold in range(FOLDS)):
                mine = np.array([rows[name, m, fold] for fold in range(FOLDS)])
            if mine is not None:
                return mine, "" if m == method else m
        return None, ""

    out = []
    for name, line in printed.items():
        for method, cell in {**line, "mcmc": paper.robust_mcmc()[name]}.items():
            mine, other = found(name, method)
            items = cell_items("table2", "loglik", name, method, cell, FOLDS, mine)
            out += [dataclasses.replace(item, stands_in=other) for item in items]
    counted = {n: {m: found(n, m) for m in paper.bold_count("table2", "loglik")} for n in printed}
    other = next((stands for line in counted.values() for _, stands in line.values() if stands), "")
    counts = bold_counts("table2", "loglik", {n: {m: v for m, (v, _) in line.items()} for n, line in counted.items()})
    return out + [dataclasses.replace(item, stands_in=other) for item in counts]
