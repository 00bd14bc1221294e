"""Options that several commands share, each described once."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sitewise.app.input.targets import AUTO_CLASSES, AUTO_VALUES
from sitewise.errors import UserError
from sitewise.kernel_choice import NAMED_KERNELS
from sitewise.learning.nested import Nested
from sitewise.likelihoods import BY_NAME
from sitewise.methods import METHODS
from sitewise.structures import Sparse


# The members of the enumerations come from the lists of the library.
class MethodNames(enum.StrEnum):
    """The name of a method."""

    _ignore_ = "name"
    for name in METHODS:
        vars()[name.replace("-", "_")] = name


class LikelihoodName(enum.StrEnum):
    """The name of a likelihood, or auto."""

    _ignore_ = "name"
    for name in ("auto", *BY_NAME):
        vars()[name] = name


class KernelName(enum.StrEnum):
    """The name of a kernel of an estimator, or auto."""

    _ignore_ = "name"
    for name in ("auto", *NAMED_KERNELS):
        vars()[name] = name


AUTO = LikelihoodName("auto")
DEFAULT_KERNEL = KernelName("auto")
COMPARED = tuple(name for name, method in METHODS.items() if not method.samples and method.learner is Nested)


def method_list(text: str) -> list[str]:
    """Return the methods of a list separated by commas, in this order, with methods that sample last."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or any(name not in METHODS for name in names):
        raise UserError(f"--methods takes {', '.join(METHODS)}, separated by commas; got {text!r}.")
    return sorted(names, key=lambda name: METHODS[name].samples)


DataFile = Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or Parquet file.", show_default=False)]
ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="File of `sitewise fit`, or of sitewise.save with a TableEncoder.", show_default=False
    ),
]
Target = Annotated[str, typer.Option("--target", "-t", help="Name of the column to predict.", show_default=False)]
MethodName = Annotated[
    MethodNames,
    typer.Option(
        "--method", "-m", help="Inference and evidence. " + " ".join(f"{m.name}: {m.about}" for m in METHODS.values())
    ),
]
Likelihood = Annotated[
    LikelihoodName,
    typer.Option(
        "--likelihood",
        "-l",
        help=f"auto: {AUTO_CLASSES} for classes, {AUTO_VALUES} for values. "
        + "; ".join(f"{name}: {kind.about}" for name, kind in BY_NAME.items())
        + ".",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Columns to leave out, separated by commas; may be repeated.")
]
Use = Annotated[
    list[str] | None,
    typer.Option("--use", help="Columns to use although they look like identifiers, separated by commas."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        help="Columns whose values, also numbers, are categories, separated by commas; may be repeated.",
    ),
]
Impute = Annotated[
    bool, typer.Option("--impute", help="Fill missing values with medians and most frequent categories.")
]
Missing = Annotated[list[str] | None, typer.Option("--missing", help="Further text that stands for a missing value.")]
Decimal = Annotated[
    str | None,
    typer.Option("--decimal", help="Decimal mark, '.' or ',', of numbers such as 1,234; detected if not given."),
]
DayFirst = Annotated[
    bool | None,
    typer.Option("--dayfirst/--monthfirst", help="Whether 3/4/2024 is the 3rd of April; detected if not given."),
]
SkipMissingTarget = Annotated[bool, typer.Option("--skip-missing-target", help="Leave out rows without a target.")]
Kernel = Annotated[
    KernelName,
    typer.Option(
        "--kernel",
        help="Covariance function. auto: average up to 2000 rows; with more rows, with --groups or --inducing, and for "
        "a single input one kernel: shrunk for 2 to 100 inputs, otherwise isotropic. "
        + "; ".join(f"{name}: {about}" for name, about in NAMED_KERNELS.items())
        + ". shrunk takes a fifth to a half of the time of average.",
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        help="Column whose values name groups of rows, such as a school or a patient. Each group gets an offset, "
        "and compare holds out whole groups.",
        show_default=False,
    ),
]
Varying = Annotated[
    str | None,
    typer.Option(
        "--varying",
        help="Parameter of the likelihood that depends on the columns through a second function, such as scale for "
        "gaussian noise. "
        + "; ".join(f"{name}: {', '.join(kind.varying)}" for name, kind in BY_NAME.items() if kind.varying)
        + ".",
        show_default=False,
    ),
]
MaxRows = Annotated[
    int | None,
    typer.Option("--max-rows", min=10, help="Use at most this number of rows, chosen at random.", show_default=False),
]


def _inducing(text: str) -> int | str:
    value = int(text) if text.isdigit() else text
    try:
        Sparse(value)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number of at least 1, 'auto', or a time such as 60s.") from None
    return value


Inducing = Annotated[
    Any,
    typer.Option(
        "--inducing",
        help="Sparse GP with this number of inducing inputs; 'auto' for the number that takes about 15 s, or a time "
        "such as 60s.",
        metavar="NUMBER|auto|TIME",
        parser=_inducing,
        show_default=False,
    ),
]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="For formulas: leave out rows with missing values.")]
Draws = Annotated[int, typer.Option("--draws", min=1, help="For mcmc: draws per chain.")]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="For mcmc: warm-up draws per chain, which are dropped.")]
Chains = Annotated[int, typer.Option("--chains", min=1, help="For mcmc: number of chains.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of folds, subsamples and starts.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def varying_parameter(parameter: str | None, likelihood: str) -> dict[str, str]:
    """Return the setting of an estimator for a parameter that varies; raise UserError if the likelihood has none."""
    if parameter is None:
        return {}
    known = BY_NAME[likelihood].varying
    if parameter not in known:
        able = ", ".join(name for name, kind in BY_NAME.items() if kind.varying)
        instead = f"choose {' or '.join(known)}" if known else f"use --likelihood with one of {able}"
        raise UserError(f"--varying {parameter}: {likelihood} has no such parameter; {instead}.")
    return {"varying": parameter}


def kernel_name(kernel: KernelName, groups: str | None, inducing: object, methods: Sequence[str]) -> str | None:
    """Return the name that an estimator takes as `kernel`; None for its default."""
    if kernel == "average":
        given = {"--groups": groups is not None, "--inducing": inducing is not None}
        for name, here in given.items():
            if here:
                raise UserError(f"--kernel average cannot be combined with {name}; leave one of them out.")
        for name in methods:
            if METHODS[name].samples or METHODS[name].learner is not Nested:
                raise UserError(f"--kernel average needs an evidence, which {name} does not have; leave one out.")
    return None if kernel == DEFAULT_KERNEL else str(kernel)
