"""Warnings of a fit in the words of the formula: terms in place of the names of hyperparameters."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.formula.term_posteriors import parts_of_function
from sitewise.parameters import walk
from sitewise.parts import Spline

AT_BOUND = " ended at a bound"
LABEL = re.compile(r"(second\.)?kernel\.parts\.(\d+)\.([\w.]+)")
ROW_EFFECTS = re.compile(r"\w+\('levels of (.+?)'.*\) has as many levels as rows, and (.+?); .*")
NEGLIGIBLE_VARIANCE = 1e-4  # in the units in which the estimator learns


def in_words(message: str, estimator: FittedEstimator) -> str:
    """Return a warning with the names of terms; a variance at its lower bound is said to be zero."""
    message = message.replace(type(estimator).__name__, "the model").replace("fit_report_", "estimator.fit_report_")
    model = estimator._latents[0].model
    values = {parameter.name: np.asarray(value) for parameter, value in walk(model)}

    def part_of(found: re.Match[str]) -> Any:
        return parts_of_function(model, int(found[1] is not None))[int(found[2])]

    def described(found: re.Match[str]) -> str:
        quantity, name = found[3].split(".")[-1].replace("_", " "), part_of(found).name
        return f"the {quantity} of {name}" + (f" in the {model.likelihood.functions[1]}" if found[1] else "")

    if AT_BOUND in message:
        labels = [label.split("[")[0] for label in message.split(AT_BOUND)[0].split(", ")]
        zero = [
            label
            for label in labels
            if label.endswith("variance") and label in values and np.max(values[label]) < NEGLIGIBLE_VARIANCE
        ]
        if zero and len(zero) == len(labels):
            names = " and ".join(dict.fromkeys(LABEL.sub(described, label) for label in zero))
            verb = "is" if len(zero) == 1 else "are"
            parts = [part_of(found) for found in map(LABEL.match, zero) if found]
            straight = bool(parts) and all(isinstance(part, Spline) for part in parts)
            why = "the curve is a straight line" if straight else "the data do not need this term"
            return f"{names[0].upper()}{names[1:]} {verb} estimated as zero; {why}."
    if group := ROW_EFFECTS.fullmatch(message):
        return f"The group {group[1]} has one row per level, and {group[2]}; leave the group out."
    found = LABEL.sub(described, message)
    return found[0].upper() + found[1:]
