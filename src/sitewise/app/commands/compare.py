"""`sitewise compare`: compare Gaussian processes with a linear model and boosted trees; write a report."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sitewise.app import options
from sitewise.app.input import side_columns
from sitewise.app.input.advice import command_line
from sitewise.app.process import (
    check_writable,
    ends_in_a_sentence,
    note,
    noted,
    own_process,
    print_json,
    save,
)
from sitewise.errors import UserError
from sitewise.inference import Laplace
from sitewise.likelihoods import BY_NAME
from sitewise.methods import DEFAULT, METHODS

if TYPE_CHECKING:
    from sitewise.app.compare.cross_validation import Plan
    from sitewise.app.input.load_table import Loaded
    from sitewise.process.journal import Journal


@ends_in_a_sentence
def compare(
    context: typer.Context,
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file (HTML).")] = Path("out/compare.html"),
    methods: Annotated[
        str | None,
        typer.Option(
            help=f"Gaussian processes to compare, separated by commas: {', '.join(METHODS)}. Default: {DEFAULT}.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Cross-validation folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions of the cross-validation, with other folds.")] = 1,
    likelihood: options.Likelihood = options.AUTO,
    drop: options.Drop = None,
    use: options.Use = None,
    categorical: options.Categorical = None,
    impute: options.Impute = False,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    dayfirst: options.DayFirst = None,
    skip_missing_target: options.SkipMissingTarget = False,
    exposure: side_columns.Exposure = None,
    trials: side_columns.Trials = None,
    lower: side_columns.Lower = None,
    upper: side_columns.Upper = None,
    event: side_columns.Event = None,
    until: side_columns.Until = None,
    noise: side_columns.Noise = None,
    order: side_columns.Order = None,
    positive: Annotated[
        str | None,
        typer.Option(
            help="Class to which thresholds, AUC and effects refer; default: the rarer of two classes.",
            show_default=False,
        ),
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Compare with a linear model and boosted trees of scikit-learn.")
    ] = True,
    kernel: options.Kernel = options.DEFAULT_KERNEL,
    varying: options.Varying = None,
    groups: options.Groups = None,
    inducing: options.Inducing = None,
    max_rows: options.MaxRows = None,
    draws: options.Draws = 250,
    warmup: options.Warmup = 25,
    chains: options.Chains = 4,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Compare the default GP with a linear model and boosted trees by cross-validation.

    Prints scores and a recommendation, and writes a report.  --methods laplace,ep,vi,hybrid compares approximations.

    Example: sitewise compare data.csv --target diagnosis --positive malignant
    """
    from sitewise import __version__
    from sitewise.app.compare.baselines import LABELS as BASELINES
    from sitewise.app.compare.baselines import task_of
    from sitewise.app.compare.cross_validation import Plan
    from sitewise.app.input.load_table import load
    from sitewise.app.report import comparison_report
    from sitewise.app.report.page import date_and_versions
    from sitewise.process.journal import Journal, key_of

    began = time.monotonic()
    names = [DEFAULT] if methods is None else options.method_list(methods)
    samples = [name for name in names if METHODS[name].samples]
    if samples and inducing is not None:
        raise UserError(
            f"{samples[0]} samples the full GP: leave it out of --methods, or use --max-rows instead of --inducing."
        )
    named = options.kernel_name(kernel, groups, inducing, names)
    check_writable(out)
    side = side_columns.named(
        exposure=exposure, trials=trials, lower=lower, upper=upper, event=event, until=until, noise=noise
    )
    asked = side_columns.likelihood_for(likelihood, side, order)
    loaded = load(
        data, target, likelihood=asked, side=side, drop=drop, use=use, categorical=categorical, impute=impute,
        missing=missing, decimal=decimal, dayfirst=dayfirst, skip_missing_target=skip_missing_target, context=context,
        max_rows=max_rows, seed=seed, inducing=inducing, groups=groups,
    )  # fmt: skip
    own = side_columns.settings(loaded.table, loaded.encoding, order)
    own |= options.varying_parameter(varying, loaded.encoding.likelihood)
    names = _distinct(names, loaded, exact=inducing is None and varying is None)
    chosen = _positive(positive, loaded)
    others = list(BASELINES) if baselines else []
    if baselines and task_of(loaded.encoding.likelihood, loaded.side) is None:
        noted("scikit-learn has no baseline for censored values, so that none is compared.", loaded.notes)
        others = []
    own_process()
    if loaded.encoding.groups and others:
        noted(f"the baselines do not use {groups!r}: test groups do not occur in a training set.", loaded.notes)
    settings = {"kernel": named, "groups": loaded.encoding.groups, "inducing": inducing, "seed": seed, **own}
    sampling = {"draws": draws, "warmup": warmup, "chains": chains}
    plan = Plan(names, others, folds, repeats, settings, sampling)
    journal = Journal.beside(
        out,
        key_of(__version__, loaded.digest(), loaded.encoding.to_plain(), folds, settings, plan.sampling),
    )
    result = run(loaded, plan, journal, chosen)
    result["made"] = {**date_and_versions(), "seconds": time.monotonic() - began, "typed": command_line(context)({})}
    save(out, comparison_report(result).encode())
    journal.done()
    if as_json:
        print_json(result)
    else:
        show(result)


def _distinct(names: list[str], loaded: Loaded, exact: bool) -> list[str]:
    """Return the methods that give different results and that the likelihood allows.

    `exact` says that a conjugate likelihood makes all approximations equal: a full GP of one latent function.
    """
    kind = BY_NAME[loaded.encoding.likelihood]
    samples = [name for name in names if METHODS[name].samples]
    if kind.conjugate and exact and len(names) - len(samples) > 1:
        robust = " or ".join(name for name, other in BY_NAME.items() if other.robust)
        noted(
            f"with {kind.name} noise all approximations are exact and equal, so only one is run; --likelihood {robust} "
            "is robust to outliers, and there they differ.",
            loaded.notes,
        )
        names = [DEFAULT, *samples]
    laplace = [name for name in names if (pair := METHODS[name].pair) and isinstance(pair.inference, Laplace)]
    if not kind.curved and laplace and len(names) > 1:
        note(f"Laplace's method needs a likelihood with curvature, which {kind.name} does not have; it is left out.")
        names = [name for name in names if name not in laplace]
    return names


def _positive(asked: str | None, loaded: Loaded) -> str | None:
    """Return the class to which decisions refer: the class asked for, or the rarer of two."""
    if not loaded.encoding.classifies:
        if asked is not None:
            raise UserError(f"--positive names a class, but the target {loaded.encoding.target!r} holds values.")
        return None
    classes, counts = np.unique(loaded.y, return_counts=True)
    if asked is not None and asked not in classes:
        raise UserError(f"--positive must be one of the classes {', '.join(map(repr, map(str, classes)))}.")
    if asked is not None or len(classes) != 2:
        return asked
    chosen, other = (0, 1) if counts[0] < counts[1] else (1, 0)
    name = str(classes[chosen])
    why = "the last in order"
    if counts[0] != counts[1]:
        why = f"the rarer class ({counts[chosen]} of {counts.sum()} rows)"
    noted(
        f"AUC, calibration, thresholds and effects refer to the class {name!r}, {why}; --positive "
        f"{shlex.quote(str(classes[other]))} chooses the other class.",
        loaded.notes,
    )
    return name


def run(loaded: Loaded, plan: Plan, journal: Journal, positive: str | None) -> dict[str, Any]:
    """Score all models, then fit the best Gaussian process to all rows and compute the effects of the columns."""
    from sitewise.app.compare.baselines import MODELS, task_of
    from sitewise.app.compare.comparison import LABELS, split, summary
    from sitewise.app.compare.cross_validation import made, scores_of
    from sitewise.app.compare.decisions import decisions
    from sitewise.app.compare.verdict import is_predictable, verdict
    from sitewise.app.fitting import describe, fit_with_progress
    from sitewise.app.report.explanation import explain
    from sitewise.process.progress import bar

    encoding, y = loaded.encoding, loaded.y
    classes = BY_NAME[encoding.likelihood].support in ("classes", "ranks")
    parts = split(y, plan.folds, plan.settings["seed"], classes, plan.repeats, _groups(loaded))
    scores = scores_of(loaded, plan, parts, journal)
    found = summary(scores, y, parts, plan.folds, positive) | {"positive": positive}
    for row in found["methods"]:
        if row["warning"]:
            noted(f"{row['name']}: {row['warning']}", loaded.notes)
    for outlier in found["outliers"]:
        outlier["row"] = int(loaded.table.lines[outlier.pop("index")])
    name = found["best_gp"]
    truth = y[np.concatenate([test for _, test in parts])]
    found |= decisions(scores[name], truth, positive, plan.repeats)
    best = made(name, loaded, plan)
    try:
        fit_with_progress(best, loaded.X, y, f"fitting {LABELS[name]} to all rows", **loaded.side)
        if is_predictable(found):
            with bar("effects of the columns", 1, pieces=False):
                found |= explain(best, encoding, loaded.X, positive)
                if found["varying"] is not None:
                    found["varying"]["parameter"] = plan.settings["varying"]
                    for row in found["varying"]["largest"]:
                        row["row"] = int(loaded.table.lines[row.pop("index")])
    except KeyboardInterrupt:
        raise journal.interrupted(len(journal.pieces)) from None
    task = task_of(encoding.likelihood, loaded.side)
    return {
        "command": "compare",
        "data": loaded.facts(),
        "folds": len(parts),
        "repeats": plan.repeats,
        **plan.settings,
        **found,
        "rivals": {name: MODELS[name][task] for name in scores if name in MODELS and task is not None},
        "verdict": verdict(found, len(parts), encoding.features[encoding.groups[0]] if encoding.groups else None),
        "fit": describe(best, loaded),
    }


def _groups(loaded: Loaded) -> np.ndarray | None:
    """Return the group of every row; None without groups."""
    columns = loaded.encoding.groups
    return loaded.X[:, columns[0]] if columns else None


def show(result: dict[str, Any]) -> None:
    """Print the table and the recommendation."""
    from rich.console import Console
    from rich.table import Table

    from sitewise.app.compare.score_table import cells, columns_of

    data = result["data"]
    title = f"{data['file']}: {data['rows']} rows, {result['folds']} folds, {data['likelihood']}"
    table = Table(title=title, box=None, pad_edge=False, header_style="bold underline")
    for column in columns_of(result):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for row in result["methods"]:
        table.add_row(*cells(row, result))
    console = Console()
    console.print(table)
    console.print(" ".join(result["verdict"]), soft_wrap=True)
