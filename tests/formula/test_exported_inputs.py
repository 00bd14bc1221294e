"""Exported formulas predict with NumPy alone as the library does."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sitewise
from sitewise import UserError
from sitewise.estimators.numpy_predictor import Predictor

pytestmark = pytest.mark.filterwarnings("ignore")  # of fits to small tables
RNG = np.random.default_rng(2)
RING = {"north": ["east", "west"], "east": ["north", "south"], "south": ["east", "west"], "west": ["north", "south"]}
Table = dict[str, list[Any]]


def drawn(rows: int, groups: str, codes: int) -> Table:
    """Return a table of numbers, categories, codes, dates and places."""
    days = [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=float(h)) for h in RNG.integers(0, 9000, rows)]
    found = {
        "x": RNG.uniform(1, 3, rows), "z": RNG.normal(size=rows), "year": RNG.integers(1990, 2020, rows),
        "kind": RNG.choice(["u", "v", "w"], rows), "new": RNG.integers(0, 2, rows) > 0,
        "group": RNG.choice(list(groups), rows), "code": RNG.integers(0, codes, rows),
        "side": RNG.choice(list(RING), rows), "lon": RNG.integers(0, 9, rows), "lat": RNG.integers(40, 49, rows),
        "hour": RNG.uniform(0, 60, rows),
    }  # fmt: skip
    return {name: values.tolist() for name, values in found.items()} | {"day": days}


OLD, NEW = drawn(90, "abcd", 4), drawn(25, "abcdef", 7)
F = np.sin(2 * np.array(OLD["x"])) + 0.4 * np.array(OLD["z"]) + 0.2 * np.array(OLD["code"])
OLD["y"] = (5 + 3 * F + 0.5 * RNG.normal(size=90)).tolist()
OLD["count"] = RNG.poisson(np.exp(F / 2)).tolist()
OLD["left"] = np.where(F + 0.5 * RNG.normal(size=90) > 0.5, "yes", "no").tolist()
FORMULAS = [
    ("y ~ x + year + kind*z", "gaussian"),
    ("y ~ 0 + kind:z + new + C(code, ref=2) - 1", "gaussian"),
    ("y ~ log(x) + I(x^2 - 1/x) + log10(x) + log2(x) + sqrt(x):z + scale(z) + center(year)", "gaussian"),
    ("y ~ I(x > 2) + I(z <= 0) + I(-z >= x) + I(code != 1) + I(kind == 'u'):x + I(kind != 'v'):z", "gaussian"),
    ("y ~ s(x) + s(z, by=kind) + s(year, by=z) + (1 | group)", "gaussian"),
    ("y ~ z + (1 + x | group) + (0 + z | code) + (1 | group:kind)", "student_t"),
    ("y ~ te(x, z) + s(hour, period=24)", "gaussian"),
    ("y ~ map(lon, lat, neighbours=5) + x", "gaussian"),
    ("y ~ map(lon, lat, sphere=True) + area(side)", "gaussian"),
    ("y ~ series(day) + x + (1 | code)", "gaussian"),
    ("y ~ day + series(hour, by=group, season=24)", "gaussian"),
    ("count ~ s(x) + (1 | group) + area(side, model='icar') + offset(0.1*x) + offset(log(x))", "poisson"),
    ("count ~ s(x) + map(lon, lat) + series(hour)", "negative_binomial"),
    ("left ~ x + s(z) + (1 | group)", "logit"),
    ("left ~ kind + (1 + z | code)", "probit"),
]


def exported(model: Any, folder: Path) -> Predictor:
    sitewise.export(model, folder / "model.npz")
    return Predictor(folder / "model.npz")


@pytest.mark.parametrize(("formula", "likelihood"), FORMULAS)
def test_predictions(formula: str, likelihood: str, tmp_path: Path) -> None:
    """New rows have levels without training rows, numbers beyond the knots, and places between those of the rows."""
    known = {"code": [code % 4 for code in NEW["code"]]} if "C(code" in formula else {}
    new = {**NEW, **known}
    model = sitewise.fit(formula, OLD, likelihood, graphs={"side": RING}, integrate=False)
    found, X = exported(model, tmp_path), np.asarray(model.design.inputs(model._table(new)))
    np.testing.assert_allclose(found.predict(new), model.predict(new), rtol=1e-10)
    if likelihood in ("logit", "probit"):
        np.testing.assert_allclose(found.predict_proba(new), model.estimator.predict_proba(X), rtol=1e-10)
        assert found.classes_.tolist() == ["no", "yes"]
    else:
        std = model.estimator.predict(X, return_std=True)[1]
        np.testing.assert_allclose(found.predict(new, return_std=True)[1], std, rtol=1e-10)


@pytest.mark.parametrize("terms", ["s(x) + (1 | group)", "map(lon, lat)", "series(hour)"])
def test_columns_in_large_and_small_units(terms: str, tmp_path: Path) -> None:
    """Posterior covariances of the coefficients differ by 28 orders of magnitude."""
    table, new = (
        {**each, "income": np.array(each["z"]) * 1e6, "share": np.array(each["x"]) * 1e-8} for each in (OLD, NEW)
    )
    model = sitewise.fit(f"y ~ income + share + {terms}", table, integrate=False)
    std = model.estimator.predict(np.asarray(model.design.inputs(model._table(new))), return_std=True)[1]
    np.testing.assert_allclose(exported(model, tmp_path).predict(new, return_std=True)[1], std, rtol=1e-10)


def test_standard_deviations_far_below_the_mean(tmp_path: Path) -> None:
    """Standard deviations do not depend on an offset; the library's own have an error of 3e-6 with it."""
    table = {"x": OLD["x"], "y": (1e6 * np.array(OLD["x"]) + np.array(OLD["z"])).tolist()}
    model = sitewise.fit("y ~ 0 + x + offset(1000000*x)", table, integrate=False)
    std = model.estimator.predict(np.column_stack([NEW["x"], np.zeros(25)]), return_std=True)[1]
    np.testing.assert_allclose(exported(model, tmp_path).predict(NEW, return_std=True)[1], std, rtol=1e-10)


def test_averages_over_hyperparameters(tmp_path: Path) -> None:
    model = sitewise.fit("y ~ s(x) + (1 | group)", OLD, integrate=True)
    np.testing.assert_allclose(exported(model, tmp_path).predict(NEW), model.predict(NEW), rtol=1e-10)


def test_kinds_of_tables(tmp_path: Path) -> None:
    """Groups that are numbers are the same as integers, numbers and texts; dates may be texts."""
    model = sitewise.fit("y ~ x + (1 | code) + s(day)", OLD, integrate=False)
    found, expected = exported(model, tmp_path), model.predict(NEW)
    names = ("x", "code", "day")
    rows = [{name: NEW[name][i] for name in names} for i in range(25)]
    texts = [{**row, "code": f" {row['code']} ", "day": row["day"].isoformat()} for row in rows]
    arrays = {"x": np.array(NEW["x"]), "code": np.array(NEW["code"], float), "day": np.array(NEW["day"], "M8[us]")}
    for table in (rows, texts, arrays):
        np.testing.assert_allclose(found.predict(table), expected, rtol=1e-10)
    frame = pytest.importorskip("pandas").DataFrame(arrays)
    np.testing.assert_allclose(found.predict(frame), expected, rtol=1e-10)


def test_prediction_needs_numpy_alone(tmp_path: Path) -> None:
    model = sitewise.fit("left ~ s(x) + map(lon, lat) + (1 | group)", OLD, "logit", integrate=False)
    sitewise.export(model, tmp_path / "model.npz")
    row = [{"x": 1.3, "lon": 3.5, "lat": 41.0, "group": "new"}]
    program = (
        "import sys; from numpy_predictor import Predictor\n"
        f"print(Predictor('model.npz').predict({row!r})[0])\n"
        "assert not {'jax', 'scipy', 'sklearn', 'sitewise'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(model.predict(row)[0], rel=1e-10)


def test_rows_that_cannot_be_predicted(tmp_path: Path) -> None:
    model = sitewise.fit("y ~ log(x) + kind + (1 | group) + area(side)", OLD, graphs={"side": RING}, integrate=False)
    predictor = exported(model, tmp_path)
    row = {"x": 1.0, "kind": "u", "group": "a", "side": "east"}
    for change, words in [
        ({"x": None}, "'x' has a missing value in row 1"),
        ({"group": "NA"}, "'group' has a missing value"),
        ({"kind": "q"}, "'kind' has categories that the model does not know: {'q'}"),
        ({"side": "up"}, "'side' has categories that the model does not know"),
        ({"x": "one"}, "could not convert"),
    ]:
        with pytest.raises(ValueError, match=words):
            predictor.predict([row, {**row, **change}])
    with pytest.raises(ValueError, match="no column 'kind'"):
        predictor.predict([{"x": 1.0, "group": "a", "side": "east"}])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="finite numbers"):
        predictor.predict([{**row, "x": -1.0}])


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("y ~ 1", "gaussian", {}, "without columns"),
    ("y ~ x; scale ~ z", "gaussian", {}, "varying parameter"),
    ("count ~ x", "poisson", {"exposure": "hour"}, "models with exposure; .* offset"),
    ("code ~ x", "ordinal", {}, "likelihood"),
    ("y ~ x + (1 | day)", "gaussian", {}, "that are dates, as in 'day'"),
]


@pytest.mark.parametrize(("formula", "likelihood", "more", "words"), REFUSED)
def test_what_cannot_be_exported_is_refused(
    formula: str, likelihood: str, more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    model = sitewise.fit(formula, OLD, likelihood, integrate=False, **more)
    with pytest.raises(UserError, match=words):
        model.export(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_dates_are_clock_times_and_time_zones_are_ignored(tmp_path: Path) -> None:
    model = sitewise.fit("y ~ day + series(hour)", OLD, integrate=False)
    found, day = exported(model, tmp_path), NEW["day"]
    expected = model.predict(NEW)
    zone = datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))
    spelled = [
        [d.isoformat() for d in day], [f"{d:%Y-%m-%d %H:%M:%S}.250Z" for d in day],
        [d.replace(tzinfo=zone) for d in day], [d.replace(tzinfo=zone).isoformat() for d in day],
        [f"{d:%Y-%m-%dT%H:%M:%S}+0200" for d in day],
        np.array(day, "datetime64[s]").astype(float) / 86400, np.array(day, "datetime64[us]"),
    ]  # fmt: skip
    for one in spelled:
        np.testing.assert_allclose(found.predict({**NEW, "day": one}), expected, rtol=1e-8)
    with pytest.raises(ValueError, match="05-2024"):
        found.predict({**NEW, "day": ["01-05-2024"] * len(day)})


def test_numbers_as_levels_are_named_as_in_the_library(tmp_path: Path) -> None:
    """Negative zeros, numbers from 2⁵³ on, and identifiers that are equal as floats."""
    codes = [-0.0, 1.0, 2.0**60, 1e20, 1 / 3, 1234567890123456000, 1234567890123456007]
    rows = [{"code": codes[k % len(codes)], "y": float(k % len(codes)) + 0.1 * np.sin(k)} for k in range(70)]
    model = sitewise.fit("y ~ (1 | code)", rows, integrate=False)
    found = exported(model, tmp_path)
    assert model.summary().groups == {"code": len(codes)}
    for new in (rows, [{"code": 0}, {"code": 1}, {"code": "1234567890123456000"}]):
        np.testing.assert_allclose(found.predict(new), model.predict(new), rtol=1e-10)
