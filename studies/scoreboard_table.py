"""The page of scoreboard.py: results/scoreboard/README.md from its lines and the published scores."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from pooled import Line, stored

OUT = Path(__file__).resolve().parents[1] / "results" / "scoreboard"
PUBLISHED = OUT / "published-means.json"  # mean score per table and model, as published
MIN_ROWS = 75  # training rows of a table that counts in the means
LABELS = {"isotropic": 'GPClassifier("isotropic")', "shrunk": 'GPClassifier("shrunk")',
          "average": 'GPClassifier("average")'}  # fmt: skip
NAMES = {"tabfm": "TabFM", "tabicl": "TabICL", "tabpfn3": "TabPFN-3", "catboost": "CatBoost, tuned",
         "random_forest": "random forest, tuned", "svc": "SVC, tuned", "xgboost": "XGBoost, tuned",
         "lgbm": "LightGBM, tuned", "lgbm_linear": "LightGBM with linear leaves, tuned",
         "hgb": "HistGradientBoosting, tuned", "logreg": "logistic regression, tuned",
         "resnet": "ResNet, tuned"}  # fmt: skip

Scores = dict[str, dict[str, list[Line]]]  # model, table, lines of its folds


def write_page(small: Path | None = None) -> None:
    """Write README.md; with the folder of the small tables, store their published means first."""
    if small is not None:
        found = json.loads((small / "published.json").read_text())
        means = {
            table: {model: round(one["mean"], 6) for model, one in by.items() if one["mean"] is not None}
            for table, by in found.items()
        }
        PUBLISHED.write_text(json.dumps(means, indent=0, sort_keys=True) + "\n")
    paper, tables = stored(OUT / "paper.jsonl"), stored(OUT / "small.jsonl")
    out = [
        "# Scoreboard: the classifier compared with trees, forests and foundation models",
        "",
        "`python studies/scoreboard.py`, which describes tables, models and seconds. Log density is the mean test log "
        "density per row (higher is better), average precision that of the published scores. GPs, CatBoost, forest and "
        "logistic regression without *tuned* have default settings.",
        "",
        "Foundation models are ahead of every GP on small tables of independent rows, and trees on some tables of "
        "rules; the tables below say on which.",
        "",
        '`GPClassifier("average")` is the default, `GPClassifier()`, of tables with up to 2 000 rows times classes. '
        "All lines of GPs on the tables of the paper were measured in one run, the other models in an earlier run on a "
        "busier machine: compare CPU seconds among GPs only.",
    ]
    known = [line["seed"] for line in paper]
    for seeds in ([42], [seed for seed in dict.fromkeys(known) if seed != 42]):
        if seeds:
            out += _paper([line for line in paper if line["seed"] in seeds], seeds)
    out += _times(paper) + _calibration(paper)
    if tables and PUBLISHED.exists():
        out += _small(tables, json.loads(PUBLISHED.read_text()))
    (OUT / "README.md").write_text("\n".join(out).replace(" -0.", " −0.") + "\n")


def _by(lines: list[Line]) -> Scores:
    """Return the lines by model and table; a table counts if every model has all folds of it."""
    found: Scores = defaultdict(lambda: defaultdict(list))
    for line in lines:
        found[line["model"]][line["table"]].append(line)
    most = max(len(one) for by in found.values() for one in by.values())
    common = set.intersection(*({t for t, one in by.items() if len(one) == most} for by in found.values()))
    return {model: {t: by[t] for t in sorted(common)} for model, by in found.items()}


def _mean(lines: list[Line], key: str) -> float:
    return float(np.mean([line[key] for line in lines]))


def _seed_mean(of: dict[str, list[Line]], seed: int) -> float:
    return _mean([line for one in of.values() for line in one if line["seed"] == seed], "density")


def _label(model: str) -> str:
    return f"`{LABELS[model]}`" if model in LABELS else model


def _paper(lines: list[Line], seeds: list[int]) -> list[str]:
    by = _by([line for line in lines if line["rows"] >= MIN_ROWS])
    density = {model: np.array([_mean(one, "density") for one in of.values()]) for model, of in by.items()}
    names = list(next(iter(by.values())))
    said = "used for the design" if seeds == [42] else "not used to choose, seen by an earlier version once"
    out = [
        "", f"## {len(names)} tables of the paper, folds of seed {', '.join(map(str, seeds))} ({said})", "",
        "| | log density | accuracy | better than CatBoost | worst against isotropic | CPU s per fit |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for model, of in by.items():
        accuracy, seconds = (np.mean([_mean(one, key) for one in of.values()]) for key in ("accuracy", "seconds"))
        ahead = int(np.sum(density[model] > density["CatBoost"])) if "CatBoost" in density else 0
        worst = int(np.argmin(density[model] - density["isotropic"]))
        apart = f"{density[model][worst] - density['isotropic'][worst]:+.4f} ({names[worst]})"
        out.append(
            f"| {_label(model)} | {np.mean(density[model]):.4f} | {accuracy:.4f} | "
            f"{'' if model == 'CatBoost' else ahead} | {'' if model == 'isotropic' else apart} | {seconds:.2f} |"
        )
    if len(seeds) > 1:
        each = [
            f"{seed}: " + ", ".join(
                f"{_label(model)} {_seed_mean(by[model], seed):.4f}"
                for model in ("shrunk", "average", "CatBoost") if model in by
            )
            for seed in seeds
        ]  # fmt: skip
        out += ["", "By seed: " + "; ".join(each) + "."]
    out += ["", "| table | " + " | ".join(map(_label, by)) + " |", "|---" * (len(by) + 1) + "|"]
    for i, name in enumerate(names):
        out.append(f"| {name} | " + " | ".join(f"{density[model][i]:.4f}" for model in by) + " |")
    return out


def _times(lines: list[Line]) -> list[str]:
    by = _by(lines)
    ends = [0, 150, 300, 500, 800, 5000]
    out = [
        "", "## Time of the average", "", "Median over tables of CPU seconds per fit.", "",
        "| training rows | tables | shrunk | average | ratio | CatBoost |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for low, high in itertools.pairwise(ends):
        names = [t for t, one in by["shrunk"].items() if low <= one[0]["rows"] < high]
        if names:
            one, many = (np.array([_mean(by[m][t], "seconds") for t in names]) for m in ("shrunk", "average"))
            cat = f"{np.median([_mean(by['CatBoost'][t], 'seconds') for t in names]):.2f}" if "CatBoost" in by else ""
            out.append(
                f"| {low} to {high} | {len(names)} | {np.median(one):.2f} | {np.median(many):.2f} | "
                f"{np.median(many / one):.1f} | {cat} |"
            )
    return out


def _calibration(lines: list[Line]) -> list[str]:
    by = _by([line for line in lines if line["rows"] >= MIN_ROWS])
    out = [
        "", "## Calibration", "",
        "Expected calibration error over ten bins, all held-out rows pooled and per table, and Spiegelhalter's z "
        "(standard normal for calibrated probabilities if rows were independent; negative: under-confident). Rows are "
        "predicted once per seed, so that z is larger than for one seed.", "",
        "| | ECE, pooled | mean ECE per table | z, first seed | z by table: share beyond ±1.96 |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    first = lines[0]["seed"]
    for model, of in by.items():
        pooled = np.sum([line["bins"] for one in of.values() for line in one], axis=0)
        each = [_ece(np.sum([line["bins"] for line in one], axis=0)) for one in of.values()]
        z = [np.sum([line["z"] for line in one if line["seed"] == first], axis=0) for one in of.values()]
        total = np.sum(z, axis=0)
        beyond = np.mean([abs(a) / np.sqrt(b) > 1.96 for a, b in z])
        out.append(
            f"| {_label(model)} | {_ece(pooled):.4f} | {np.mean(each):.4f} | {total[0] / np.sqrt(total[1]):+.1f} | "
            f"{beyond:.0%} |"
        )
    return out


def _ece(bins: np.ndarray) -> float:
    return float(np.sum(np.abs(bins[1] - bins[2])) / np.sum(bins[0]))


def _small(lines: list[Line], published: dict[str, dict[str, float]]) -> list[str]:
    by = _by(lines)
    names = list(next(iter(by.values())))
    scores = {m: np.array([_mean(by[m][t], "precision") for t in names]) for m in by}
    theirs = {m: np.array([published[t][m] for t in names]) for m in NAMES if all(m in published[t] for t in names)}
    # Ranks count one of our kernels at a time, so that they do not displace one another.
    ranks = {m: np.mean([np.mean(_ranks({**theirs, m: scores[m]}, m))]) for m in scores}
    ranks |= {m: float(np.mean(_ranks({**theirs, "average": scores["average"]}, m))) for m in theirs}
    missing = sorted(set(published) - set(names))
    out = [
        "", f"## {len(names)} small tables with published scores", "",
        "Weighted average precision of four folds; mean and mean rank among the published models (their scores, cited "
        "from SmallDataBenchmarks). Log density and seconds are of this run." +
        (f" Not run: {', '.join(missing)}." if missing else ""), "",
        "| | average precision | mean rank | log density | CPU s per fit |", "|---|---|---|---|---|",
    ]  # fmt: skip
    order = sorted({**theirs, **scores}.items(), key=lambda item: -float(np.mean(item[1])))
    for model, values in order:
        own = model in scores
        density = f"{np.mean([_mean(by[model][t], 'density') for t in names]):.4f}" if own else ""
        seconds = f"{np.mean([_mean(by[model][t], 'seconds') for t in names]):.1f}" if own else ""
        label = _label(model) if own else NAMES[model]
        out.append(f"| {label} | {np.mean(values):.4f} | {ranks[model]:.1f} | {density} | {seconds} |")
    gap = scores["average"] - theirs["tabpfn3"]
    trees = scores["average"] - np.max([theirs[m] for m in ("catboost", "xgboost", "random_forest", "lgbm")], axis=0)
    out += [
        "", "Where the average loses most to TabPFN-3: " + _worst(names, gap)
        + "; to the best of the tuned tree models: " + _worst(names, trees) + ".",
    ]  # fmt: skip
    heads = ("table", "average", "shrunk", "CatBoost, tuned", "TabPFN-3", "average, log density", "shrunk, log density")
    out += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for i, name in enumerate(names):
        density = " | ".join(f"{_mean(by[m][name], 'density'):.4f}" for m in ("average", "shrunk"))
        out.append(
            f"| {name} | {scores['average'][i]:.4f} | {scores['shrunk'][i]:.4f} | {theirs['catboost'][i]:.4f} | "
            f"{theirs['tabpfn3'][i]:.4f} | {density} |"
        )
    return out


def _ranks(values: dict[str, np.ndarray], model: str) -> np.ndarray:
    place = list(values).index(model)
    return rankdata(-np.array(list(values.values())), axis=0)[place]


def _worst(names: list[str], gap: np.ndarray, count: int = 4) -> str:
    return ", ".join(f"{names[i]} {gap[i]:+.3f}" for i in np.argsort(gap)[:count])
