"""L4. Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Method = Literal["hybrid", "ep", "vi", "laplace", "hybrid-vem", "mcmc"]
LikelihoodName = Literal[
    "auto", "probit", "logit", "gaussian", "student_t", "laplace_noise", "poisson", "negative_binomial", "gamma",
    "log_normal", "beta", "ordinal",
]  # fmt: skip

DataFile = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file.", show_default=False)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="File written by `sitewise fit`.", show_default=False)]
Target = Annotated[str, typer.Option("--target", "-t", help="Name of the column to predict.", show_default=False)]
MethodName = Annotated[Method, typer.Option("--method", "-m", help="How to infer and learn.")]
Likelihood = Annotated[
    LikelihoodName,
    typer.Option(
        "--likelihood",
        "-l",
        help="auto: probit for classes, gaussian for values. Robust: student_t, laplace_noise; counts: poisson, "
        "negative_binomial; positive values: gamma, log_normal; shares: beta; ranks 0, 1, 2, …: ordinal.",
    ),
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Column to leave out; may be repeated.")]
Impute = Annotated[bool, typer.Option("--impute", help="Fill missing values with medians and most frequent texts.")]
Missing = Annotated[list[str] | None, typer.Option("--missing", help="Further text that means a missing value.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark, '.' or ','; told from the file.")]
Ard = Annotated[bool, typer.Option("--ard", help="One lengthscale per column instead of one for all.")]
MaxRows = Annotated[
    int | None,
    typer.Option("--max-rows", min=10, help="Use at most so many rows, chosen at random.", show_default=False),
]
Inducing = Annotated[
    int | None, typer.Option("--inducing", min=1, help="Sparse GP with so many inducing inputs.", show_default=False)
]
Draws = Annotated[int, typer.Option("--draws", min=1, help="Of mcmc: draws of each chain.")]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="Of mcmc: sweeps before the first draw.")]
Chains = Annotated[int, typer.Option("--chains", min=1, help="Of mcmc: chains.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of folds, subsamples and starts.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
