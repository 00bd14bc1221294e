"""Compute the summary of a fitted formula: hyperparameters per term in the units of y, shares, effective parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.explain.hyper_intervals import derived_interval, hyper_intervals, hyper_law
from sitewise.fitted.function import HyperLaw
from sitewise.formula.design import INTERCEPT, LINEAR, Design, FormulaTerm
from sitewise.formula.formula_summary import Summary
from sitewise.formula.part_terms import LevelColumn, ScaledColumn
from sitewise.formula.term_posteriors import TermPosteriors, parts_of_function
from sitewise.methods import Method
from sitewise.parameters import walk
from sitewise.parts import Spline, VaryingCoefficients

Values = dict[str, np.ndarray]
Intervals = dict[str, tuple[np.ndarray, np.ndarray]]
Triples = dict[str, tuple[float, ...]]  # "sd" or "range" → value and ends of its interval


def summary_of(
    estimator: FittedEstimator, design: Design, likelihood: str, level: float, seconds: float, messages: tuple[str, ...]
) -> Summary:
    """Return the summary of a fitted formula."""
    functions = [TermPosteriors(estimator, design, k) for k in range(len(design.formula.functions))]
    (latent,) = estimator._latents
    law = hyper_law(estimator, latent)
    ends = hyper_intervals(law, level)
    values = {parameter.name: np.asarray(value) for parameter, value in walk(latent.model)}
    used = [one.effective_parameters() for one in functions]
    linear = [list(_linear(one, level)) for one in functions]
    terms = [_terms(one, share, values, ends, law, level) for one, share in zip(functions, used, strict=True)]
    words = latent.model.likelihood.functions
    loo, loo_error = weighted_sum(estimator._loo_log_density(), estimator._weight)
    groups = {
        ":".join(column.names): len(design.groups[name])
        for name, column in design.columns.items()
        if isinstance(column, LevelColumn)
    }
    return Summary(
        formula=design.formula.text, likelihood=likelihood, method=Method.of(estimator.method).name,
        outcome=_outcome(estimator, design), rows=int(np.sum(estimator._weight > 0)), groups=groups,
        level=level, linear=linear[0], terms=terms[0], varying=words[1] if len(functions) > 1 else "",
        varying_linear=linear[1] if len(functions) > 1 else [], varying_terms=terms[1] if len(functions) > 1 else [],
        parameters=list(_likelihood(estimator, values, ends)), evidence=log_evidence(estimator),
        loo=loo, loo_error=loo_error,
        effective=float(sum(sum(one.values()) for one in used)), seconds=seconds, warnings=messages,
    )  # fmt: skip


def _outcome(estimator: Any, design: Design) -> str:
    """Return the class whose probability the formula describes, or the labels from the lowest to the highest."""
    classes = [f"{one:g}" if isinstance(one, float) else str(one) for one in getattr(estimator, "classes_", ())]
    return f"P({design.formula.response} = {classes[1]})" if len(classes) == 2 else " < ".join(classes)


def weighted_sum(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return Σ w_i x_i and its standard error √n · sd with n = Σ w_i: a row of weight 2 is two rows."""
    count = float(np.sum(weight))
    total = float(weight @ values)
    spread = float(weight @ (values - total / count) ** 2) / max(count - 1, 1e-12)
    return total, float(np.sqrt(count * spread))


def log_evidence(estimator: FittedEstimator, name: str | None = None) -> float:
    """Return an evidence in the units of y; None is the one from which the hyperparameters were learned."""
    asked = name or estimator._learned_evidence()
    return float(estimator._evidences((asked,))[asked])


def _terms(
    posteriors: TermPosteriors, used: dict[str, float], values: Values, ends: Intervals, law: HyperLaw, level: float
) -> list[tuple[Any, ...]]:
    """Return the rows of the smooth and group terms of a function."""
    share, rows = _shares(posteriors), []
    for term in posteriors.terms:
        if term.kind in (LINEAR, INTERCEPT):
            continue
        for k, (label, numbers) in enumerate(_hyperparameters(term, posteriors, values, ends, law, level)):
            sd, scale = numbers.get("sd", (None,) * 3), numbers.get("range", (None,) * 3)
            more = (share[term.name], used[term.name]) if k == 0 else (None, None)
            rows.append((label, *sd, *scale, *more))
    return rows


def _linear(posteriors: TermPosteriors, level: float) -> Iterator[tuple[Any, ...]]:
    reach, names = posteriors.reach(level), posteriors.design.linear_columns(posteriors.function)
    if any(term.kind == INTERCEPT for term in posteriors.terms):
        mean, sd = posteriors.intercept()
        yield "intercept", mean, sd, mean - reach * sd, mean + reach * sd
    if names:
        for name, mean, sd in zip(names, *posteriors.coefficients(), strict=True):
            yield name, float(mean), float(sd), float(mean - reach * sd), float(mean + reach * sd)


def _shares(posteriors: TermPosteriors) -> dict[str, float]:
    """Return the share of every term in the sum of the variances over the rows, by the posterior mean of a variance."""
    found = {term.name: posteriors.spread(term) for term in posteriors.terms if term.kind != INTERCEPT}
    total = sum(found.values()) or 1.0
    return {name: value / total for name, value in found.items()}


def _hyperparameters(
    term: FormulaTerm, posteriors: TermPosteriors, values: Values, ends: Intervals, law: HyperLaw, level: float
) -> Iterator[tuple[str, Triples]]:
    """Yield rows of a term: a label, and its standard deviation and range with intervals."""
    scale, estimator, design = posteriors.scale, posteriors.estimator, posteriors.design
    before = "second." if term.function else ""
    for number in term.parts:
        part, path = posteriors.parts[number], f"{before}kernel.parts.{number}."
        if isinstance(part, VaryingCoefficients):
            yield from _varying(term, number, posteriors, law, level)
            continue
        own = {name.removeprefix(path): name for name in values if name.startswith(path)}
        label = part.name or term.name
        unit = _slope_unit(part, estimator, design)
        for short, name in own.items():
            if "variance" not in short or (short == "slope_variance" and name not in ends):
                continue
            each = zip(np.ravel(values[name]), *(np.ravel(end) for end in _ends(name, values, ends)), strict=True)
            for k, triple in enumerate(each):
                numbers: Triples = {"sd": tuple(scale * unit * float(np.sqrt(v)) for v in triple)}
                length = own.get(short.replace("variance", "lengthscale"))
                if length is not None:
                    low, high = _ends(length, values, ends)
                    both = values[length], low, high
                    if np.size(values[length]) == 1:
                        numbers["range"] = tuple(float(np.ravel(v)[0]) for v in both)
                yield _label(label, short, k, np.size(values[name])), numbers
        if "share" in own:
            low, high = _ends(own["share"], values, ends)
            yield f"{label} structured share", {"sd": (float(values[own["share"]]), float(low), float(high))}


def _slope_unit(part: Any, estimator: FittedEstimator, design: Design) -> float:
    """Return the factor from the standard deviation of what multiplies a scaled column to the units of the column."""
    factor: Any = part.by if type(part) is Spline else getattr(part, "slope", None)
    if factor is None:
        return 1.0
    return 1.0 / design.coding.moments[estimator._given_names()[factor]][1]


def _label(term: str, short: str, k: int, count: int) -> str:
    if count == 3:
        return (term, f"{term} second", f"{term} both")[k]
    return f"{term} slopes" if short == "slope_variance" else term


def _ends(name: str, values: Values, ends: Intervals) -> tuple[np.ndarray, np.ndarray]:
    missing = np.full(np.shape(values[name]), np.nan)
    return ends.get(name, (missing, missing))


def _varying(
    term: FormulaTerm, number: int, posteriors: TermPosteriors, law: HyperLaw, level: float
) -> Iterator[tuple[str, Triples]]:
    """Yield the standard deviations of correlated coefficients in the units of their columns, and correlations."""
    model, scale, design = posteriors.estimator._latents[0].model, posteriors.scale, posteriors.design
    slopes = {name: column for name, column in design.columns.items() if isinstance(column, ScaledColumn)}
    used = [name for name in term.columns if name in slopes]
    mean, spread = np.array([design.coding.moments[name] for name in used]).T
    label, first = posteriors.parts[number].name, int(posteriors.parts[number].intercept)
    change = np.diag([*[1.0] * first, *(1 / spread)])
    if first:  # the columns were centred
        change[0, 1:] = -mean / spread
    names = [*["1"] * first, *(str(slopes[name].node) for name in used)]

    def covariance(vector: np.ndarray) -> np.ndarray:
        part = parts_of_function(law.trainable.from_vector(model, vector), term.function)[number]
        return scale**2 * change @ np.asarray(part.covariance()) @ change.T

    def log_sd(k: int) -> Callable[[np.ndarray], float]:
        return lambda vector: 0.5 * float(np.log(covariance(vector)[k, k]))

    def z(i: int, j: int) -> Callable[[np.ndarray], float]:
        def of(vector: np.ndarray) -> float:
            B = covariance(vector)
            return float(np.arctanh(np.clip(B[i, j] / np.sqrt(B[i, i] * B[j, j]), -1 + 1e-12, 1 - 1e-12)))

        return of

    for k, name in enumerate(names):
        ends = derived_interval(law, log_sd(k), level)
        sd = tuple(float(np.exp(v)) for v in (log_sd(k)(law.vector), *ends))
        yield (label if k == 0 else f"{label} {name}"), {"sd": sd}
    for i in range(len(names)):
        for j in range(i):
            ends = derived_interval(law, z(i, j), level)
            found = tuple(float(np.tanh(v)) for v in (z(i, j)(law.vector), *ends))
            yield f"{label} correlation of {names[j]}, {names[i]}", {"sd": found}


def _likelihood(estimator: FittedEstimator, values: Values, ends: Intervals) -> Iterator[tuple[Any, ...]]:
    own = estimator._latents[0].model.likelihood
    for name, value in values.items():
        if not name.startswith("likelihood."):
            continue
        short = name.removeprefix("likelihood.").removeprefix("base.")
        unit = estimator._y_units()[1] if own.location_scale and short == "scale" else 1.0
        low, high = _ends(name, values, ends)
        each = zip(np.ravel(value), np.ravel(low), np.ravel(high), strict=True)
        for k, (one, below, above) in enumerate(each):
            label = short if np.size(value) == 1 else f"{short}[{k}]"
            yield label, unit * float(one), unit * float(below), unit * float(above)
