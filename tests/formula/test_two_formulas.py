"""A second formula for a parameter of the likelihood: units, terms, summary, files, command line, pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sitewise
from sitewise import TermsDisplay, UserError
from sitewise.app.commands import app
from sitewise.app.report.formula_page import formula_report
from sitewise.estimators import importance, lengthscales, term_effects
from sitewise.formula import FormulaModel

ROWS = 150
BOTH = ["y ~ s(x) + z + (1 | g)", "scale ~ x + (1 | g)"]


def table(seed: int = 0, rows: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = {
        "x": rng.uniform(0, 10, rows),
        "z": rng.normal(size=rows),
        "g": np.array(list("abcde"))[np.arange(rows) % 5],
    }
    mean = np.sin(found["x"]) + 0.5 * found["z"] + 0.7 * (np.arange(rows) % 5)
    return {**found, "y": 100 + 20 * (mean + np.exp(-1 + 0.15 * found["x"]) * rng.normal(size=rows))}


@pytest.fixture(scope="module")
def model() -> FormulaModel:
    return sitewise.fit(BOTH, table())


def test_the_scale_is_recovered_in_the_units_of_y(model: FormulaModel) -> None:
    found = model.summary(0.99)
    assert found.varying == "log scale" and found.formula == "; ".join(BOTH)
    rows = {name: (low, high) for name, _, _, low, high in found.varying_linear}
    for name, truth in (("intercept", np.log(20) - 1), ("x", 0.15)):
        assert rows[name][0] < truth < rows[name][1]
    text = str(found)
    for part in ("log scale: linear terms (99% intervals)", "log scale: smooth and group terms", "(1 | g)"):
        assert part in text
    assert found.effective > 10 and "log scale" in found._repr_html_()
    assert [row["term"] for row in found.to_dict()["varying_linear"]] == ["intercept", "x"]
    pytest.importorskip("pandas")
    assert list(found.to_frame("varying_terms").index) == ["(1 | g)"]


def test_terms_of_both_functions_add_up(model: FormulaModel) -> None:
    names = tuple(term.name for term in model.terms if term.kind != "intercept")
    assert names == ("linear", "s(x)", "(1 | g)", "scale: linear", "scale: (1 | g)")
    found = model.predict(terms=True)
    assert found.names == names
    both = model.estimator.predict_latent(model.estimator._X)
    for number, columns in enumerate((slice(0, 3), slice(3, 5))):
        whole = model.posteriors_of(number).intercept()[0] + found.mean[:, columns].sum(axis=1)
        np.testing.assert_allclose(whole, both[:, number], rtol=1e-8)
    assert model.predict(terms=["scale:(1|g)", "(1|g)"]).names == ("scale: (1 | g)", "(1 | g)")
    assert model.predict(terms="scale:intercept").names == ("scale: intercept",)
    with pytest.raises(UserError, match="'scale: linear'"):
        model.predict(terms="scale: s(x)")


def test_predictions_average_over_both_functions(model: FormulaModel) -> None:
    new = {"x": [1.0, 9.0], "z": [0.0, 0.0], "g": ["a", "new"]}
    found = model.predict(new, interval=0.9)
    np.testing.assert_allclose(found.mean, model.predict(new))
    width = found.high - found.low
    assert width[1] > 1.5 * width[0]
    drawn = model.simulate(new, draws=4000, seed=1)
    np.testing.assert_allclose(np.mean((drawn > found.low) & (drawn < found.high), axis=0), 0.9, atol=0.02)
    one = sitewise.fit(BOTH[0], table())
    compared = sitewise.compare(one, model)
    assert compared.formulas[0] == model.formula and compared.loo_difference[1] < -3
    # One learned from EP's evidence and the other from the ELBO: both are compared by EP's.
    each = [fitted.estimator._evidences(("ep",))["ep"] for fitted in (model, one)]
    np.testing.assert_allclose(compared.evidence, each)
    assert abs(model.log_evidence - each[0]) > 1e-3
    assert model.check(draws=50).statistics["dispersion"][2] > 0.01


def test_a_file_holds_both_formulas(model: FormulaModel, tmp_path: Path) -> None:
    file = tmp_path / "m.sitewise"
    model.save(file)
    loaded = sitewise.load(file)
    new = {"x": [1.0], "z": [0.0], "g": ["b"]}
    np.testing.assert_array_equal(loaded.predict(new, terms=True).mean, model.predict(new, terms=True).mean)
    assert loaded.terms == model.terms and loaded.summary().varying_terms == model.summary().varying_terms


def test_a_list_is_the_text_with_a_semicolon_and_aliases_are_known() -> None:
    data = table(1, 60)
    first = sitewise.fit(["y ~ x", "scale ~ x"], data)
    other = sitewise.fit("y ~ x; sigma ~ x", data)
    np.testing.assert_array_equal(first.predict(), other.predict())
    assert [term.name for term in other.terms][-1] == "sigma: intercept"


def test_a_constant_scale_is_the_model_of_one_formula() -> None:
    data = table(2, 80)
    both, one = sitewise.fit("y ~ x + z; scale ~ 1", data), sitewise.fit("y ~ x + z", data)
    found, want = (np.array([row[1:3] for row in m.summary().linear]) for m in (both, one))
    np.testing.assert_allclose(found[:, 0], want[:, 0], atol=0.02 * want[:, 1].min())
    np.testing.assert_allclose(found[:, 1], want[:, 1], rtol=0.05)
    ((_, level, *_),) = both.summary().varying_linear
    assert abs(level - np.log(one.summary().parameters[0][1])) < 0.05


def test_without_an_intercept_the_log_scale_is_zero_in_the_units_of_y() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.integers(0, 5, 120).astype(float), rng.uniform(0, 1, 120)
    data = {"x": x, "w": w, "y": 50 * x + np.exp(0.4 * x + w) * rng.normal(size=120)}
    model = sitewise.fit("y ~ x; scale ~ 0 + x + offset(w)", data)
    ((name, slope, error, *_),) = model.summary().varying_linear
    assert name == "x" and abs(slope - 0.4) < 3 * error
    found = model.predict_parameter({"x": [0.0, 0.0], "w": [0.0, 1.0]})
    np.testing.assert_allclose(found, 3 * [[1.0, np.e]], rtol=1e-6)
    with pytest.raises(UserError, match="for a second formula"):
        sitewise.fit("y ~ x", data).predict_parameter()


def test_an_offset_beside_an_intercept_shifts_the_second_function() -> None:
    rng = np.random.default_rng(4)
    data = {"x": rng.normal(size=80), "w": rng.uniform(0, 2, 80)}
    data["y"] = data["x"] + np.exp(data["w"] - 2) * rng.normal(size=80)
    model = sitewise.fit("y ~ x; scale ~ offset(w)", data)
    scale = model.predict_parameter({"x": [0.0, 0.0], "w": [0.0, 1.0]})[0]
    np.testing.assert_allclose(scale[1] / scale[0], np.e, rtol=1e-8)
    assert abs(np.log(scale[0]) + 2) < 0.4


def test_excess_zeros_depend_on_a_column() -> None:
    rng = np.random.default_rng(5)
    data = {"x": rng.normal(size=300), "z": rng.normal(size=300)}
    zero = rng.uniform(size=300) < 1 / (1 + np.exp(-1.5 * data["z"]))
    data["n"] = np.where(zero, 0, rng.poisson(np.exp(1 + 0.3 * data["x"])))
    model = sitewise.fit("n ~ x; zero ~ z", data, "zero_inflated_poisson")
    found = model.summary()
    assert found.varying == "log odds of inflation"
    slope, error = found.varying_linear[1][1:3]
    assert abs(slope - 1.5) < 3 * error < 1.5
    assert model.check(draws=50).statistics["zeros"][2] > 0.01


def test_side_information_serves_both_functions() -> None:
    rng = np.random.default_rng(8)
    data = {"x": rng.normal(size=200), "n": rng.uniform(1, 3, 200)}
    shape = np.exp(1 + data["x"])
    data["y"] = rng.poisson(data["n"] * np.exp(0.5 * data["x"]) * rng.gamma(shape, 1 / shape))
    model = sitewise.fit("y ~ x; shape ~ x", data, "negative_binomial", exposure="n")
    found = model.summary()
    assert found.varying == "log shape" and abs(found.linear[1][1] - 0.5) < 3 * found.linear[1][2]
    new = {"x": [0.5, 0.5], "n": [1.0, 2.0]}
    ratio = model.predict(new)
    np.testing.assert_allclose(ratio[1] / ratio[0], 2.0, rtol=1e-9)


def test_rows_with_missing_values_of_the_second_formula_are_left_out() -> None:
    data = table(6, 40)
    data["w"] = np.where(np.arange(40) == 3, np.nan, data["z"])
    with pytest.raises(UserError, match="'w'"):
        sitewise.fit("y ~ x; scale ~ w", data)
    assert sitewise.fit("y ~ x; scale ~ w", data, missing="drop").rows == 39


def test_pictures_show_the_terms_of_both_functions(model: FormulaModel) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    found = {one.name: one for one in term_effects(model)}
    assert list(found) == ["linear", "s(x)", "(1 | g)", "log scale: linear", "log scale: (1 | g)"]
    slope = found["log scale: linear"]
    assert slope.label == "effect on the log scale" and slope.columns == ("x",)
    estimate = {row[0]: row[1:3] for row in model.summary().varying_linear}["x"]
    np.testing.assert_allclose([slope.mean[0], slope.sd[0]], estimate, rtol=1e-6)
    display = TermsDisplay.from_estimator(model)
    assert [panel.get_xlabel() for panel in display.axes_][-1] == "effect on the log scale"
    assert "log scale: (1 | g)" in formula_report(model)
    shares = importance(model, function="log scale")
    assert shares.total[list(shares.names).index("x")] > 0.5
    with pytest.raises(ValueError, match="lengthscales is for models with one latent function"):
        lengthscales(model)


def test_the_command_takes_a_second_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitewise.app.commands.model_formula.own_process", lambda: None)
    data = table(7, 60)
    lines = [f"{x:.5f},{y:.5f}" for x, y in zip(data["x"], data["y"], strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
    done = CliRunner().invoke(app, ["model", str(tmp_path / "t.csv"), "y ~ x; scale ~ x", "--json"])
    assert done.exit_code == 0, done.output
    assert [row["term"] for row in json.loads(done.stdout)["summary"]["varying_linear"]] == ["intercept", "x"]
