"""Forecasts: future rows of every series, intervals of the predictive distribution, seasons by one word."""

import numpy as np
import pytest

import sitewise
from sitewise import ForecastDisplay, GPClassifier, GPRegressor, Hyperparameters, forecast, kernels
from sitewise.parts import Levels, Linear, Season, Series, seasons

HELD = Hyperparameters(fixed="*")


@pytest.fixture(scope="module")
def model() -> GPRegressor:
    t = np.repeat(np.arange(40.0), 2)
    series = np.tile([3.0, 7.0], 40)
    counts = np.round(5 + 3 * np.sin(2 * np.pi * t / 8) + series / 7)
    keep = (series == 3) | (t < 30)  # the second series ends earlier
    X = np.column_stack([t, series])[keep]
    parts = [Series(0, kernel=kernels.Matern32(4.0, 0.2), by=1), Season(0, period=8.0), Levels(1)]
    return GPRegressor(likelihood="poisson", structure=parts, hyperparameters=HELD).fit(X, counts[keep])


def test_every_series_is_continued_from_its_own_end(model: GPRegressor) -> None:
    found = forecast(model, 3, levels=0.8)
    assert found.series == ("3",) * 3 + ("7",) * 3 and found.name == "x0"
    np.testing.assert_array_equal(found.time, [40, 41, 42, 30, 31, 32])
    rows = np.column_stack([found.time, [3, 3, 3, 7, 7, 7]])
    np.testing.assert_allclose(found.mean, model.predict(rows))
    low, high = model.predict_interval(rows, 0.8)
    np.testing.assert_array_equal((found.low[0], found.high[0]), (low, high))
    assert str(found).splitlines()[0].split() == ["series", "x0", "mean", "low", "80", "%", "high", "80", "%"]


def test_given_times_and_rows(model: GPRegressor) -> None:
    found = forecast(model, times=[50.0, 51.0])
    np.testing.assert_array_equal(found.time, [50, 51, 50, 51])
    other = forecast(model, new=np.array([[50.0, 3.0], [51.0, 3.0]]))
    np.testing.assert_allclose(other.mean, found.mean[:2])
    assert found.low.shape == (2, 4) and np.all(found.low[1] <= found.low[0])


def test_a_trend_reverts_to_its_mean_and_a_season_goes_on() -> None:
    t = np.arange(60.0)
    y = 0.5 * t + np.sin(2 * np.pi * t / 6)
    parts = [Series(0, kernel=kernels.Matern32(5.0)), Season(0, period=6.0)]
    model = GPRegressor(structure=parts, hyperparameters=HELD).fit(t[:, None], y)
    far = forecast(model, times=1000.0 + np.arange(12.0))
    np.testing.assert_allclose(far.mean[:6], far.mean[6:], rtol=1e-6)
    assert np.ptp(far.mean) > 1.0 and abs(far.mean.mean() - y.mean()) < 15.0


def test_two_classes_have_intervals_of_the_probability() -> None:
    t = np.arange(40.0)
    label = np.sin(2 * np.pi * t / 8) > 0
    model = GPClassifier(structure=[Season(0, period=8.0)], hyperparameters=HELD).fit(t[:, None], label)
    found = forecast(model, 8)
    np.testing.assert_allclose(found.mean, model.predict_proba(found.time[:, None])[:, 1])
    assert np.all((found.low[1] < found.mean) & (found.mean < found.high[1]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Give one of horizon"),
        ({"horizon": 2, "times": [1.0]}, "Give one of horizon"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2, "levels": 90}, "levels must lie"),
        ({"horizon": 2, "time": "z"}, "no column 'z'"),
    ],
)
def test_impossible_forecasts_are_refused(model: GPRegressor, given: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        forecast(model, **given)


def test_regressors_of_the_future_must_be_given() -> None:
    t = np.arange(30.0)
    X = np.column_stack([t, t % 3 == 0])
    model = GPRegressor(structure=[Series(0), Linear(1)], hyperparameters=HELD).fit(X, np.sin(t))
    with pytest.raises(ValueError, match=r"further columns \(x1\)"):
        forecast(model, 2)
    assert forecast(model, new=X[:4]).mean.shape == (4,)


def test_a_word_has_all_seasons_that_the_spacing_shows() -> None:
    hours = np.arange(0, 30, 1 / 24)
    found = seasons(0, "week", hours, day=1.0)
    assert [(part.name, part.period, part.harmonics) for part in found] == [("day", 1.0, 12), ("week", 7.0, 84)]
    assert [part.name for part in seasons(0, "year", np.arange(800.0), day=1.0)] == ["week", "year"]
    assert [part.name for part in seasons(0, ["day", "year"], hours, day=1.0)] == ["day", "year"]
    (one,) = seasons("month", 12, np.arange(60))
    assert (one.period, one.harmonics, one.name) == (12.0, 6, "season of 12")


@pytest.mark.parametrize(
    ("season", "day", "words"),
    [
        ("month", 1.0, "one of .day."),
        ("week", None, "column of dates"),
        (-1, None, "as a number"),
        (1.5, None, "too far"),
    ],
)
def test_impossible_seasons_are_refused(season: object, day: float | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        seasons(0, season, np.arange(50.0), day=day)


def test_the_picture_shows_the_last_rows_and_all_levels(model: GPRegressor) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    shown = ForecastDisplay.from_estimator(model, 4)
    assert len(shown.axes_) == 2 and shown.axes_[0].get_title() == "3"
    assert len(shown.past["3"][0]) == 12 and len(shown.axes_[0].collections) == 2
    np.testing.assert_allclose(shown.axes_[1].get_lines()[1].get_ydata(), shown.forecast.mean[4:])
    assert "50 % and 90 %" in shown.caption
    pyplot.close("all")


@pytest.mark.parametrize(
    ("dates", "following"),
    [
        (["2023-11-01", "2023-12-01", "2024-01-01"], ["2024-02-01", "2024-03-01", "2024-04-01"]),
        (["2023-10-31", "2023-11-30", "2023-12-31"], ["2024-01-31", "2024-02-29", "2024-03-31"]),
        (["2023-04-15T12", "2023-07-15T12", "2023-10-15T12"], ["2024-01-15T12", "2024-04-15T12", "2024-07-15T12"]),
        (["2022-01-01", "2023-01-01", "2024-01-01"], ["2025-01-01", "2026-01-01", "2027-01-01"]),
        (["2023-12-30", "2024-01-30", "2024-02-29"], ["2024-03-30", "2024-04-30", "2024-05-30"]),
        (["2022-12-29T06", "2023-01-29T06", "2023-02-28T06"], ["2023-03-29T06", "2023-04-29T06", "2023-05-29T06"]),
        (["2024-01-05", "2024-01-12", "2024-01-19"], ["2024-01-26", "2024-02-02", "2024-02-09"]),
        (["2023-10-30", "2023-11-29", "2023-12-29"], ["2024-01-28", "2024-02-27", "2024-03-28"]),
    ],
)
def test_dates_are_continued_by_calendar_months_or_by_their_spacing(dates: list[str], following: list[str]) -> None:
    table = {"day": np.array(dates, "datetime64[s]"), "y": np.array([1.0, 3.0, 2.0])}
    model = sitewise.fit("y ~ series(day)", table, integrate=False)
    np.testing.assert_array_equal(forecast(model, 3).time, np.array(following, "datetime64[s]"))


def test_every_series_of_months_is_continued_from_its_own_end() -> None:
    table = {
        "day": np.array(["2024-01-01", "2024-02-01", "2024-03-01", "2024-01-31", "2024-02-29"], "datetime64[s]"),
        "shop": list("aaabb"), "y": np.arange(5.0),
    }  # fmt: skip
    model = sitewise.fit("y ~ series(day, by=shop)", table, integrate=False)
    assert forecast(model, 2).time.astype("datetime64[D]").astype(str).tolist() == [
        "2024-04-01", "2024-05-01", "2024-03-31", "2024-04-30",
    ]  # fmt: skip


@pytest.mark.parametrize("days", ["Mon Tue Wed Thu Fri", "Mon Wed Fri", "Sat Sun", "Tue Wed Thu Fri Sat Sun"])
def test_days_of_the_week_without_rows_are_left_out(days: str) -> None:
    """Two shops, one of which ends earlier; a holiday is missing."""
    every = np.arange("2024-01-01", "2024-03-15", dtype="datetime64[D]")
    open_on = np.busday_offset(every, 0, "forward", days) == every
    kept = np.flatnonzero(open_on & (every != np.datetime64("2024-01-15")))
    when = np.concatenate([every[kept], every[kept[:-8]]]).astype("datetime64[s]") + np.timedelta64(9, "h")
    shop = np.repeat(["a", "b"], [len(kept), len(kept) - 8])
    model = sitewise.fit(
        "y ~ series(day, by=shop)", {"day": when, "shop": shop, "y": np.sin(np.arange(len(when)))}, integrate=False
    )
    found = forecast(model, 6)
    for name, last in (("a", every[kept[-1]]), ("b", every[kept[-9]])):
        expected = np.busday_offset(last, np.arange(1, 7), weekmask=days).astype("datetime64[s]") + np.timedelta64(
            9, "h"
        )
        np.testing.assert_array_equal(found.time[np.array(found.series) == name], expected)


@pytest.mark.parametrize(
    "dates",
    [
        np.arange("2024-01-01", "2024-01-06", dtype="datetime64[D]"),  # Monday to Friday of one week
        np.array(["2024-01-01", "2024-01-02", "2024-02-01", "2024-02-02", "2024-03-04"], "datetime64[D]"),  # with gaps
        np.datetime64("2024-01-01T08") + np.timedelta64(18, "h") * np.arange(30),  # several times of day
    ],
)
def test_other_dates_are_continued_by_their_spacing(dates: np.ndarray) -> None:
    when = dates.astype("datetime64[s]")
    table = {"day": when, "y": np.sin(np.arange(len(when)))}
    found = forecast(sitewise.fit("y ~ series(day)", table, integrate=False), 3)
    np.testing.assert_array_equal(found.time, when[-1] + np.median(np.diff(when)) * np.arange(1, 4))


def test_a_column_that_may_not_be_a_time_is_not_continued_unasked() -> None:
    rng = np.random.default_rng(0)
    model = sitewise.fit("y ~ z + (1 | g)", {"z": rng.normal(size=30), "g": list("abc") * 10, "y": rng.normal(size=30)})
    with pytest.raises(ValueError, match=r"not known whether z is a time, .* give time='z'"):
        forecast(model, 2)
    assert len(forecast(model, 2, time="z").mean) == 6
