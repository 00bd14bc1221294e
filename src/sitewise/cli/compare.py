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
    warnings_as_notes,
)

METHODS = ("laplace", "ep", "vi", "hybrid")


@ends_in_a_sentence
def compare(
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the report (HTML) goes.")] = Path("out/compare.html"),
    methods: Annotated[str, typer.Option(help="Methods to compare, separated by commas.")] = ",".join(METHODS),
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    likelihood: options.Likelihood = "auto",
    drop: options.Drop = None,
    impute: options.Impute = False,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    ard: options.Ard = False,
    inducing: options.Inducing = None,
    max_rows: options.MaxRows = None,
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
    check_writable(out)
    loaded = load(
        data, target, likelihood=likelihood, drop=drop, impute=impute, missing=missing, decimal=decimal,
        max_rows=max_rows, seed=seed, inducing=inducing,
    )  # fmt: skip
    if loaded.encoding.likelihood == "gaussian" and inducing is None and len(names) > 1:
        sentence = (
            "with Gaussian noise all methods are exact and equal, so only one is run; --likelihood student_t is robust "
            "to outliers, and there they differ."
        )
        note(sentence)
        loaded.notes.append(sentence)
        names = ["hybrid"]
    own_process()
    journal = Journal(out, key_of(__version__, loaded.digest(), loaded.encoding.to_plain(), folds, ard, seed, inducing))
    result = run(loaded, names, folds, {"ard": ard, "seed": seed, "n_inducing": inducing}, journal)
    save_or_exit(out, comparison_report(result).encode())
    journal.done()
    if as_json:
        print_json(result)
    else:
        show(result)


def chosen(methods: str) -> list[str]:
    from sitewise.comparison import OWN_EVIDENCE

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    wrong = [name for name in names if name not in OWN_EVIDENCE]
    if wrong or not names:
        raise Problem(f"--methods takes {', '.join(OWN_EVIDENCE)}, separated by commas; got {methods!r}.")
    return names


def run(loaded: Any, names: list[str], folds: int, settings: dict[str, Any], journal: Any) -> dict[str, Any]:
    """Every method on every fold, then the best one on all rows; finished fits are kept in the journal."""
    from sitewise.cli.fit import describe
    from sitewise.cli.progress import bar
    from sitewise.comparison import BASELINE, LABELS, baseline, estimator, score, split, summary

    table, encoding, y = loaded.table, loaded.encoding, loaded.y
    parts = split(y, folds, settings["seed"], encoding.classifies)
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
                    model = estimator(name, encoding.likelihood, X.shape[1], **settings)
                    journal.add(f"{name} {k}", score(model, X, y[train], X_test, y[test]))
                    progress.advance()
                scores[name].append(journal.pieces[f"{name} {k}"])
        scores[BASELINE] = [baseline(encoding.likelihood, y[train], y[test]) for train, test in parts]
        found = summary(scores, y, parts)
        for outlier in found["outliers"]:
            outlier["row"] = int(table.lines[outlier.pop("index")])
        with bar(f"fitting {LABELS[found['best']]} to all rows", None), warnings_as_notes():
            best = estimator(found["best"], encoding.likelihood, len(encoding.features), **settings)
            best.fit(loaded.X, y)
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
