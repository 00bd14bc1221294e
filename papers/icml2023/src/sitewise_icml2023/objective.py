"""Does the learning objective matter?  Differences of test log density between methods over all sets and seeds.

The folds of a set share their rows, and so do its repetitions: they are averaged within the set first, and sets are
the units.  Across sets: mean difference with its standard error, the standardised effect (mean/sd of the sets'
differences), Wilcoxon's signed-rank test, corrected over the pairs of methods by Holm.  Within a set: the corrected
resampled t-test (Nadeau & Bengio 2003) over its k = 50 folds, whose variance of the mean is not s²/k but

    s² (1/k + n_test/n_train)

as training sets overlap; corrected over the sets by Holm.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from sitewise_icml2023 import tables
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.protocols import FOLDS
from sitewise_icml2023.suites import FOUR

P = 0.05


class Pair(NamedTuple):
    """First minus second, per set: means, corrected p-values over folds, and the sets' names."""

    first: str
    second: str
    sets: tuple[str, ...]
    gaps: np.ndarray
    p: np.ndarray


def holm(p: np.ndarray) -> np.ndarray:
    """p-values corrected for their number by Holm's step-down rule."""
    order = np.argsort(p)
    steps = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    out = np.empty_like(p)
    out[order] = np.minimum(steps, 1.0)
    return out


def corrected_p(gaps: np.ndarray, test_share: float) -> float:
    """Two-sided p-value of the corrected resampled t-test; `test_share` is n_test/n_train."""
    spread = float(gaps.var(ddof=1))
    if spread == 0.0:
        return float(gaps[0] == 0.0)
    t = gaps.mean() / np.sqrt(spread * (1 / len(gaps) + test_share))
    return float(2 * stats.t.sf(abs(t), len(gaps) - 1))


def pairs(
    stored: Stored, protocol: str, seeds: Sequence[int], sets: Sequence[str], methods: Sequence[str]
) -> list[Pair]:
    """Every pair of methods on the sets that have all folds of both."""
    out = []
    for first, second in itertools.combinations(methods, 2):
        names, gaps, p = [], [], []
        for name in sets:
            both = [stored.values(name, m, "test_loglik", seeds, protocol) for m in (first, second)]
            if both[0] is None or both[1] is None:
                continue
            names.append(name)
            gaps.append(float((both[0] - both[1]).mean()))
            p.append(corrected_p(both[0] - both[1], 1 / (FOLDS - 1)))
        if names:
            out.append(Pair(first, second, tuple(names), np.array(gaps), holm(np.array(p))))
    return out


def markdown(
    stored: Stored, protocols: Sequence[str], seeds: Sequence[int], sets: Sequence[str], methods: Sequence[str] = FOUR
) -> str:
    out = [
        "# Does the learning objective matter?",
        "",
        "Made by `sitewise reproduce objective --protocol published,clean --out results/icml2023` from stored rows. "
        "Differences of mean test log density per row, first minus second method, 50 folds (ten seeds) averaged within "
        "each set; sets are the units. *Effect*: mean of the sets' differences over their standard deviation. *p*: "
        "Wilcoxon signed rank over sets, Holm over the pairs. *Better, worse*: sets where the first method is ahead or "
        "behind by the corrected resampled t-test (Nadeau & Bengio) over its folds, Holm over sets, at 0.05. EP is "
        "converged at every θ.",
        "",
    ]  # fmt: skip
    for protocol in protocols:
        found = pairs(stored, protocol, seeds, sets, methods)
        if found:
            out += [*_summary(protocol, found), *_answer(found), *_by_set(found)]
        else:
            out += [f"## Protocol `{protocol}`", "", "Not run.", ""]
    return "\n".join(out)


def _answer(found: Sequence[Pair]) -> list[str]:
    """Return the conclusion in two sentences."""
    apart = [f"{pair.first}/{pair.second}" for pair, p in zip(found, _over_sets(found), strict=True) if p < P]
    moved = {name for pair in found for name, p in zip(pair.sets, pair.p, strict=True) if p < P}
    sets = {name for pair in found for name in pair.sets}
    small = [float(np.max(np.abs(g))) for pair in found if (g := pair.gaps[[n not in moved for n in pair.sets]]).size]
    return [
        f"Over sets {'no pair differs' if not apart else 'these pairs differ: ' + ', '.join(apart)} (p < {P}). On "
        f"{len(moved)} of {len(sets)} sets at least one pair does: {', '.join(sorted(moved)) or 'none'}. On "
        "the others the "
        f"largest difference of any pair is {max(small, default=0.0):.3f}.",
        "",
    ]


def _over_sets(found: Sequence[Pair]) -> np.ndarray:
    return holm(np.array([_wilcoxon(pair.gaps) for pair in found]))


def _summary(protocol: str, found: Sequence[Pair]) -> list[str]:
    out = [
        f"## Protocol `{protocol}`",
        "",
        "| pair | sets | mean difference ± s.e. | median | effect | ahead on | p | better | worse | largest |",
        "|---" * 10 + "|",
    ]
    for pair, p in zip(found, _over_sets(found), strict=True):
        gaps, k = pair.gaps, len(pair.gaps)
        se = gaps.std(ddof=1) / np.sqrt(k) if k > 1 else float("nan")
        sure = pair.p < P
        most = int(np.argmax(np.abs(gaps)))
        out.append(
            f"| {tables.label(pair.first)} − {tables.label(pair.second)} | {k} | {gaps.mean():+.4f} ± {se:.4f} "
            f"| {np.median(gaps):+.4f} | {gaps.mean() / gaps.std(ddof=1):+.2f} | {int(np.sum(gaps > 0))} | {p:.2g} "
            f"| {int(np.sum(sure & (gaps > 0)))} | {int(np.sum(sure & (gaps < 0)))} "
            f"| {gaps[most]:+.4f} ({pair.sets[most]}) |"
        )
    return [*out, ""]


def _by_set(found: Sequence[Pair]) -> list[str]:
    sets = list(dict.fromkeys(name for pair in found for name in pair.sets))
    heads = [f"{tables.label(pair.first)} − {tables.label(pair.second)}" for pair in found]
    out = ["Per set; * where the corrected t-test is below 0.05 after Holm:", "",
           "| set | " + " | ".join(heads) + " |", "|---" * (1 + len(heads)) + "|"]  # fmt: skip
    for name in sets:
        cells = []
        for pair in found:
            at = pair.sets.index(name) if name in pair.sets else None
            cells.append("" if at is None else f"{pair.gaps[at]:+.4f}" + ("*" if pair.p[at] < P else ""))
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*out, ""]


def _wilcoxon(gaps: np.ndarray) -> float:
    return float(stats.wilcoxon(gaps).pvalue) if np.any(gaps != 0) else 1.0
