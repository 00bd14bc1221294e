"""The estimator of a formula: which one a likelihood needs, with fixed weak priors of the coefficients and offsets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise import means
from sitewise.errors import UserError
from sitewise.estimators import GPClassifier, GPOrdinal, GPRegressor, side_information
from sitewise.formula.design import INTERCEPT, LINEAR, OFFSETS
from sitewise.hyperparameters import Hyperparameters
from sitewise.kernel_choice import Varying
from sitewise.likelihoods import BY_NAME, Likelihood, TwoFunctions, VaryingParameter
from sitewise.parts import Part
from sitewise.tables.named_array import NamedArray

# Names of parameters in brms, gamlss and glmmTMB, and in words.
ALIASES = {"sigma": "scale", "phi": "precision", "zi": "inflation", "zero": "inflation"}
BINARY = {"bernoulli": "logit", "logit": "logit", "probit": "probit"}
ORDINAL = "ordinal"


def kind_of(likelihood: Any) -> str:
    """Return "classes", "labels" or "values": which estimator takes this likelihood."""
    name = likelihood if isinstance(likelihood, str) else getattr(likelihood, "name", "")
    if isinstance(likelihood, TwoFunctions):
        raise UserError(
            "A parameter varies by a second formula, as in 'y ~ s(x); scale ~ z'; give the likelihood of one function, "
            "such as likelihoods.Gaussian()."
        )
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


def parameter_of(name: str, likelihood: str | Likelihood) -> str:
    """Return the parameter that a second formula varies, by its name in the likelihood."""
    kind = kind_of(likelihood)
    known: Any = BY_NAME[likelihood] if kind == "values" and isinstance(likelihood, str) else likelihood
    varying: tuple[str, ...] = getattr(known, "varying", ())
    found = ALIASES.get(name, name)
    if found in varying:
        return found
    shown = repr(likelihood) if isinstance(likelihood, str) else type(likelihood).__name__
    if varying:
        offered = " or ".join(f"{one} ~ …" for one in varying)
        raise UserError(f"The likelihood {shown} has no parameter {name!r} that can vary; write {offered}.")
    takers = ", ".join(repr(one) for one, each in BY_NAME.items() if found in each.varying)
    instead = f"use a likelihood in which it can: {takers}" if takers else "use 'gaussian' with scale ~ …, for example"
    raise UserError(f"No parameter of the likelihood {shown} can vary; leave {name} ~ … out, or {instead}.")


def fitted_estimator(
    X: NamedArray,
    y: np.ndarray,
    parts: list[list[Part]],
    parameter: str | None,
    likelihood: str | Likelihood,
    side: Mapping[str, np.ndarray],
    weight: np.ndarray | None,
    options: Mapping[str, Any],
) -> Any:
    """Return the fitted estimator of these inputs; `parts` has one list of parts per latent function.

    `parameter` is the parameter of the likelihood that is the second function.
    """
    kind, intercept = kind_of(likelihood), _has_intercept(parts[0])
    level, scale = _units(y, likelihood, side, weight, intercept) if kind == "values" else (0.0, 1.0)
    fixed = ["mean.*", *(f"kernel.parts.{k}.variance" for k in _linear_parts(parts[0]))]
    fixed += [f"second.kernel.parts.{k}.variance" for one in parts[1:] for k in _linear_parts(one)]
    given: dict[str, Any] = {
        "structure": parts[0], "mean": _mean(X, OFFSETS[0], level, scale, intercept, weight), **options,
    }  # fmt: skip
    if parameter is not None:
        fixed.append("second.mean.*")
        at = _second_level(y, likelihood, parameter, weight, scale, _has_intercept(parts[1]))
        mean = _mean(X, OFFSETS[1], at, 1.0, _has_intercept(parts[1]), weight)
        given["varying"] = Varying(parameter, structure=parts[1], mean=mean)
    given["hyperparameters"] = Hyperparameters(fixed=tuple(fixed))
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
        model = GPRegressor(likelihood=likelihood, normalize_y="auto" if intercept else "scale", **given)
        return model.fit(X, y, sample_weight=weight, **side)


def _has_intercept(parts: list[Part]) -> bool:
    return any(part.name == INTERCEPT for part in parts)


def _linear_parts(parts: list[Part]) -> list[int]:
    return [k for k, part in enumerate(parts) if part.name == LINEAR]


def _mean(
    X: NamedArray, offset: str, level: float, scale: float, intercept: bool, weight: np.ndarray | None
) -> means.Mean:
    """Return the mean of a function: its level, and its offset if there is one, in units of `scale`.

    An intercept is relative to the average of the offset.
    """
    names = list(X.column_names)
    if offset not in names:
        return means.Constant(level)
    average = float(np.average(X[:, names.index(offset)], weights=weight)) if intercept else 0.0
    return means.Linear(np.array([float(name == offset) for name in names]) / scale, level - average / scale)


def _second_level(
    y: np.ndarray,
    likelihood: str | Likelihood,
    parameter: str,
    weight: np.ndarray | None,
    scale: float,
    intercept: bool,
) -> float:
    """Return the constant that is added to the second function, in the units in which the estimator learns.

    With an intercept it is the value of the parameter where learning starts.  Otherwise it is 0 in the units of y.
    """
    own = _likelihood_of(likelihood, y, weight)
    if intercept:
        return VaryingParameter(own, parameter).start_level()
    return -float(np.log(scale)) if own.location_scale else 0.0


def _likelihood_of(likelihood: str | Likelihood, y: np.ndarray, weight: np.ndarray | None) -> Likelihood:
    each = np.ones(len(y)) if weight is None else weight
    return BY_NAME[likelihood].for_targets(y, each) if isinstance(likelihood, str) else likelihood


def _units(
    y: np.ndarray, likelihood: str | Likelihood, side: Mapping[str, np.ndarray], weight: np.ndarray | None, centre: bool
) -> tuple[float, float]:
    """Return the constant that is added to f, and the scale of y, both in the units in which the estimator learns."""
    own = _likelihood_of(likelihood, y, weight)
    weight = np.ones(len(y)) if weight is None else weight
    if own.location_scale:
        middle = np.average(y, weights=weight) if centre else 0.0
        spread = float(np.sqrt(np.average((y - middle) ** 2, weights=weight)))
        return 0.0, spread if spread > 1e-12 * abs(middle) else 1.0
    if not centre:
        return 0.0, 1.0
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
