"""The table of a comparison, as text for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitewise.app.compare.comparison import BASELINE, LABELS
from sitewise.methods import METHODS

Plain = Mapping[str, Any]


def number(value: float | None, digits: int = 4) -> str:
    """The value with this many decimals."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def short(value: float | None, digits: int = 3) -> str:
    """The value with this many significant digits."""
    return "–" if value is None else f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}")


def value(found: Any) -> str:
    """A number or a text of a table."""
    return short(found, 4) if isinstance(found, float) else str(found)


def has_classes(result: Plain) -> bool:
    """Whether classes were predicted."""
    return "accuracy" in result["methods"][0]


def columns_of(result: Plain) -> tuple[str, ...]:
    """The names of the columns."""
    if has_classes(result):
        return ("method", "log loss", "p", "AUC", "Brier", "accuracy", "calibration", "s")
    return ("method", "log loss", "p", "CRPS", "RMSE", "in 90 %", "calibration", "s")


def cells(row: Plain, result: Plain) -> tuple[str, ...]:
    """The cells of one contestant; (!) marks one that did not converge in every fold."""
    name = row["name"] if row["name"] in METHODS else LABELS[row["name"]]
    converged = row["converged"] == result["folds"]
    ignored = row["name"] == BASELINE
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
        # One probability for all rows is calibrated by its making.
        "–" if ignored else number(row["calibration_error"], 3),
        "–" if ignored else number(row["seconds"], 1),
    )


def explained(result: Plain) -> str:
    """What the columns mean, in a few sentences."""
    own = (
        "AUC: how often the higher probability is given to the right one of two rows. Brier: mean squared difference "
        f"between probability and outcome{'' if result['positive'] is not None else ', summed over the classes'}. "
        if has_classes(result)
        else "CRPS: distance between the predicted distribution and the value, in the unit of the target; for a "
        "prediction without spread it is the absolute error. In 90 %: share of values inside the 90 % interval. "
    )
    return (
        "Every row was predicted by models that had not seen it. Log loss: minus the mean log probability (density) of "
        "what was observed; lower is better. p: chance of a difference to the best as large as this if there were none "
        f"(corrected resampled t-test over the folds). {own}Calibration: mean distance between predicted and observed "
        "shares. s: seconds of one fit, its tuning included, median over the folds."
    )
