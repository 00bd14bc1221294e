"""The estimator of a formula: which one a likelihood needs, with fixed weak priors of the coefficients and offsets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise import means
from sitewise.errors import UserError
from sitewise.estimators import GPClassifier, GPOrdinal, GPRegressor, side_information
from sitewise.formula.design import INTERCEPT, LINEAR, OFFSET
from sitewise.hyperparameters import Hyperparameters
from sitewise.likelihoods import BY_NAME, Likelihood
from sitewise.parts import Part
from sitewise.tables.named_array import NamedArray

BINARY = {"bernoulli": "logit", "logit": "logit", "probit": "probit"}
ORDINAL = "ordinal"


def kind_of(likelihood: Any) -> str:
    """Return "classes", "labels" or "values": which estimator takes this likelihood."""
    name = likelihood if isinstance(likelihood, str) else getattr(likelihood, "name", "")
    if isinstance(likelihood, Likelihood):
        return "classes" if likelihood.support == "classes" else "values"
    if name in BINARY:
        return "classes"
    if name == ORDINAL:
        return "labels"
    known = [one for one, kind in BY_NAME.items() if kind.support != "classes"]
    if name not in known:
        offered = ", ".join(map(repr, dict.fromkeys(["gaussian", *BINARY, ORDINAL, *known])))
        raise UserError(f"likelihood must be one of {offered}, or a likelihood object; got {likelihood!r}.")
    return "values"


def fitted_estimator(
    X: NamedArray,
    y: np.ndarray,
    parts: list[Part],
    likelihood: str | Likelihood,
    side: Mapping[str, np.ndarray],
    weight: np.ndarray | None,
    options: Mapping[str, Any],
) -> Any:
    """Return the fitted estimator of these inputs."""
    kind, names = kind_of(likelihood), list(X.column_names)
    intercept = any(part.name == INTERCEPT for part in parts)
    held = [f"kernel.parts.{k}.variance" for k, part in enumerate(parts) if part.name == LINEAR]
    level, scale = _units(y, likelihood, side, weight, intercept) if kind == "values" else (0.0, 1.0)
    slope = np.array([1.0 / scale if name == OFFSET else 0.0 for name in names])
    if slope.any():
        start = level - float(np.average(X[:, names.index(OFFSET)], weights=weight)) / scale * intercept
        mean: means.Mean = means.Linear(slope, start)
    else:
        mean = means.Constant(level)
    given = {
        "structure": parts, "mean": mean, "hyperparameters": Hyperparameters(fixed=("mean.*", *held)), **options,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No part uses column")  # the column of the offset
        if kind == "classes":
            _refuse_side(side, likelihood)
            chosen = BINARY[likelihood] if isinstance(likelihood, str) else likelihood
            _two_classes(y)
            return GPClassifier(likelihood=chosen, **given).fit(X, y, sample_weight=weight)
        if kind == "labels":
            _refuse_side(side, likelihood)
            return GPOrdinal(**given).fit(X, y, sample_weight=weight)
        model = GPRegressor(likelihood=likelihood, normalize_y="auto" if intercept else False, **given)
        return model.fit(X, y, sample_weight=weight, **side)


def _units(
    y: np.ndarray, likelihood: str | Likelihood, side: Mapping[str, np.ndarray], weight: np.ndarray | None, centre: bool
) -> tuple[float, float]:
    """Return the constant that is added to f, and the scale of y, both in the units in which the estimator learns."""
    weight = np.ones(len(y)) if weight is None else weight
    own = BY_NAME[likelihood].for_targets(y, weight) if isinstance(likelihood, str) else likelihood
    if not centre:
        return 0.0, 1.0
    if own.location_scale:
        middle = np.average(y, weights=weight)
        spread = float(np.sqrt(np.average((y - middle) ** 2, weights=weight)))
        return 0.0, spread if spread > 1e-12 * abs(middle) else 1.0
    read = side_information.read(own, len(y), side, fitting=True)
    own, targets = own.with_keywords(read), side_information.table(y, read)
    own.check(targets)
    level = own.level(targets, weight)
    return (0.0 if level is None else float(level)), 1.0


def _two_classes(y: np.ndarray) -> None:
    classes = list(dict.fromkeys(y.tolist()))
    if len(classes) != 2:
        raise UserError(
            f"The response has {len(classes)} values, but this likelihood is for two classes; use likelihood='ordinal' "
            "for ordered labels, or GPClassifier for several classes."
        )


def _refuse_side(side: Mapping[str, Any], likelihood: Any) -> None:
    if side:
        raise UserError(f"{next(iter(side))}= does not belong to likelihood={likelihood!r}; leave it out.")
