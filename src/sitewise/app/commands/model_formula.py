"""`sitewise model`: fit a formula to a table, print the summary, save it, predict another table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitewise.app import options
from sitewise.app.input import side_columns
from sitewise.app.process import check_writable, ends_in_a_sentence, note, own_process, print_json, save
from sitewise.errors import UserError
from sitewise.methods import DEFAULT

if TYPE_CHECKING:
    from sitewise.formula import FormulaModel
    from sitewise.tables import Table

OFFERED = "missing", "drop_missing", "categorical", "decimal", "dayfirst"  # options that solve problems of a table
Text = Annotated[
    str,
    typer.Argument(
        metavar="FORMULA", help='Such as "y ~ x + s(z) + (1 | group)", or "y ~ x; scale ~ z".', show_default=False
    ),
]


@ends_in_a_sentence
def model(
    data: options.DataFile,
    formula: Text,
    likelihood: Annotated[str, typer.Option("--likelihood", "-l", help="As in sitewise.fit.")] = "gaussian",
    new: Annotated[
        Path | None, typer.Option("--predict", help="Predict the rows of this table, too.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file of the predictions; stdout if not given.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option("--interval", help="Level of predictive intervals.", show_default=False)
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--save", help="File of the model, for `sitewise predict` and sitewise.load.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="HTML file: summary, terms and maps.", show_default=False)
    ] = None,
    weights: Annotated[str | None, typer.Option("--weights", help="Column with the weight per row.")] = None,
    exposure: side_columns.Exposure = None,
    trials: side_columns.Trials = None,
    lower: side_columns.Lower = None,
    upper: side_columns.Upper = None,
    event: side_columns.Event = None,
    until: side_columns.Until = None,
    noise: side_columns.Noise = None,
    categorical: options.Categorical = None,
    missing: options.Missing = None,
    drop: options.DropMissing = False,
    decimal: options.Decimal = None,
    dayfirst: options.DayFirst = None,
    method: options.MethodName = options.MethodNames(DEFAULT),
    check: Annotated[bool, typer.Option("--check", help="Print posterior predictive checks.")] = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Fit a formula with linear, smooth, spatial and group terms, and print the table of estimates.

    Example: sitewise model claims.csv "claims ~ age + s(income) + (1 | region)" --likelihood poisson
    """
    from sitewise.app.input.formula_rows import complete_rows, read_formula_table, with_levels_of
    from sitewise.formula import fit

    if new is None and (out is not None or interval is not None):
        raise UserError(
            "--out and --interval are for predictions: add --predict TABLE, or leave them out; --save writes the "
            "model, and --report a page with the summary."
        )
    if interval is not None and not 0 < interval < 1:
        raise UserError(f"--interval must lie between 0 and 1, as in --interval 0.9; got {interval:g}.")
    for path in (out, keep, report):
        if path is not None:
            check_writable(path)
    reading = {
        "categorical": categorical or (), "missing": missing or (), "decimal": decimal, "dayfirst": dayfirst,
    }  # fmt: skip
    table = read_formula_table(data, OFFERED, **reading)
    other = None if new is None else read_formula_table(new, OFFERED, **reading)
    own_process()
    found = fit(
        formula, table, likelihood, weights=weights, exposure=exposure, trials=trials, event=event, lower=lower,
        upper=upper, until=until, noise=noise, method=str(method), random_state=seed,
        missing="drop" if drop else "refuse",
    )  # fmt: skip
    summary = found.summary()
    if keep is not None:
        found.save(keep)
    if report is not None:
        from sitewise.app.report.formula_page import formula_report

        save(report, formula_report(found, data.name).encode())
    if other is not None and new is not None:
        other = with_levels_of(found, other, new, OFFERED, **reading)
    if other is not None and drop:
        other = complete_rows(other, found.design.formula, (exposure, trials, noise))
    columns = {} if other is None else _predictions(found, other, interval)
    if as_json:
        print_json({"command": "model", "summary": summary.to_dict(), "predictions": columns})
        return
    if other is None or out is not None:
        print(summary)
        if check:
            print(f"\n{found.check(seed=seed)}")
    else:  # the predictions are on stdout
        note(str(summary))
    if columns:
        from sitewise.app.commands.predict_rows import as_csv

        if out is None:
            print(as_csv(columns), end="")
        else:
            save(out, as_csv(columns).encode())


def _predictions(model: FormulaModel, table: Table, interval: float | None) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"row": table.lines.tolist()}
    found: Any = model.predict(table, interval=interval)
    if interval is None:
        return {**columns, "prediction": found.tolist()}
    return {**columns, "prediction": found.mean.tolist(), "low": found.low.tolist(), "high": found.high.tolist()}
