"""Format the score table of a comparison, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitewise.app.compare.comparison import LABELS, MIN_DIFFERENCE, NO_INPUTS
from sitewise.methods import DEFAULT, METHODS

Plain = Mapping[str, Any]


def number(value: float | None, digits: int = 4) -> str:
    """Format a value with this number of decimals; – for None."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def short(value: float | None, digits: int = 3) -> str:
    """Format a value with this number of significant digits; – for None."""
    return "–" if value is None else f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def value(found: Any) -> str:
    """Format a target value or a class label."""
    return short(found, 4) if isinstance(found, float) else str(found)


def has_classes(result: Plain) -> bool:
    """Whether classes were predicted."""
    return "accuracy" in result["methods"][0]


def columns_of(result: Plain) -> tuple[str, ...]:
    """Return the column titles of the score table."""
    if has_classes(result):
        return ("method", "log loss", "p", "AUC", "Brier", "accuracy", "calibration", "s")
    return ("method", "log loss", "p", "CRPS", "RMSE", "in 90 %", "calibration", "s")


def _has_approximations(result: Plain) -> bool:
    """Whether other approximations than the default were compared (--methods)."""
    return any(row["name"] in METHODS and row["name"] != DEFAULT for row in result["methods"])


def cells(row: Plain, result: Plain) -> tuple[str, ...]:
    """Return the cells of one model; (!) marks a model that did not converge in every fold."""
    name = row["name"] if row["name"] in METHODS else LABELS[row["name"]]
    if name == DEFAULT and not _has_approximations(result):
        name = "default GP"
    converged = row["converged"] == result["folds"]
    ignored = row["name"] == NO_INPUTS
    own = (
        ("–" if ignored else number(row["auc"], 3), number(row["brier"], 3), number(row["accuracy"], 3))
        if has_classes(result)
        else (short(row["crps"], 4), short(row["rmse"], 4), number(row["coverage"], 3))
    )
    return (
        name + ("" if converged else " (!)"),
        number(-row["log_density"]),
        "best" if row["p_value"] is None else short(row["p_value"], 2),
        *own,
        # The same probability for all rows is calibrated by construction.
        "–" if ignored else number(row["calibration_error"], 3),
        "–" if ignored else number(row["seconds"], 1),
    )


def explained(result: Plain) -> str:
    """Return the legend of the score table."""
    own = (
        "AUC: probability that a random row of the class is ranked above a random other row"
        f"{'' if result['positive'] is not None else ', averaged over the classes'}. Brier: mean squared difference "
        f"between probability and outcome{'' if result['positive'] is not None else ', summed over the classes'}. "
        if has_classes(result)
        else "CRPS: continuous ranked probability score, in the unit of the target; it equals the absolute error for a "
        "point prediction. In 90 %: share of values inside the 90 % interval. "
    )
    return (
        "All scores are computed on held-out rows. Log loss: minus the mean log probability (density) of the observed "
        "target; lower is better. p: p-value of the difference from the best model (corrected resampled t-test over "
        f"the folds); differences below {MIN_DIFFERENCE:g} nats per row do not matter. {own}Calibration: mean "
        "difference between predicted and observed shares. s: seconds per fit, including tuning, median over the folds."
    )
