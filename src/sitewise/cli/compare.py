"""L4. `sitewise compare`: the methods side by side on one table, with one recommendation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sitewise.cli import options
from sitewise.cli.process import (
    Problem,
    check_writable,
    ends_in_a_sentence,
    note,
    own_process,
    print_json,
    save_or_exit,
)

METHODS = ("laplace", "ep", "vi", "hybrid")


@ends_in_a_sentence
def compare(
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report (HTML) goes.")] = Path("out/compare.html"),
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas; mcmc on request.")] = ",".join(
        METHODS
    ),
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    likelihood: options.Likelihood = "auto",
    drop: options.Drop = None,
    impute: options.Impute = False,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
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
    from sitewise.cli.journal import Journal, key_of
    from sitewise.cli.loading import load
    from sitewise.report import comparison_report

    names = chosen(methods)
    if "mcmc" in names and inducing is not None:
        raise Problem("mcmc samples the full GP: leave it out of --methods, or use --max-rows instead of --inducing.")
    check_writable(out)
    loaded = load(
        data, target, likelihood=likelihood, drop=drop, impute=impute, missing=missing, decimal=decimal,
        max_rows=max_rows, seed=seed, inducing=inducing,
    )  # fmt: skip
    approximate = [name for name in names if name != "mcmc"]
    if loaded.encoding.likelihood == "gaussian" and inducing is None and len(approximate) > 1:
        sentence = (
            "with Gaussian noise all approximations are exact and equal, so only one is run; --likelihood student_t is "
            "robust to outliers, and there they differ."
        )
        note(sentence)
        loaded.notes.append(sentence)
        names = ["hybrid", *names[len(approximate) :]]
    if loaded.encoding.likelihood == "laplace_noise" and "laplace" in names and len(names) > 1:
        note("Laplace's method needs a likelihood with curvature, which laplace_noise has not: it is left out.")
        names.remove("laplace")
    own_process()
    sampling = {"draws": draws, "warmup": warmup, "chains": chains}
    settings = {"ard": ard, "seed": seed, "n_inducing": inducing}
    journal = Journal(
        out,
        key_of(__version__, loaded.digest(), loaded.encoding.to_plain(), folds, *settings.values(), *sampling.values()),
    )
    result = run(loaded, names, folds, settings, sampling, journal)
    save_or_exit(out, comparison_report(result).encode())
    journal.done()
    if as_json:
        print_json(result)
    else:
        show(result)


def chosen(methods: str) -> list[str]:
    """In the order given, mcmc last: the quick ones are there first."""
    from sitewise.comparison import NAMES

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    wrong = [name for name in names if name not in NAMES]
    if wrong or not names:
        raise Problem(f"--methods takes {', '.join(NAMES)}, separated by commas; got {methods!r}.")
    return sorted(names, key=lambda name: name == "mcmc")


def run(
    loaded: Any, names: list[str], folds: int, settings: dict[str, Any], sampling: dict[str, int], journal: Any
) -> dict[str, Any]:
    """Every method on every fold, then the best one on all rows; finished fits are kept in the journal."""
    from sitewise.cli.fit import describe, fit_with_progress
    from sitewise.cli.progress import bar
    from sitewise.comparison import BASELINE, LABELS, baseline, estimator, score, split, summary

    table, encoding, y = loaded.table, loaded.encoding, loaded.y

    def made(name: str, inputs: int) -> Any:
        own = sampling if name == "mcmc" else None
        return estimator(name, encoding.likelihood, inputs, **settings, sampling=own)

    parts = split(y, folds, settings["seed"], encoding.classifies or encoding.likelihood == "ordinal")
    pieces = [(name, k) for k in range(folds) for name in names]
    finished = [f"{name} {k}" in journal.pieces for name, k in pieces]
    scores: dict[str, list] = {name: [] for name in names}
    try:
        with bar("comparing", len(pieces), sum(finished)) as progress:
            for (name, k), done in zip(pieces, finished, strict=True):
                train, test = parts[k]
                if not done:
                    progress.say(f"{LABELS[name]}, fold {k + 1} of {folds}")
                    here = encoding.learn(table.take(train))
                    X, X_test = here.inputs(table.take(train)), here.inputs(table.take(test))
                    journal.add(f"{name} {k}", score(made(name, X.shape[1]), X, y[train], X_test, y[test]))
                    progress.advance()
                scores[name].append(journal.pieces[f"{name} {k}"])
        scores[BASELINE] = [baseline(encoding.likelihood, y[train], y[test]) for train, test in parts]
        found = summary(scores, y, parts)
        for outlier in found["outliers"]:
            outlier["row"] = int(table.lines[outlier.pop("index")])
        best = made(found["best"], len(encoding.features))
        fit_with_progress(best, loaded.X, y, f"fitting {LABELS[found['best']]} to all rows")
    except KeyboardInterrupt:
        raise journal.interrupted(len(pieces)) from None
    return {
        "command": "compare", "data": loaded.facts(), "folds": folds, **settings, **found,
        "fit": describe(best, loaded),
    }  # fmt: skip


def show(result: dict[str, Any]) -> None:
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
