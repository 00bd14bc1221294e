"""L4. `sitewise fit`: a model file from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sitewise.cli import options
from sitewise.cli.process import (
    check_writable,
    ends_in_a_sentence,
    note,
    own_process,
    print_json,
    save_or_exit,
    warnings_as_notes,
)


@ends_in_a_sentence
def fit(
    data: options.DataFile,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")] = Path("model.sitewise"),
    method: options.MethodName = "hybrid",
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
    """Fit a Gaussian process to a table and save it.

    Example: sitewise fit data.csv --target diagnosis --out model.sitewise
    """
    from sitewise.cli.loading import load
    from sitewise.comparison import estimator
    from sitewise.estimators.persistence import to_bytes

    check_writable(out)
    loaded = load(
        data, target, likelihood=likelihood, drop=drop, impute=impute, missing=missing, decimal=decimal,
        max_rows=max_rows, seed=seed, inducing=inducing,
    )  # fmt: skip
    own_process()
    X = loaded.X
    model = estimator(
        method, loaded.encoding.likelihood, X.shape[1], ard=ard, seed=seed, n_inducing=inducing,
        sampling={"draws": draws, "warmup": warmup, "chains": chains} if method == "mcmc" else None,
    )  # fmt: skip
    fit_with_progress(model, X, loaded.y, f"fitting {loaded.table.rows} rows by {method}")
    model.table_ = loaded.encoding.to_plain()
    result = {"command": "fit", "data": loaded.facts(), "model": str(out), **describe(model, loaded)}
    save_or_exit(out, to_bytes(model))
    if as_json:
        print_json(result)
        return
    print(result["report"])
    if result["loo_log_density"] is not None:
        print(f"Leave-one-out log density: {result['loo_log_density']:.4f} nats a row.")
    seen = "" if result["loo_log_density"] is not None else " (their own targets were seen)"
    print(
        f"Least expected rows{seen}: "
        + ", ".join(f"{o['row']} ({o['log_density']:.2f})" for o in result["outliers"][:5])
    )
    if not result["converged"]:
        note("the fit did not converge; the report above says what to try.")


def fit_with_progress(model: Any, X: Any, y: Any, doing: str) -> None:
    """Fit, with a bar of the time that remains, and warnings as notes."""
    from sitewise.cli.progress import bar

    with warnings_as_notes(), bar(doing, 1, pieces=False) as progress:
        model.set_params(verbose=lambda now, share: progress.tell(f"{doing}: {now}", share))
        try:
            model.fit(X, y)
        finally:
            model.set_params(verbose=False)


def describe(model: Any, loaded: Any) -> dict[str, Any]:
    """What a fit on all rows found, as plain data; draws of mcmc have no evidence and leave no row out."""
    import numpy as np

    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    sites = hasattr(model, "sites_")
    density = model.loo_.log_density if sites else model.log_predictive_density(loaded.X, loaded.y)
    worst = np.argsort(density)[:10]
    return {
        "method": model.method,
        "converged": bool(model.converged_),
        "report": model.fit_report_,
        "evidence": dict(model.evidence_) if sites else {},
        "loo_log_density": float(np.mean(density)) if sites else None,
        "lengthscales": [np.broadcast_to(k.lengthscale, model.n_features_in_).tolist() for k in kernels],
        "one_lengthscale": bool(np.ndim(kernels[0].lengthscale) == 0),
        "magnitudes": [float(np.sqrt(k.variance)) for k in kernels],
        "outliers": [{"row": int(loaded.table.lines[i]), "log_density": float(density[i])} for i in worst],
    }
