"""`sitewise fit`: fit a model to a table and save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitewise.app import options
from sitewise.app.input import side_columns
from sitewise.app.process import (
    check_writable,
    ends_in_a_sentence,
    note,
    own_process,
    print_json,
    save,
)
from sitewise.methods import DEFAULT, METHODS


@ends_in_a_sentence
def fit(
    context: typer.Context,
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file of the model.")] = Path("model.sitewise"),
    method: options.MethodName = options.MethodNames(DEFAULT),
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
    """Fit a Gaussian process to a table and save it.

    Example: sitewise fit data.csv --target diagnosis --out model.sitewise
    """
    from sitewise.app.fitting import describe, estimator, fit_with_progress
    from sitewise.app.input.load_table import load
    from sitewise.app.report.explanation import strongest
    from sitewise.estimators.model_file import to_bytes

    named = options.kernel_name(kernel, groups, inducing, [method])
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
    own_process()
    X = loaded.X
    model = estimator(
        method, loaded.encoding.likelihood, kernel=named, groups=loaded.encoding.groups, inducing=inducing, seed=seed,
        sampling={"draws": draws, "warmup": warmup, "chains": chains} if METHODS[method].samples else None, **own,
    )  # fmt: skip
    fit_with_progress(model, X, loaded.y, f"fitting {loaded.table.rows} rows by {method}", **loaded.side)
    model.table_ = loaded.encoding.to_plain()
    result = {"command": "fit", "data": loaded.facts(), "model": str(out), **describe(model, loaded)}
    save(out, to_bytes(model))
    if as_json:
        print_json(result)
        return
    if result["loo_log_density"] is not None:
        print(f"Leave-one-out log loss per row: {-result['loo_log_density']:.4f}.")
    shares = strongest(model, loaded.encoding)
    print(f"Most important columns (share of the variance): {', '.join(f'{c} {s:.2f}' for c, s in shares.items())}.")
    seen = "" if result["loo_log_density"] is not None else " (training rows)"
    print(f"Least expected rows{seen}: {', '.join(str(o['row']) for o in result['outliers'][:5])}.")
    print(f"\nDetails of the fit:\n{result['report']}")
    if not result["converged"]:
        note("the fit did not converge; the details above say why.")
