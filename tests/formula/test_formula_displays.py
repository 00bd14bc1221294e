"""Displays and forecasts of fitted formulas: names of levels, dates, and seasons by one word."""

import numpy as np
import pytest
from typer.testing import CliRunner

import sitewise
from sitewise import ForecastDisplay, MapDisplay, TermsDisplay, UserError, forecast
from sitewise.app.commands import app
from sitewise.estimators import term_effects


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    table = {
        "day": np.datetime64("2024-01-01") + np.arange(60).astype("timedelta64[D]"),
        "shop": np.array(["north", "south"])[np.arange(60) % 2],
        "price": rng.normal(size=60),
    }
    table["sold"] = rng.poisson(5 + 2 * (np.arange(60) % 7 == 0))
    formula = "sold ~ price + series(day, season='week') + (1 | shop)"
    return sitewise.fit(formula, table, "poisson", method="laplace", integrate=False)


@pytest.mark.slow
def test_terms_have_names_of_levels_and_the_week_one_period(model) -> None:
    effects = {one.name: one for one in term_effects(model)}
    assert effects["linear"].columns == ("price",) and effects["linear"].kind == "coefficients"
    assert effects["(1 | shop)"].values.tolist() == ["north", "south"]
    week = effects['series(day, season="week"): week']
    assert np.ptp(week.values) == pytest.approx(7.0)
    mean, _ = model.posteriors.coefficients()
    np.testing.assert_allclose(effects["linear"].mean, mean, rtol=1e-6)
    shown = TermsDisplay.from_estimator(model)
    assert "log of the mean" in shown.caption


@pytest.mark.slow
def test_forecasts_of_dates(model) -> None:
    with pytest.raises(ValueError, match=r"further columns \(price\)"):
        forecast(model, 3)
    days = np.array(["2024-03-01", "2024-03-02"], "datetime64[D]")
    new = {"day": days, "shop": ["north", "new"], "price": [0.0, 1.0]}
    found = forecast(model, new=new)
    assert found.time[0] == np.datetime64("2024-03-01") and found.series == ("north", "new")
    np.testing.assert_allclose(found.mean, model.predict(new))
    shown = ForecastDisplay.from_estimator(model, new=new)
    assert len(shown.axes_) == 2 and shown.axes_[0].get_ylabel() == "sold"


@pytest.mark.slow
def test_a_map_of_a_formula() -> None:
    rng = np.random.default_rng(1)
    table = {"lon": rng.uniform(0, 1, 40), "lat": rng.uniform(0, 1, 40), "z": rng.normal(size=40)}
    table["y"] = np.sin(6 * table["lon"]) + 0.1 * rng.normal(size=40)
    model = sitewise.fit("y ~ z + map(lon, lat)", table, integrate=False)
    shown = MapDisplay.from_estimator(model, grid=4)
    assert shown.columns == ("lon", "lat") and not shown.factor
    new = {"lon": shown.places[:, 0], "lat": shown.places[:, 1], "z": np.zeros(16)}
    found = model.predict(new, terms="map(lon, lat)")
    np.testing.assert_allclose(shown.mean, found.mean[:, 0], atol=1e-6)
    np.testing.assert_allclose(shown.sd, found.sd[:, 0], rtol=1e-6)


@pytest.mark.slow
def test_a_map_of_the_second_formula_is_drawn_on_its_scale() -> None:
    rng = np.random.default_rng(4)
    table = {"x": rng.uniform(0, 1, 60), "z": rng.uniform(0, 1, 60)}
    table["y"] = 3 * table["x"] + np.exp(2 * table["z"] - 1) * rng.normal(size=60)
    model = sitewise.fit("y ~ x; scale ~ map(x, z)", table, method="laplace", integrate=False)
    effects = term_effects(model, map_points=4)
    for columns in (None, ("x", "z")):
        shown = MapDisplay.from_estimator(model, columns, grid=4)
        np.testing.assert_allclose(shown.mean, effects[-1].mean, atol=1e-9)
        np.testing.assert_allclose(shown.sd, effects[-1].sd, rtol=1e-6)
        assert shown.label == "effect on the log scale" and not shown.factor and np.ptp(shown.mean) > 0.1
    assert TermsDisplay.from_estimator(model).caption.startswith("Effect on y and effect on the log scale per term")


@pytest.mark.slow
def test_a_map_of_columns_of_the_second_formula_is_of_its_whole_function() -> None:
    rng = np.random.default_rng(5)
    table = {"x": rng.uniform(0, 1, 60), "z": rng.uniform(0, 1, 60)}
    table["y"] = np.exp(2 * table["z"]) * rng.normal(size=60)
    model = sitewise.fit("y ~ 1; scale ~ x + z", table, method="laplace", integrate=False)
    shown = MapDisplay.from_estimator(model, grid=3)
    slopes = model.posteriors_of(1).coefficients()[0]
    change = shown.mean[-1] - shown.mean[0]
    assert change == pytest.approx(slopes @ (shown.places[-1] - shown.places[0]), rel=1e-6)
    held = sitewise.fit("y ~ offset(x); scale ~ offset(z)", table, method="laplace", integrate=False)
    with pytest.raises(ValueError, match="No term of the model depends on"):
        MapDisplay.from_estimator(held, grid=3)


@pytest.mark.parametrize(
    ("season", "words"),
    [("'month'", "must be one of"), ("'week'", "column of dates"), ("x", "or a number"), ("0.5", "too far")],
)
def test_impossible_seasons_are_refused(season: str, words: str) -> None:
    table = {"t": np.arange(20.0), "x": np.ones(20), "y": np.arange(20.0)}
    with pytest.raises(UserError, match=words):
        sitewise.fit(f"y ~ series(t, season={season})", table)


@pytest.mark.slow
def test_a_report_has_the_summary_the_terms_and_the_maps(tmp_path) -> None:
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.uniform(0, 1, (40, 3)), np.arange(40) % 5])
    lines = [f"{a},{b},{c},g{int(g)},{np.sin(5 * a) + c:.4f}" for a, b, c, g in rows]
    (tmp_path / "t.csv").write_text("\n".join(["lon,lat,z,g,y", *lines]))
    out = tmp_path / "report.html"
    formula = "y ~ z + (1 | g) + map(lon, lat)"
    done = CliRunner().invoke(app, ["model", str(tmp_path / "t.csv"), formula, "--report", str(out)])
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert "leave-one-out" in page and "probability of an effect above the average" in page
    assert page.count("<svg") == 5  # coefficients, levels, three maps


@pytest.mark.slow
def test_correlated_slopes_are_lines_per_level() -> None:
    rng = np.random.default_rng(3)
    table = {"x": rng.uniform(0, 10, 60), "g": np.array(list("abc"))[np.arange(60) % 3]}
    table["y"] = table["x"] * (np.arange(60) % 3) + rng.normal(size=60)
    model = sitewise.fit("y ~ x + (1 + x | g)", table, integrate=False)
    lines = term_effects(model)[1]
    assert lines.kind == "curve" and lines.series == ("a", "b", "c") and lines.columns == ("x",)
    slopes = np.diff(lines.mean)[:, 0] / np.diff(lines.values)[0]
    np.testing.assert_allclose(slopes - slopes.mean(), [-1, 0, 1], atol=0.1)
