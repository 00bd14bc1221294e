"""Make results/default-kernel/regression.md from the stored lines of regression_kernels.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pooled import Line, stored
from regression_kernels import FOLDS, NOISES, ROWS, TABLES, TREES, VARIANTS

Key = tuple[str, int, int]  # table, seed, fold
Scores = dict[Key, Line]
_BY_EVIDENCE = "by evidence"


def _contestants(lines: list[Line]) -> dict[str, Scores]:
    """The lines of each, by fold; of the two noises also the one with the larger evidence of each fold."""
    found: dict[str, Scores] = {}
    for line in lines:
        if "problem" not in line:
            name = f"{line['method']}, {line['noise']}" if line["method"] in VARIANTS else line["method"]
            found.setdefault(name, {})[line["table"], line["seed"], line["fold"]] = line
    for variant in VARIANTS:
        both = [found.get(f"{variant}, {noise}", {}) for noise in NOISES]
        common = set(both[0]) & set(both[1])
        found[f"{variant}, {_BY_EVIDENCE}"] = {
            key: max((one[key] for one in both), key=lambda line: float(line["evidence"])) for key in common
        }
    noises = (*NOISES, _BY_EVIDENCE)
    order = [*(f"{v}, {n}" for n in noises for v in VARIANTS), "scikit-learn", *TREES]
    return {name: found[name] for name in order if found.get(name)}


def _grid(found: dict[str, Scores], score: str) -> list[str]:
    """Means over folds ± standard errors; a table that a contestant has not finished is left empty."""
    names = list(found)
    out = [f"| table | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for table in TABLES:
        cells = []
        for name in names:
            each = [float(line[score]) for key, line in found[name].items() if key[0] == table]
            error = np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
            few = f" ({len(each)})" if len(each) % FOLDS else ""
            cells.append(f"{np.mean(each):.3f}{_error(error, 3)}{few}".replace("-", "−") if each else "")
        out.append(f"| {table} | {' | '.join(cells)} |")
    return out


def _overall(found: dict[str, Scores]) -> list[str]:
    """Means of those that have all folds, so that they are judged by the same rows; differences over common folds."""
    common = set.union(*(set(scores) for scores in found.values()))
    unfinished = [name for name in found if set(found[name]) != common]
    every, found = found, {name: found[name] for name in found if name not in unfinished}
    tables = sorted({key[0] for key in common}, key=TABLES.index)

    def mean(name: str, score: str, table: str) -> float:
        return float(np.mean([found[name][key][score] for key in common if key[0] == table]))

    def best(score: str, order: Callable[[list[float]], int]) -> dict[str, int]:
        names = list(found)
        winners = [names[order([mean(name, score, table) for name in names])] for table in tables]
        return {name: winners.count(name) for name in names}

    by_density, by_crps = best("density", lambda v: int(np.argmax(v))), best("crps", lambda v: int(np.argmin(v)))
    out = [
        f"Means over {len(tables)} tables ({len(common)} folds){_unfinished(unfinished)}.\n",
        "| model | log density | best on | CRPS | best on | seconds per fit |",
        "|---|---|---|---|---|---|",
    ]
    for name in found:
        density, crps, seconds = (
            float(np.mean([mean(name, score, table) for table in tables])) for score in ("density", "crps", "seconds")
        )
        high = f"{density:.4f}".replace("-", "−")
        row = [name, high, str(by_density[name]), f"{crps:.4f}", str(by_crps[name]), f"{seconds:.1f}"]
        out.append(f"| {' | '.join(row)} |")
    ranked = sorted(found, key=lambda name: -float(np.mean([mean(name, "density", table) for table in tables])))
    by_crps_mean = sorted(found, key=lambda name: float(np.mean([mean(name, "crps", table) for table in tables])))
    out += ["", f"Best in mean log density: {ranked[0]}, then {ranked[1]}; in mean CRPS: {by_crps_mean[0]}, then "
            f"{by_crps_mean[1]}.", ""]  # fmt: skip
    pairs = [(f"{v}, {n}", f"default, {n}") for n in (*NOISES, _BY_EVIDENCE) for v in list(VARIANTS)[1:]]
    pairs += [(f"{v}, {_BY_EVIDENCE}", other) for v in VARIANTS for other in ("scikit-learn", *TREES)]
    out += ["| difference, paired by fold | log density | better on | CRPS | better on |", "|---|---|---|---|---|"]
    for one, other in pairs:
        if one in every and other in every:
            cells = [_paired(every[one], every[other], score) for score in ("density", "crps")]
            out.append(f"| {one} − {other} | {' | '.join(cells)} |")
    return out


def _error(value: float, digits: int) -> str:
    return f" ± {value:.{digits}f}" if np.isfinite(value) else ""


def _unfinished(names: list[str]) -> str:
    return f"; without models with missing folds: {', '.join(names)}" if names else ""


def _paired(one: Scores, other: Scores, score: str) -> str:
    """Mean over tables of the mean difference, with the standard error over folds within tables; tables won."""
    both = set(one) & set(other)
    tables = sorted({key[0] for key in both})
    gaps = [[one[k][score] - other[k][score] for k in both if k[0] == table] for table in tables]
    means = np.array([np.mean(g) for g in gaps])
    several = all(len(g) > 1 for g in gaps)
    error = np.sqrt(np.sum([np.var(g, ddof=1) / len(g) for g in gaps])) / len(gaps) if several else np.nan
    folds = "" if len(both) % FOLDS == 0 and several else f" ({len(both)} folds)"
    won = int(np.sum(means > 0 if score == "density" else means < 0))
    return f"{np.mean(means):+.4f}{_error(error, 4)}{folds} | {won} of {len(tables)}".replace("-", "−")


def write(lines: Path, out: Path) -> None:
    rows = stored(lines)
    found = _contestants(rows)
    seeds = sorted({line["seed"] for line in rows})
    failed = [
        f"{r['table']}, fold {r['fold']}, {r['method']} {r['noise']}: {r['problem']}" for r in rows if "problem" in r
    ]
    words = [
        "# Comparison of kernels, noise models and boosted trees for regression",
        "",
        "Made by `python studies/regression_kernels.py` (its first lines describe the scores and the density "
        f"of trees) and its `--table`. {FOLDS} folds, seeds {', '.join(map(str, seeds))}, at most {ROWS} "
        "rows per table, columns and y scaled by the training rows. neal, boston (undamaged) and stock come "
        "from the paper's registry; the other tables are loaded or made by scikit-learn, with noise in the "
        "Friedman tables, and 20 of 200 values moved by N(0, 20²) in the table with outliers. `by evidence` "
        "uses, in each fold, the noise with the larger EP evidence. scikit-learn is its "
        "GaussianProcessRegressor (constant · Matérn 5/2 + white noise, normalize_y, two restarts); trees "
        "have default settings. A number in brackets is the number of finished folds, if some are missing. "
        "Seconds are of one core.",
        "",
        "## Overall",
        "",
        *_overall(found),
        "",
        "## Mean log density per test row (higher is better)",
        "",
        *_grid(found, "density"),
        "",
        "## CRPS (lower is better)",
        "",
        *_grid(found, "crps"),
        "",
        *([f"Fits that failed: {'; '.join(failed)}.", ""] if failed else []),
    ]  # fmt: skip
    out.write_text("\n".join(words))
