"""Summaries, comparisons, checks, draws and files of fitted formulas."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sitewise
from sitewise import Method, UserError
from sitewise.estimators import duration
from sitewise.estimators.training import FitWarning
from sitewise.fitted.loo import ValueLoo
from sitewise.formula import FormulaModel, fit_formula
from sitewise.formula.fit_warnings import in_words
from sitewise.formula.predictive_checks import check_of

ROWS = 60


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = {"x": rng.uniform(0, 3, ROWS), "g": np.array(list("abcdef"))[rng.integers(0, 6, ROWS)]}
    found["w"] = rng.uniform(1, 3, ROWS)
    effect = dict(zip("abcdef", 0.5 * rng.normal(size=6), strict=True))
    rate = np.exp(0.5 * found["x"] + np.array([effect[g] for g in found["g"]]))
    return {**found, "y": rng.poisson(found["w"] * rate), "b": rng.uniform(size=ROWS) < 0.5 + 0.1 * found["x"]}


@pytest.fixture(scope="module")
def model(data: dict[str, Any]) -> FormulaModel:
    return sitewise.fit("y ~ x + (1 + x | g)", data, "poisson", exposure="w", integrate=False)


@pytest.fixture(scope="module")
def plain(data: dict[str, Any]) -> FormulaModel:
    return sitewise.fit("y ~ x", data, "poisson", exposure="w", integrate=False)


def test_the_summary_prints_and_is_a_data_frame(model: FormulaModel) -> None:
    pytest.importorskip("pandas")
    found = model.summary(0.8)
    text = str(found)
    for part in ("y ~ x + (1 + x | g)", "levels: g 6", "evidence", "leave-one-out", "intercept", "correlation of 1, x"):
        assert part in text
    frame = found.to_frame()
    assert list(frame.index) == ["intercept", "x"] and (frame["low"] < frame["estimate"]).all()
    assert found.to_frame("terms").loc["(1 + x | g)", "parameters"] < 12
    assert "<table>" in found._repr_html_() and found.to_dict()["linear"][1]["term"] == "x"
    with pytest.raises(ValueError, match="'linear', 'terms' or 'parameters'"):
        found.to_frame("rows")


def test_a_model_without_hyperparameters_has_a_summary(plain: FormulaModel) -> None:
    found = plain.summary()
    assert found.terms == [] and found.parameters == []
    assert np.isclose(found.effective, 2.0, atol=0.05)


def test_coefficients_of_a_poisson_regression_are_near_the_maximum(plain: FormulaModel, data: dict[str, Any]) -> None:
    mean = plain.predict()
    slope = np.sum((data["y"] - mean) * data["x"]) / np.sum(mean * data["x"] ** 2)
    assert abs(slope) < 0.02  # the score is nearly zero


def test_an_intercept_alone_is_a_formula(data: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sitewise.fit("y ~ 1 + offset(log(w))", data, "poisson", integrate=False)
        assert [row[0] for row in found.summary().linear] == ["intercept"]
    assert found.predict(terms=True).mean.shape == (ROWS, 0)
    assert np.isclose(np.sum(found.predict()), np.sum(data["y"]), rtol=1e-2)


def test_compare_puts_the_better_model_first(model: FormulaModel, plain: FormulaModel) -> None:
    found = sitewise.compare(plain, model)
    assert found.formulas[0] == model.formula and found.loo_difference[0] == 0
    gaps = plain.loo.log_density - model.loo.log_density
    assert np.isclose(found.loo_difference[1], gaps.sum())
    assert np.isclose(found.loo_error[1], np.sqrt(ROWS) * gaps.std(ddof=1))
    assert np.isclose(found.evidence_difference[1], plain.log_evidence - model.log_evidence)
    assert plain.formula in str(found)
    with pytest.raises(UserError, match="at least two"):
        sitewise.compare(model)


def test_other_rows_are_not_compared(model: FormulaModel, data: dict[str, Any]) -> None:
    fewer = {name: values[:40] for name, values in data.items()}
    other = sitewise.fit("y ~ x", fewer, "poisson", exposure="w", integrate=False)
    with pytest.raises(UserError, match="same table"):
        sitewise.compare(model, other)


def test_checks_notice_overdispersion_and_zeros(plain: FormulaModel, data: dict[str, Any]) -> None:
    found = plain.check(draws=100)
    assert found.pit_counts.sum() == ROWS and 0 <= np.nanmin(found.pit) <= np.nanmax(found.pit) <= 1
    assert found.rootogram is not None and found.rootogram["observed"].sum() <= ROWS
    assert "tail probability" in str(found)
    heavy = {**data, "y": data["y"] * np.where(np.arange(ROWS) % 3, 0, 6)}
    bad = sitewise.fit("y ~ x", heavy, "poisson", exposure="w", integrate=False).check(draws=100)
    assert bad.statistics["dispersion"][0] > 2 and bad.statistics["dispersion"][2] == 0
    assert bad.statistics["zeros"][2] == 0


@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_correlations_of_residuals_are_noticed(order: str) -> None:
    rng = np.random.default_rng(1)
    residual = np.convolve(rng.normal(size=102), np.ones(3) / np.sqrt(3), "valid")
    draws, time = rng.normal(size=(300, 100)), np.arange(100.0)
    loo = ValueLoo(-0.5 * residual**2, np.full(100, 0.5), np.zeros(100), np.ones(100))
    if order == "shuffled":
        time = rng.permutation(time)
    places = np.column_stack([time, np.zeros(100)])
    found = check_of(residual, draws, loo, False, residual[None], places, (time, np.zeros(100)), 0).statistics
    noticed = found["correlation in time"], found["correlation of neighbours"]
    assert all((one[0] > 0.2 and one[2] == 0) if order == "in order" else one[2] > 0.01 for one in noticed)


def test_a_file_predicts_the_same(model: FormulaModel, data: dict[str, Any], tmp_path: Path) -> None:
    model.save(tmp_path / "m.sitewise")
    loaded = sitewise.load(tmp_path / "m.sitewise")
    new = {"x": [0.5, 1.0], "g": ["a", "new"], "w": [1.0, 2.0]}
    assert isinstance(loaded, FormulaModel) and loaded.formula == model.formula
    assert np.array_equal(loaded.predict(new), model.predict(new))
    assert [term.name for term in loaded.terms] == [term.name for term in model.terms]
    assert np.array_equal(loaded.simulate(new, 3), model.simulate(new, 3))


def test_predictions_of_terms_and_intervals(model: FormulaModel, data: dict[str, Any]) -> None:
    found = model.predict(data, interval=0.8)
    assert np.all(found.low <= found.high) and np.mean((found.low <= data["y"]) & (data["y"] <= found.high)) > 0.7
    terms = model.predict(data, terms=["(1 + x | g)"], interval=0.5)
    assert terms.mean.shape == (ROWS, 1) and np.all(terms.low < terms.high)
    with pytest.raises(UserError, match="the terms are"):
        model.predict(data, terms="s(x)")
    with pytest.raises(UserError, match="between 0 and 1"):
        model.predict(data, interval=90)
    with pytest.raises(UserError, match="no column 'g'"):
        model.predict({"x": [1.0]})
    assert model.simulate(draws=4).shape == (4, ROWS)


@pytest.mark.slow
def test_two_classes_and_ordered_labels(data: dict[str, Any]) -> None:
    found = sitewise.fit("b ~ x + (1 | g)", data, "logit", integrate=False)
    assert np.all((found.predict() > 0) & (found.predict() < 1))
    assert found.estimator.classes_[1] == "True" and "intercept" in str(found.summary())
    with pytest.raises(UserError, match="no interval"):
        found.predict(interval=0.9)
    stars = {**data, "stars": 1 + np.minimum(data["y"] // 4, 3)}
    rated = sitewise.fit("stars ~ x", stars, "ordinal", integrate=False)
    expected = rated.predict()
    assert np.all((expected >= 1) & (expected <= 4)) and np.corrcoef(expected, data["x"])[0, 1] > 0.9
    assert [row[0] for row in rated.summary().linear] == ["x"]


def test_warnings_name_terms(model: FormulaModel) -> None:
    found = in_words("kernel.parts.1.variance ended at a bound: it rises.", model.estimator)
    assert found == "The variance of (1 + x | g) ended at a bound: it rises."
    found = in_words("GPRegressor did not converge: it stopped. fit_report_ says more.", model.estimator)
    assert found == "The model did not converge: it stopped. estimator.fit_report_ says more."


def test_rows_of_weight_zero_do_not_count_and_rows_of_weight_two_count_twice():
    rng = np.random.default_rng(3)
    x = rng.normal(size=30)
    table = {"x": x, "y": x + rng.normal(size=30)}
    weight = np.r_[np.zeros(5), np.full(5, 2.0), np.ones(20)]
    copies = {name: np.repeat(values, weight.astype(int)) for name, values in table.items()}
    models = [sitewise.fit(f, table, weights=weight, integrate=False) for f in ("y ~ x", "y ~ 1")]
    others = [sitewise.fit(f, copies, integrate=False) for f in ("y ~ x", "y ~ 1")]
    found, wanted = models[0].summary(), others[0].summary()
    assert found.rows == 25
    assert found.loo == pytest.approx(wanted.loo, rel=1e-4)
    assert found.loo_error == pytest.approx(wanted.loo_error, rel=1e-4)
    found, wanted = sitewise.compare(*models), sitewise.compare(*others)
    np.testing.assert_allclose(found.loo_difference, wanted.loo_difference, rtol=1e-3)
    np.testing.assert_allclose(found.loo_error, wanted.loo_error, rtol=1e-3)


def test_rows_with_missing_values_are_left_out_on_request():
    rng = np.random.default_rng(4)
    table = {"x": rng.normal(size=30), "g": rng.choice(list("ab"), 30).astype(object), "n": rng.uniform(1, 2, 30)}
    table["y"] = table["x"] + rng.normal(size=30)
    gaps = {name: values.copy() for name, values in table.items()} | {"unused": np.full(30, np.nan)}
    gaps["x"][2], gaps["g"][3], gaps["y"][4], gaps["n"][5] = np.nan, None, np.nan, np.nan
    with pytest.raises(sitewise.UserError, match=r"'y', 'x', 'g', 'n', in row 3 and 3 more; .*missing='drop'"):
        sitewise.fit("y ~ x + (1 | g)", gaps, weights="n")
    weight = rng.uniform(size=30)
    found = sitewise.fit(
        "y ~ x + (1 | g)",
        gaps,
        weights=weight,
        likelihood="heteroscedastic_gaussian",
        noise="n",
        missing="drop",
        integrate=False,
    )
    kept = np.r_[0, 1, 6:30]
    whole = {name: values[kept] for name, values in table.items()}
    wanted = sitewise.fit(
        "y ~ x + (1 | g)",
        whole,
        weights=weight[kept],
        likelihood="heteroscedastic_gaussian",
        noise="n",
        integrate=False,
    )
    np.testing.assert_allclose(found.predict(whole), wanted.predict(whole))
    assert "4 of 30 rows have missing values in 'y', 'x', 'g', 'n' and are left out." in str(found.summary())
    with pytest.raises(sitewise.UserError, match="'refuse' or 'drop'"):
        sitewise.fit("y ~ x", table, missing="omit")


def test_declared_categories_give_the_reference_level_and_the_order_of_labels():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    size = rng.choice(["low", "mid", "high"], 60)
    frame = pandas.DataFrame({"x": rng.normal(size=60) + (size == "high")})
    frame["size"] = pandas.Categorical(size, categories=["low", "unused", "mid", "high"], ordered=True)
    assert sitewise.fit("x ~ size", frame).design.coefficients == ["size[mid]", "size[high]"]
    assert sitewise.fit("x ~ C(size, ref='mid')", frame).design.coefficients[0].endswith("[low]")
    model = sitewise.fit("size ~ x", frame, "ordinal", integrate=False)
    assert list(model.estimator.classes_) == ["low", "mid", "high"]
    with pytest.raises(sitewise.UserError, match="ordered category"):
        sitewise.fit("size ~ x", frame.astype({"size": object}), "ordinal")


def test_columns_that_other_columns_determine_are_named():
    x = np.arange(12.0)
    table = {"x": x, "twice": 2 * x + 1, "same": np.ones(12), "y": np.random.default_rng(0).normal(size=12)}
    with pytest.warns(match="earlier columns: 'twice', 'same';"):
        sitewise.fit("y ~ x + twice + same", table)


@pytest.mark.parametrize(("formula", "likelihood"), [("y ~ (1 | id)", "gaussian"), ("won ~ x + (x | id)", "logit")])
def test_a_group_with_one_row_per_level_is_named(formula, likelihood):
    rng = np.random.default_rng(0)
    table = {"id": np.arange(20), "y": rng.normal(size=20), "x": rng.normal(size=20)}
    table["won"] = table["y"] > 0
    with pytest.warns(match=r"id has one row per level, and the likelihood \w+ does not identify an effect per row; "):
        sitewise.fit(formula, table, likelihood, integrate=False)


def test_effects_per_row_of_counts_pass_without_a_warning():
    rng = np.random.default_rng(0)
    table = {"id": np.arange(40), "y": rng.poisson(np.exp(rng.normal(size=40)))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sitewise.fit("y ~ (1 | id)", table, "poisson", integrate=False)


def test_a_spline_without_curvature_is_said_to_be_a_straight_line():
    x = np.linspace(0, 1, 40)
    table = {"x": x, "y": x + 0.1 * np.random.default_rng(1).normal(size=40)}
    with pytest.warns(match=r"variance of s\(x\) is estimated as zero; the curve is a straight line"):
        sitewise.fit("y ~ s(x)", table)


def test_terms_are_found_however_their_names_are_spaced():
    rng = np.random.default_rng(6)
    table = {"x": rng.normal(size=40), "g": rng.integers(0, 4, 40), "y": rng.normal(size=40)}
    model = sitewise.fit("y ~ s(x,k=6) + (1|g)", table, integrate=False)
    for text in ("(1|g)", "(1 | g)", "s(x,k=6)"):
        assert model.predict(table, terms=text).mean.shape == (40, 1)
    with pytest.raises(sitewise.UserError, match="no term 'x'"):
        model.predict(table, terms="x")
    with pytest.raises(sitewise.UserError, match="one value per row"):
        model.predict({"x": 1.0, "g": 2})


def test_residuals_of_a_correct_map_and_series_are_not_correlated():
    rng = np.random.default_rng(7)
    place, day = rng.uniform(0, 4, (150, 2)), np.arange(150.0)
    f = np.sin(2 * place[:, 0]) + np.cos(2 * place[:, 1])
    table = {"a": place[:, 0], "b": place[:, 1], "day": day}
    table |= {"y": f + 0.5 * rng.normal(size=150), "n": rng.poisson(np.exp(1 + np.sin(day / 8)))}
    for formula, likelihood, name in (
        ("y ~ map(a, b)", "gaussian", "correlation of neighbours"),
        ("n ~ series(day)", "poisson", "correlation in time"),
    ):
        found = sitewise.fit(formula, table, likelihood, integrate=False).check().statistics[name]
        assert found[2] > 0.1, (name, found)


def test_a_map_of_longitude_and_latitude_is_on_the_sphere(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    lon, lat = rng.uniform(-20, 20, 60), rng.uniform(50, 70, 60)
    table = {"lon": lon, "lat": lat, "y": np.sin(lon / 5) + 0.1 * rng.normal(size=60)}
    model = sitewise.fit("y ~ map(lon, lat, sphere=True)", table, integrate=False)
    assert model.summary().to_frame("terms")["range"].iloc[0] > 90  # km, not degrees
    model.save(tmp_path / "map.sitewise")
    again = sitewise.load(tmp_path / "map.sitewise")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_forecasts_take_trials_from_the_future_rows():
    rng = np.random.default_rng(8)
    day = np.datetime64("2024-01-01") + np.arange(60).astype("timedelta64[D]")
    table = {"day": day, "n": np.full(60, 50.0), "late": rng.binomial(50, 0.3, 60).astype(float)}
    model = sitewise.fit("late ~ series(day)", table, "binomial", trials="n", integrate=False)
    new = {"day": day[-1:] + np.arange(1, 4).astype("timedelta64[D]"), "n": [50.0, 100.0, 10.0]}
    found = sitewise.forecast(model, new=new, levels=0.9)
    np.testing.assert_allclose(found.mean, model.predict(new))
    assert found.high[0, 1] > 25 > found.high[0, 0] > 10 > found.low[0, 2]
    assert "2024-03-01  " in str(found) and "00:00" not in str(found)
    with pytest.raises(sitewise.UserError, match="trials='n'"):
        sitewise.forecast(model, 3)
    found = sitewise.forecast(model, 3, trials=np.full(3, 50.0))
    assert np.all(found.mean > 5)


def test_the_effect_of_a_column_of_dates_is_drawn_over_dates():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    day = np.datetime64("2024-01-01") + np.arange(40).astype("timedelta64[D]")
    table = {"day": day, "y": np.sin(np.arange(40.0) / 5) + 0.1 * np.random.default_rng(9).normal(size=40)}
    model = sitewise.fit("y ~ series(day)", table, integrate=False)
    display = sitewise.TermsDisplay.from_estimator(model)
    assert display.axes_[0].lines[0].get_xdata().astype("datetime64[D]").min() >= day[0]
    pyplot.close("all")


def test_a_map_on_the_sphere_has_its_neighbours_across_the_date_line():
    rng = np.random.default_rng(8)
    lon, lat = rng.uniform(175, 185, 60), rng.uniform(-5, 5, 60)
    table = {"lon": (lon + 180) % 360 - 180, "lat": lat, "y": np.sin(lon) + 0.1 * rng.normal(size=60)}
    model = sitewise.fit("y ~ map(lon, lat, sphere=True)", table)
    west, east = model.predict({"lon": [180.0, -180.0], "lat": [0.0, 0.0]})
    assert np.isclose(west, east, atol=1e-6) and abs(west - np.sin(180)) < 0.2


def test_a_saved_formula_keeps_the_digits_of_its_numbers(tmp_path: Path):
    rng = np.random.default_rng(9)
    table = {"x": rng.uniform(1, 9, 50), "y": rng.normal(size=50)}
    model = sitewise.fit("y ~ s(I(1000 * log(x / 1.2345678)))", table, integrate=False)
    model.save(tmp_path / "model.sitewise")
    again = sitewise.load(tmp_path / "model.sitewise")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_an_unordered_category_is_no_ordinal_response() -> None:
    """`astype("category")` sorts labels by the alphabet: high < low < mid was fitted without a word."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    code = np.digitize(x, [-0.5, 0.5])
    frame = pandas.DataFrame({"x": x, "y": pandas.Categorical(np.array(["low", "mid", "high"])[code])})
    with pytest.raises(UserError, match="ordered=True"):
        sitewise.fit("y ~ x", frame, "ordinal")
    numbers = pandas.DataFrame({"x": x, "y": pandas.Categorical(9 + code)})  # numbers have an order
    model = sitewise.fit("y ~ x", numbers, "ordinal", integrate=False)
    assert [str(label) for label in model.estimator.classes_] == ["9", "10", "11"]
    listed = pandas.DataFrame({"x": x, "y": pandas.Categorical(9 + code, categories=[10, 9, 11])})
    assert sitewise.fit("y ~ x", listed, "ordinal", integrate=False).summary().outcome == "9 < 10 < 11"


def test_a_category_with_one_level_per_row_warns() -> None:
    """Dates or numbers that are strings became one coefficient per row without a word."""
    rows = 12
    table = {"y": np.random.default_rng(0).normal(size=rows), "id": [f"row {k}" for k in range(rows)]}
    table["day"] = [f"2024-01-{k + 1:02d}" for k in range(rows)]
    with pytest.warns(FitWarning, match=r"id is a category with a different level in every row, .*; leave it out\."):
        sitewise.fit("y ~ id", table, integrate=False)
    with pytest.warns(FitWarning, match="day is a category .* convert the strings to dates"):
        sitewise.fit("y ~ day", table, integrate=False)


def test_a_long_fit_is_announced_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The announcement came after the fit, and stood among the warnings of its summary."""
    monkeypatch.setattr(duration, "ANNOUNCED_SECONDS", 0.0)
    monkeypatch.setattr(duration, "MIN_ELAPSED_SECONDS", 0.0)
    running = [False]
    fitted = fit_formula.fitted_estimator

    def watched(*args: Any) -> Any:
        running[0] = True
        try:
            return fitted(*args)
        finally:
            running[0] = False

    monkeypatch.setattr(fit_formula, "fitted_estimator", watched)
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=30), "y": rng.poisson(2.0, 30)}
    while_running = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda m, category, *_: while_running.append((category, *running)))
        model = sitewise.fit("y ~ s(x)", table, "poisson", integrate=False)
    assert (duration.LongFitWarning, True) in while_running
    assert not any("takes about" in one for one in model.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monkeypatch.setattr(warnings, "showwarning", lambda m, category, *_: pytest.fail(str(m)))
        sitewise.fit("y ~ s(x)", table, "poisson", integrate=False)


def test_the_summary_names_the_class_of_the_probability_and_the_order_of_labels() -> None:
    x = np.random.default_rng(0).normal(size=40)
    table = {"x": x, "use": np.where(x > 0.3, "yes", "no"), "size": np.digitize(x, [-0.5, 0.5]) + 1, "z": x**2}
    found = sitewise.fit("use ~ z", table, "logit", integrate=False).summary()
    assert found.outcome == "P(use = yes)" and "logit, hybrid; P(use = yes)\n" in str(found)
    ordinal = sitewise.fit("size ~ z", table, "ordinal", integrate=False).summary()
    assert ordinal.outcome == "1 < 2 < 3"
    assert sitewise.fit("x ~ z", table, integrate=False).summary().outcome == ""


def test_a_comparison_of_likelihoods_names_them(data: dict[str, Any]) -> None:
    counts = sitewise.fit("y ~ x", data, "poisson", integrate=False)
    spread = sitewise.fit("y ~ x", data, "negative_binomial", integrate=False)
    found = sitewise.compare(counts, spread)
    assert set(found.likelihoods) == {"poisson", "negative_binomial"}
    assert "y ~ x, poisson " in str(found) and "y ~ x, negative_binomial " in str(found)
    same = sitewise.compare(counts, sitewise.fit("y ~ 1", data, "poisson", integrate=False))
    assert "poisson" not in str(same)


@pytest.mark.parametrize("spell", [lambda g: f"{g}.0", lambda g: f"0{g}"])
def test_a_group_in_another_format_is_no_new_level_in_silence(spell: Any) -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, 40)
    table = {"g": group.astype(str), "y": group + rng.normal(size=40)}
    model = sitewise.fit("y ~ (1 | g)", table, integrate=False)
    with pytest.warns(UserWarning, match="predicted as a new level, although the fit has"):
        model.predict({"g": [spell(g) for g in group]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict({"g": ["7", "new"]})
    fixed = sitewise.fit("y ~ C(g)", table, integrate=False)
    with pytest.raises(UserError, match=r"levels that the fit did not have \('7'\); a group \(1 \| g\) predicts"):
        fixed.predict({"g": ["7"]})


@pytest.mark.parametrize("right", ["x + g", "scale(x)", "(1 + x | g)", "s(x, by=z) + s(z)"])
def test_means_and_standard_deviations_of_columns_are_those_of_weighted_rows(right: str) -> None:
    """Priors of coefficients used all rows alike, so that a row of weight 0 with an outlier shrank a slope to zero."""
    rng = np.random.default_rng(12)
    table = {"x": rng.normal(size=40), "z": rng.uniform(1, 2, 40), "g": np.array(list("abcd"))[np.arange(40) % 4]}
    table["y"] = 2 * table["x"] + 0.3 * rng.normal(size=40)
    weight = np.r_[np.zeros(3), np.full(7, 2.0), np.ones(30)]
    copies = {name: np.repeat(values, weight.astype(int)) for name, values in table.items()}
    for name in ("x", "z", "y"):
        table[name][:3] *= 1e4
    accurate = Method("hybrid", tol=1e-9)  # searches that end early may end a round apart
    found = sitewise.fit(f"y ~ {right}", table, weights=weight, integrate=False, method=accurate)
    wanted = sitewise.fit(f"y ~ {right}", copies, integrate=False, method=accurate)
    np.testing.assert_allclose(found.predict(copies), wanted.predict(copies), rtol=1e-6)
    np.testing.assert_allclose(found.log_evidence, wanted.log_evidence, rtol=1e-9)
    for one, other in zip(
        (*found.summary().linear, *found.summary().terms), (*wanted.summary().linear, *wanted.summary().terms),
        strict=True,
    ):  # fmt: skip
        assert one[0] == other[0]
        numbers = np.array([[np.nan if value is None else value for value in row[1:]] for row in (one, other)])
        np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-8)


def test_groups_with_identifiers_of_19_digits_remain_different() -> None:
    rng = np.random.default_rng(0)
    group, effect = np.arange(40) % 4, np.array([-3.0, -1.0, 1.0, 3.0])
    ids = 1234567890123456000 + 7 * group
    model = sitewise.fit("y ~ (1 | id)", {"id": ids, "y": effect[group] + 0.1 * rng.normal(size=40)}, integrate=False)
    assert model.summary().groups == {"id": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict({"id": [*map(str, ids[:4]), ids[0] + 1]})
    np.testing.assert_allclose(found[:4] - found[4], effect, atol=0.3)


def test_rows_of_weight_zero_give_no_reference_level_and_no_rank() -> None:
    """The reference level had no rows of positive weight, and every coefficient was noise."""
    rng = np.random.default_rng(0)
    table = {"g": np.array(list("b" * 25 + "c" * 25 + "a" * 10)), "y": rng.normal(size=60)}
    weight = np.r_[np.ones(50), np.zeros(10)]
    found = sitewise.fit("y ~ g", table, weights=weight)
    wanted = sitewise.fit("y ~ g", {name: values[:50] for name, values in table.items()})
    assert [row[0] for row in found.summary().linear] == [row[0] for row in wanted.summary().linear]
    np.testing.assert_allclose(found.predict({"g": ["b", "c"]}), wanted.predict({"g": ["b", "c"]}), rtol=1e-10)
    assert "10 of 60 rows have weight 0 and are left out." in str(found.summary())
    with pytest.raises(UserError, match="levels that the fit did not have"):
        found.predict({"g": ["a"]})
    same = {"x": np.r_[np.ones(50), rng.normal(size=10)], "y": table["y"]}
    with pytest.warns(FitWarning, match="Linear combinations of the intercept"):
        sitewise.fit("y ~ x", same, weights=weight)
    with pytest.raises(UserError, match="Only 0 of 60 weights are positive"):
        sitewise.fit("y ~ g", table, weights=np.zeros(60))
