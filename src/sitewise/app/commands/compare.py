"""`sitewise compare`: the methods compared on one table, with one recommendation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sitewise.app import options, side_columns
from sitewise.app.process import (
    check_writable,
    ends_in_a_sentence,
    note,
    own_process,
    print_json,
    save,
)
from sitewise.errors import UserError
from sitewise.inference import Laplace
from sitewise.likelihoods import BY_NAME
from sitewise.methods import DEFAULT, METHODS

if TYPE_CHECKING:
    from sitewise.app.loading import Loaded
    from sitewise.estimators.base import GPBase
    from sitewise.runtime.resume import Journal


@ends_in_a_sentence
def compare(
    context: typer.Context,
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report (HTML) goes.")] = Path("out/compare.html"),
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas; mcmc on request.")] = ",".join(
        options.COMPARED
    ),
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of the cross-validation, each with other folds.")] = 1,
    likelihood: options.Likelihood = options.AUTO,
    drop: options.Drop = None,
    use: options.Use = None,
    impute: options.Impute = False,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    dayfirst: options.DayFirst = None,
    skip_missing_target: options.SkipMissingTarget = False,
    exposure: side_columns.Exposure = None,
    trials: side_columns.Trials = None,
    lower: side_columns.Lower = None,
    upper: side_columns.Upper = None,
    noise: side_columns.Noise = None,
    order: side_columns.Order = None,
    ard: options.Ard = False,
    inducing: options.Inducing = None,
    max_rows: options.MaxRows = None,
    draws: options.Draws = 1000,
    warmup: options.Warmup = 200,
    chains: options.Chains = 4,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Compare the methods on a table by cross-validation, and recommend one.

    Example: sitewise compare data.csv --target diagnosis
    """
    from sitewise import __version__
    from sitewise.app.loading import load
    from sitewise.app.report import comparison_report
    from sitewise.runtime.resume import Journal, key_of

    names = options.method_list(methods)
    samples = [name for name in names if METHODS[name].samples]
    if samples and inducing is not None:
        raise UserError(
            f"{samples[0]} samples the full GP: leave it out of --methods, or use --max-rows instead of --inducing."
        )
    check_writable(out)
    side = side_columns.named(exposure=exposure, trials=trials, lower=lower, upper=upper, noise=noise)
    asked = side_columns.likelihood_for(likelihood, side, order)
    loaded = load(
        data, target, likelihood=asked, side=side, drop=drop, use=use, impute=impute, missing=missing,
        decimal=decimal, dayfirst=dayfirst, skip_missing_target=skip_missing_target, context=context,
        max_rows=max_rows, seed=seed, inducing=inducing,
    )  # fmt: skip
    own = side_columns.settings(loaded.table, loaded.encoding, order)
    kind = BY_NAME[loaded.encoding.likelihood]
    if kind.conjugate and inducing is None and len(names) - len(samples) > 1:
        robust = " or ".join(name for name, other in BY_NAME.items() if other.robust)
        sentence = (
            f"with {kind.name} noise all approximations are exact and equal, so only one is run; --likelihood {robust} "
            "is robust to outliers, and there they differ."
        )
        note(sentence)
        loaded.notes.append(sentence)
        names = [DEFAULT, *samples]
    laplace = [name for name in names if (pair := METHODS[name].pair) and isinstance(pair.inference, Laplace)]
    if not kind.curved and laplace and len(names) > 1:
        note(f"Laplace's method needs a likelihood with curvature, which {kind.name} does not have; it is left out.")
        names = [name for name in names if name not in laplace]
    own_process()
    settings = {"ard": ard, "seed": seed, "n_inducing": inducing, **own}
    plan = Plan(names, folds, repeats, settings, {"draws": draws, "warmup": warmup, "chains": chains})
    journal = Journal.beside(
        out,
        key_of(__version__, loaded.digest(), loaded.encoding.to_plain(), folds, settings, plan.sampling),
    )
    result = run(loaded, plan, journal)
    save(out, comparison_report(result).encode())
    journal.done()
    if as_json:
        print_json(result)
    else:
        show(result)


class Plan(NamedTuple):
    """Which methods are compared, and how; `sampling` is for those that sample."""

    methods: list[str]
    folds: int
    repeats: int
    settings: dict[str, Any]
    sampling: dict[str, int]


def run(loaded: Loaded, plan: Plan, journal: Journal) -> dict[str, Any]:
    """Every method on every fold, then the best one on all rows; finished fits are kept in the journal."""
    from sitewise.app.comparison import BASELINE, LABELS, baseline, score, split, summary
    from sitewise.app.fitting import describe, estimator, fit_with_progress
    from sitewise.runtime.progress import bar

    table, encoding, y, side = loaded.table, loaded.encoding, loaded.y, loaded.side

    def made(name: str, inputs: int) -> GPBase:
        own = plan.sampling if METHODS[name].samples else None
        return estimator(name, encoding.likelihood, inputs, **plan.settings, sampling=own)

    stratified = BY_NAME[encoding.likelihood].support in ("classes", "ranks")
    parts = split(y, plan.folds, plan.settings["seed"], stratified, plan.repeats)
    pieces = [(name, k) for k in range(len(parts)) for name in plan.methods]
    finished = [f"{name} {k}" in journal.pieces for name, k in pieces]
    scores: dict[str, list[dict[str, Any]]] = {name: [] for name in plan.methods}
    try:
        with bar("comparing", len(pieces), sum(finished)) as progress:
            for (name, k), done in zip(pieces, finished, strict=True):
                train, test = parts[k]
                if not done:
                    progress.say(f"{LABELS[name]}, fold {k + 1} of {len(parts)}")
                    here = encoding.learn(table.take(train))
                    X, X_test = here.inputs(table.take(train)), here.inputs(table.take(test))
                    sides = [{key: column[rows] for key, column in side.items()} for rows in (train, test)]
                    journal.add(f"{name} {k}", score(made(name, X.shape[1]), X, y[train], X_test, y[test], *sides))
                    progress.advance()
                scores[name].append(journal.pieces[f"{name} {k}"])
        scores[BASELINE] = [
            baseline(encoding.likelihood, y[train], y[test], *({k: v[r] for k, v in side.items()} for r in part))
            for part in parts
            for train, test in [part]
        ]
        found = summary(scores, y, parts, plan.folds)
        for outlier in found["outliers"]:
            outlier["row"] = int(table.lines[outlier.pop("index")])
        best = made(found["best"], len(encoding.features))
        fit_with_progress(best, loaded.X, y, f"fitting {LABELS[found['best']]} to all rows", **side)
    except KeyboardInterrupt:
        raise journal.interrupted(len(pieces)) from None
    return {
        "command": "compare",
        "data": loaded.facts(),
        "folds": len(parts),
        "repeats": plan.repeats,
        **plan.settings,
        **found,
        "fit": describe(best, loaded),
    }


def show(result: dict[str, Any]) -> None:
    """Print the table and the recommendation."""
    from rich.console import Console
    from rich.table import Table

    accuracy = "accuracy" if "accuracy" in result["methods"][0] else "rmse"
    data = result["data"]
    table = Table(title=f"{data['file']}: {data['rows']} rows, {result['folds']} folds, {data['likelihood']}")
    for column in ("method", "log density", "p", accuracy, "calibration", "evidence", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in result["methods"]:
        table.add_row(
            row["name"] + ("" if row["converged"] == result["folds"] else " (!)"),
            f"{row['log_density']:.4f}",
            "best" if row["p_value"] is None else f"{row['p_value']:.2g}",
            f"{row[accuracy]:.4g}",
            f"{row['calibration_error']:.3f}",
            "" if row["evidence_per_row"] is None else f"{row['evidence_per_row']:.4f}",
            f"{row['seconds']:.1f}",
        )
    console = Console()
    console.print(table)
    console.print(result["recommendation"], soft_wrap=True)
