"""Make README.md and means.csv of default_kernel.py from the stored fits and the baselines."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

SMALL = ("trains", "balloons")  # fewer than 75 training rows
RIVALS = ("CatBoost", "HistGradientBoosting", "random forest", "logistic")
AVERAGED = ("iso", "shrunk 0.5", "shrunk 1", "additive")
Fold = tuple[str, int, int]
Scores = tuple[float, float]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file, or of its compressed copy, which is the one that is kept."""
    return (path.read_text() if path.exists() else gzip.open(f"{path}.gz", "rt").read()).splitlines()


class Results:
    """Every fit by (set, seed, fold, method, kernel, integrated)."""

    def __init__(self, rows: Path, rivals: Path) -> None:
        self.fits, self.rivals, self.problems = {}, {}, []
        for line in lines_of(rows):
            row = json.loads(line)
            key = tuple(row[k] for k in ("set", "seed", "fold", "method", "kernel", "integrated"))
            if "problem" in row:
                self.problems.append((key, row["problem"]))
            else:
                self.fits[key] = row
        for line in lines_of(rivals):
            row = json.loads(line)
            if "loglik" in row:
                self.rivals[row["set"], row["seed"], row["fold"], row["rival"]] = (row["loglik"], row["accuracy"])

    def one(self, fold: Fold, method: str, kernel: str, integrated: bool) -> Scores:
        row = self.fits.get((*fold, method, kernel, integrated))
        return (np.nan, np.nan) if row is None else _scores([1.0], [row])

    def average(self, fold: Fold, method: str, kernels: Sequence[str], trust: float) -> Scores:
        """Weights as in estimators/averaging.py."""
        rows = [self.fits.get((*fold, method, kernel, True)) for kernel in kernels]
        if any(row is None for row in rows):
            return np.nan, np.nan
        logs = trust * np.array([row["log_evidence"] for row in rows if row is not None])
        return _scores(np.exp(logs - logsumexp(logs)), rows)


def _scores(weight: Sequence[float] | np.ndarray, rows: Sequence) -> Scores:
    density = logsumexp([np.log(w) + np.array(row["density"]) for w, row in zip(weight, rows, strict=True)], axis=0)
    probability = sum(w * np.array(row["probability"]) for w, row in zip(weight, rows, strict=True))
    return float(np.mean(density)), float(np.mean((probability > 0.5) == np.array(rows[0]["right"], bool)))


def columns(results: Results, first: bool) -> dict[str, Callable[[Fold], Scores]]:
    """What is compared; on the seeds of confirmation only what the design on seed 42 kept."""

    def one(kernel: str, integrated: bool, method: str = "hybrid") -> Callable[[Fold], Scores]:
        return lambda fold: results.one(fold, method, kernel, integrated)

    def average(trust: float, kernels: Sequence[str] = AVERAGED, method: str = "hybrid") -> Callable[[Fold], Scores]:
        return lambda fold: results.average(fold, method, kernels, trust)

    found = {
        "iso": one("iso", False),
        "shrunk 0.25": one("shrunk 0.25", False),
        "shrunk 0.5": one("shrunk 0.5", False),
        "iso, integrated": one("iso", True),
        "shrunk 0.25, integrated": one("shrunk 0.25", True),
        "shrunk 0.5, integrated": one("shrunk 0.5", True),
        "shrunk 1, integrated": one("shrunk 1", True),
        "additive, integrated": one("additive", True),
        "categories, integrated": one("categories", True),
        "average over the spread": average(1.0, AVERAGED[:3]),
        "average, trust 1": average(1.0),
        "average, trust 0.5": average(0.5),
        "average (trust 0.25)": average(0.25),
        "average, equal weights": average(0.0),
        "average with categories": average(0.25, (*AVERAGED, "categories")),
        "EP: iso": one("iso", False, "ep"),
        "EP: average": average(0.25, method="ep"),
    }
    if not first:
        for name in ("shrunk 0.25, integrated", "categories, integrated", "average with categories"):
            found.pop(name)
    for rival in RIVALS:
        found[rival] = lambda fold, rival=rival: results.rivals.get((*fold, rival), (np.nan, np.nan))
    return found


def write(rows: Path, folder: Path) -> None:
    results = Results(rows, folder / "rivals.jsonl")
    sets = list(dict.fromkeys(key[0] for key in results.fits))
    lines = ["# Comparison of kernels and boosted trees on 27 classification tables", "", _HEAD, ""]
    means = ["seeds,set,contestant,loglik,accuracy"]
    for title, seeds in (("Seed 42 (design)", (42,)), ("Seeds 1, 2, 3 (confirmation)", (1, 2, 3))):
        wanted = columns(results, seeds == (42,))
        table = {}
        for name in sets:
            folds = [(name, seed, fold) for seed in seeds for fold in range(5)]
            table[name] = {c: np.mean([score(f) for f in folds], axis=0) for c, score in wanted.items()}
            for c, (loglik, accuracy) in table[name].items():
                if np.isfinite(loglik):
                    means.append(f"{'+'.join(map(str, seeds))},{name},{c},{loglik:.5f},{accuracy:.5f}")
        lines += [f"## {title}", "", *_summary(table, list(wanted)), "", *_by_set(table), ""]
    lines += ["## Cost", "", *_cost(results), "", "## Problems", ""]
    lines += [f"- {' '.join(map(str, key))}: {why}" for key, why in results.problems] or ["None."]
    (folder / "README.md").write_text("\n".join(lines) + "\n")
    (folder / "means.csv").write_text("\n".join(means) + "\n")
    if rows.exists():  # else the compressed copy was read, and stays
        _keep(rows)


def _keep(rows: Path) -> None:
    """The lines compressed, densities and probabilities with four digits."""
    with gzip.GzipFile(f"{rows}.gz", "wb", mtime=0) as file:
        for line in lines_of(rows):
            row = json.loads(line)
            short = {k: np.round(row[k], 4).tolist() for k in ("probability", "density") if k in row}
            file.write((json.dumps({**row, **short}) + "\n").encode())


def _summary(table: dict, wanted: list[str]) -> list[str]:
    """Means over the sets that every contestant of the main comparison has."""
    main = ("iso", "shrunk 0.25", "average (trust 0.25)", "CatBoost")
    whole = [s for s in table if s not in SMALL and all(np.isfinite(table[s][c][0]) for c in main)]
    out = [
        f"Over the {len(whole)} sets with at least 75 training rows that are complete.", "",
        "| | log density | accuracy | better than CatBoost | better than iso | worst against iso |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for c in wanted:
        values = np.array([table[s][c] for s in whole])
        if not np.isfinite(values).all():
            continue
        cat, iso = (np.array([table[s][other][0] for s in whole]) for other in ("CatBoost", "iso"))
        gain = values[:, 0] - iso
        out.append(
            f"| {c} | {values[:, 0].mean():.4f} | {values[:, 1].mean():.4f} | {np.sum(values[:, 0] > cat)} | "
            f"{np.sum(gain > 0)} | {gain.min():+.4f} |"
        )
    return out


def _by_set(table: dict) -> list[str]:
    shown = ("iso", "shrunk 0.25", "shrunk 0.5, integrated", "additive, integrated", "average (trust 0.25)", *RIVALS)
    out = ["| set | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for name, row in table.items():
        out.append(f"| {name} | " + " | ".join(f"{row[c][0]:.4f} / {row[c][1]:.3f}" for c in shown) + " |")
    return ["Log density / accuracy:", "", *out]


def _cost(results: Results) -> list[str]:
    by = defaultdict(list)
    for key, row in results.fits.items():
        by[key[3:]].append((row["seconds"], row.get("seconds_integral", np.nan), row.get("effective", np.nan)))
    out = ["| method, kernel | fits | seconds per fit | seconds per integral | ratio (median) | effective below 0.3 |"]
    out.append("|---|---|---|---|---|---|")
    for (method, kernel, integrated), rows in sorted(by.items()):
        fit, integral, effective = np.array(rows).T
        name = f"{method}, {kernel}{', integrated' if integrated else ''}"
        if not integrated:
            out.append(f"| {name} | {len(fit)} | {fit.mean():.2f} | | | |")
            continue
        ratio = np.median(integral / fit)
        low = np.mean(effective < 0.3)
        out.append(f"| {name} | {len(fit)} | {fit.mean():.2f} | {integral.mean():.2f} | {ratio:.2f} | {low:.1%} |")
    return out


_HEAD = """`python studies/default_kernel.py --jobs N`, `default_kernel_rivals.py` in an environment with CatBoost, then
`--table`. 27 tables of two classes, clean protocol, five folds per seed, the same rows for all methods.
*iso* is one Matérn-5/2 lengthscale at the greatest evidence (hybrid); *shrunk τ* has ℓ_j = ℓ exp(τ z_j) with
z_j ~ N(0, 1) at its mode; *integrated* averages over the hyperparameters; *additive* has main effects and pairs;
*categories* encodes columns of three to eight values as categories (0/1 columns); *average* weights iso, shrunk 0.5,
shrunk 1 and additive by their integrated evidences to the power `trust`. The power, the priors and the spread were
chosen on seed 42. CPU seconds were measured while 15 other processes ran."""
