"""Ten kinds of small correct tables, simulated, each with the call that fits it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from sitewise import GPClassifier, GPOrdinal, GPRegressor, Hyperparameters

ROWS, NEW_ROWS = 40, 6


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A table and the settings with which it is encoded and fitted.

    two, several, code, number   names of columns: two categories, several, categories as whole numbers, a number
    side      side information per training row, by the estimator's keywords
    settings  of TableEncoder and of the command
    model     further settings of the estimator
    weight    sample_weight of the fit
    encode    whether the model is a pipeline with a TableEncoder
    """

    train: pd.DataFrame
    new: Any
    y: Any
    target: str
    two: str
    several: str
    code: str
    number: str
    estimator: Callable[..., Any]
    likelihood: str = "auto"
    side: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    weight: Any = None
    encode: bool = True

    @property
    def classifies(self) -> bool:
        return self.estimator is not GPRegressor

    def with_column(self, name: str, values: Any, new: Any) -> Sheet:
        """Return the sheet with one more column, before the others."""
        train, later = self.train.copy(), self.new.copy()
        train.insert(0, name, values)
        later.insert(0, name, new)
        return dataclasses.replace(self, train=train, new=later)

    def set(self, **settings: Any) -> Sheet:
        """Return the sheet with some settings replaced."""
        return dataclasses.replace(self, settings={**self.settings, **settings})


def fixed(estimator: Callable[..., Any], **settings: Any) -> Any:
    """Return an estimator whose hyperparameters are held fixed: one solution of the inference, without compilation."""
    return estimator(kernel="isotropic", method="laplace", hyperparameters=Hyperparameters(fixed="*"), **settings)


def _sheet(
    rng: np.random.Generator,
    columns: Mapping[str, Any],
    target: str,
    outcome: Callable[[np.ndarray, np.random.Generator], Any],
    names: str,
    estimator: Callable[..., Any],
    **more: Any,
) -> Sheet:
    """Return a sheet whose outcome depends on the first categorical column and on the number.

    `columns` maps names to arrays for training and new rows together; `names` are those of the columns with two
    categories, several, whole numbers as categories, and a number.
    """
    two, several, code, number = names.split()
    table = pd.DataFrame(dict(columns))
    first = table[two] == sorted(set(table[two]))[0]
    values = table[number].to_numpy(float)
    f = 0.8 * first.to_numpy(float) + (values - np.nanmean(values)) / np.nanstd(values)
    train = table[:ROWS].reset_index(drop=True)
    settings = {"categorical": [code], **more.pop("settings", {})}
    return Sheet(
        train, table[ROWS:].reset_index(drop=True), outcome(np.nan_to_num(f[:ROWS]), rng), target, two, several, code,
        number, estimator, settings=settings, **more,
    )  # fmt: skip


def _either(rng: np.random.Generator, *labels: Any) -> np.ndarray:
    """Return labels for all rows, in which every label occurs among the training rows and the new rows."""
    total = np.resize(np.array(labels), ROWS + NEW_ROWS)
    return np.concatenate([rng.permutation(total[:ROWS]), total[ROWS:]])


def _normal(rng: np.random.Generator, mean: float, scale: float) -> np.ndarray:
    return np.round(rng.normal(mean, scale, ROWS + NEW_ROWS), 2)


def _labels(low: Any, high: Any) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    def draw(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        made = np.where(f + 0.5 * rng.normal(size=len(f)) > np.median(f), high, low)
        return np.array([low, high, *made[2:]])  # both classes occur

    return draw


def _cut(*labels: Any) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """Return an outcome of ordered classes, in which every class occurs."""

    def draw(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        ranks = np.argsort(np.argsort(f + 0.5 * rng.normal(size=len(f))))
        return np.array(labels)[len(labels) * ranks // len(f)]

    return draw


def _counts(exposure: np.ndarray | float) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    return lambda f, rng: rng.poisson(exposure * np.exp(1.2 + 0.4 * f))


def passengers(rng: np.random.Generator) -> Sheet:
    age = _normal(rng, 30, 12)
    age[rng.permutation(ROWS)[:3]] = np.nan
    columns = {"sex": _either(rng, "female", "male"), "embarked": _either(rng, "C", "Q", "S"), "age": age,
               "deck": _either(rng, 1, 2, 3, 4), "fare": _normal(rng, 30, 9)}  # fmt: skip
    names = "sex embarked deck age"
    return _sheet(rng, columns, "survived", _labels("No", "Yes"), names, GPClassifier, settings={"impute": True})


def patients(rng: np.random.Generator) -> Sheet:
    days = np.datetime64("2023-01-05") + rng.integers(0, 700, ROWS + NEW_ROWS)
    columns = {"patient_id": 100000 + rng.permutation(800000)[: ROWS + NEW_ROWS], "admitted": days.astype(str),
               "smoker": _either(rng, "no", "yes"), "stage": _either(rng, "I", "II", "III"),
               "ward": _either(rng, 1, 2, 3), "bmi": _normal(rng, 25, 4)}  # fmt: skip
    return _sheet(rng, columns, "relapse", _labels(0, 1), "smoker stage ward bmi", GPClassifier)


def policies(rng: np.random.Generator) -> Sheet:
    exposure = np.round(rng.uniform(0.2, 2, ROWS), 3)
    columns = {"area": _either(rng, "rural", "urban"), "region": _either(rng, "N", "E", "S", "W"),
               "tariff": _either(rng, 1, 2, 3), "density": _normal(rng, 50, 12)}  # fmt: skip
    return _sheet(rng, columns, "claims", _counts(exposure), "area region tariff density", GPRegressor,
                  likelihood="poisson", side={"exposure": exposure})  # fmt: skip


def lifetimes(rng: np.random.Generator) -> Sheet:
    columns = {"treatment": _either(rng, "new", "standard"), "cell": _either(rng, "large", "small", "squamous"),
               "site": _either(rng, 1, 2, 3), "score": _normal(rng, 60, 15)}  # fmt: skip
    event = (rng.uniform(size=ROWS) < 0.7).astype(int)
    event[:2] = 0, 1
    return _sheet(rng, columns, "time", lambda f, rng: np.round(100 * np.exp(0.5 * f) * rng.weibull(1.5, len(f)), 3),
                  "treatment cell site score", GPRegressor, likelihood="weibull", side={"event": event})  # fmt: skip


def ratings(rng: np.random.Generator) -> Sheet:
    columns = {"member": _either(rng, "no", "yes"), "style": _either(rng, "red", "rose", "white"),
               "shelf": _either(rng, 1, 2, 3), "alcohol": _normal(rng, 12, 1)}  # fmt: skip
    return _sheet(rng, columns, "rating", _cut(1, 2, 3, 4, 5), "member style shelf alcohol", GPOrdinal,
                  likelihood="ordinal")  # fmt: skip


def schools(rng: np.random.Generator) -> Sheet:
    columns = {"school": _either(rng, *(f"school {k}" for k in "abcdefgh")), "sex": _either(rng, "f", "m"),
               "track": _either(rng, "arts", "general", "science"), "grade": _either(rng, 7, 8, 9),
               "hours": _normal(rng, 5, 2)}  # fmt: skip
    return _sheet(rng, columns, "score", lambda f, rng: np.round(50 + 10 * f + 5 * rng.normal(size=len(f)), 2),
                  "sex track grade hours", GPRegressor, likelihood="gaussian", settings={"groups": ["school"]},
                  model={"groups": ["school"]})  # fmt: skip


def hourly(rng: np.random.Generator) -> Sheet:
    hours = np.datetime64("2024-03-01T00:00") + np.arange(ROWS + NEW_ROWS).astype("timedelta64[h]")
    columns = {"when": [str(h).replace("T", " ") for h in hours], "holiday": _either(rng, "no", "yes"),
               "weather": _either(rng, "rain", "snow", "sun"), "platform": _either(rng, 1, 2, 3),
               "temperature": _normal(rng, 8, 5)}  # fmt: skip
    return _sheet(rng, columns, "departures", _counts(2.0), "holiday weather platform temperature", GPRegressor,
                  likelihood="poisson")  # fmt: skip


def amounts(rng: np.random.Generator) -> Sheet:
    columns = {"fuel": _either(rng, "diesel", "petrol"), "brand": _either(rng, "A", "B", "C", "D"),
               "zone": _either(rng, 1, 2, 3), "power": _normal(rng, 90, 20)}  # fmt: skip

    def draw(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.round((rng.uniform(size=len(f)) < 0.4) * rng.gamma(2.0, 500 * np.exp(0.3 * f)), 2)

    return _sheet(rng, columns, "paid", draw, "fuel brand zone power", GPRegressor, likelihood="tweedie")


def survey(rng: np.random.Generator) -> Sheet:
    columns = {"voted": _either(rng, "no", "yes"), "children": _either(rng, "0", "1", "2", "3+"),
               "district": _either(rng, 1, 2, 3), "income": _normal(rng, 40, 9)}  # fmt: skip
    return _sheet(rng, columns, "opinion", _cut("agree", "neutral", "disagree"), "voted children district income",
                  GPClassifier)  # fmt: skip


def numbers(rng: np.random.Generator) -> Sheet:
    columns = {"rownames": np.arange(1, ROWS + NEW_ROWS + 1), "treated": _either(rng, 0, 1),
               "block": _either(rng, 1, 2, 3, 4), "plot": _either(rng, 1, 2, 3), "rain": _normal(rng, 20, 6),
               "nitrogen": _normal(rng, 2, 0.4)}  # fmt: skip
    return _sheet(rng, columns, "yield", lambda f, rng: np.round(4 + f + 0.4 * rng.normal(size=len(f)), 3),
                  "treated block plot rain", GPRegressor, likelihood="gaussian",
                  settings={"categorical": ["treated", "block", "plot"]})  # fmt: skip


SHEETS: dict[str, Callable[[np.random.Generator], Sheet]] = {
    "passengers with missing ages": passengers,
    "patients with identifiers and dates": patients,
    "counts with exposure": policies,
    "lifetimes with events": lifetimes,
    "ratings": ratings,
    "pupils in schools": schools,
    "hourly counts": hourly,
    "amounts with many zeros": amounts,
    "a survey with the label 3+": survey,
    "numbers with row names": numbers,
}
