"""Side information, ordered labels, intervals and copied columns on the command line."""

import csv
import json

import numpy as np
import pytest

from sitewise import GPRegressor, load

RNG = np.random.default_rng(4)
ROWS = 48


def table(path, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture(scope="module")
def claims():
    age, months = RNG.uniform(20, 60, ROWS).round(2), RNG.integers(1, 25, ROWS)
    count = RNG.poisson(months * np.exp(np.sin(age / 6) - 1))
    return {"customer": [f"{i:04d}" for i in range(ROWS)], "age": age, "months": months, "claims": count}


def test_exposure_from_fit_to_prediction(run, claims, tmp_path):
    data, out = table(tmp_path / "t.csv", claims), tmp_path / "m.sitewise"
    found = run("fit", data, "-t", "claims", "--exposure", "months", "--drop", "customer", "-o", out, "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["data"]["likelihood"] == "poisson" and result["data"]["features"] == ["age"]
    found = run("predict", out, data, "--interval", "0.9", "--quantiles", "0.5", "--keep", "customer", "--json")
    assert found.exit_code == 0, found.stderr
    rows = json.loads(found.stdout)["predictions"]
    assert list(rows) == ["row", "customer", "mean", "std", "low 0.9", "high 0.9", "quantile 0.5"]
    assert rows["customer"][7] == "0007"
    age = np.asarray(claims["age"])[:, None]
    own = GPRegressor(likelihood="poisson", random_state=0)
    own.fit((age - age.mean()) / age.std(), claims["claims"], exposure=claims["months"])
    scaled = (age - age.mean()) / age.std()
    np.testing.assert_allclose(rows["mean"], own.predict(scaled, exposure=claims["months"]), rtol=1e-3)
    inside = (np.array(rows["low 0.9"]) <= claims["claims"]) & (claims["claims"] <= np.array(rows["high 0.9"]))
    assert np.mean(inside) > 0.8
    without = table(tmp_path / "n.csv", {"age": claims["age"], "name": claims["customer"]})
    found = run("predict", out, without)
    assert found.exit_code == 1 and "lacks the column 'months'" in found.stderr and "--exposure" in found.stderr


def test_bounds_are_not_needed_for_predictions(run, claims, tmp_path):
    years = np.minimum(np.asarray(claims["age"]) / 3 + RNG.normal(size=ROWS), 15.0)
    cut = {"age": claims["age"], "years": years, "limit": ["15" if y >= 15 else "" for y in years]}
    data, out = table(tmp_path / "t.csv", cut), tmp_path / "m.sitewise"
    found = run("fit", data, "-t", "years", "--upper", "limit", "-o", out, "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["data"]["likelihood"] == "censored_gaussian"
    found = run("predict", out, table(tmp_path / "n.csv", {"name": ["a"], "age": [60.0]}), "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["predictions"]["mean"][0] > 16.5


def test_lifetimes_from_fit_to_report(run, claims, tmp_path):
    """A column of events makes them Weibull lifetimes; predictions need none, and a comparison has a fair baseline."""
    life = 20 * np.exp(np.sin(np.asarray(claims["age"]) / 6)) * RNG.weibull(3.0, ROWS)
    ends = RNG.uniform(5, 60, ROWS)
    rows = {"age": claims["age"], "weeks": np.minimum(life, ends).round(2), "seen": (life <= ends).astype(int)}
    data, out = table(tmp_path / "t.csv", rows), tmp_path / "m.sitewise"
    found = run("fit", data, "-t", "weeks", "--event", "seen", "-m", "laplace", "-o", out, "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["data"]["likelihood"] == "weibull"
    found = run("predict", out, table(tmp_path / "n.csv", {"age": [30.0, 58.0]}), "--interval", "0.8", "--json")
    assert found.exit_code == 0, found.stderr
    made = json.loads(found.stdout)["predictions"]
    assert np.all(np.diff([[0, 0], made["low 0.8"], made["mean"], made["high 0.8"]], axis=0) > 0)
    arguments = ("compare", data, "-t", "weeks", "--event", "seen", "--methods", "laplace", "--folds", "2")
    found = run(*arguments, "--out", tmp_path / "c.html", "--json")
    assert found.exit_code == 0, found.stderr
    scores = {row["name"]: row for row in json.loads(found.stdout)["methods"]}
    assert scores["laplace"]["log_density"] > scores["baseline"]["log_density"] > -5
    found = run("fit", data, "-t", "weeks", "--event", "age", "-o", out)
    assert found.exit_code == 1 and "event must hold 1 for an observed event" in found.stderr


@pytest.mark.slow
def test_trials_and_error_bars_are_compared_with_a_fair_baseline(run, claims, tmp_path):
    trials = RNG.integers(5, 20, ROWS)
    share = 1 / (1 + np.exp(-np.sin(np.asarray(claims["age"]) / 6) * 2))
    data = table(tmp_path / "t.csv", {"age": claims["age"], "n": trials, "k": RNG.binomial(trials, share)})
    arguments = ("compare", data, "-t", "k", "--trials", "n", "--methods", "laplace", "--folds", "2")
    found = run(*arguments, "--out", tmp_path / "c.html", "--json")
    assert found.exit_code == 0, found.stderr
    scores = {row["name"]: row for row in json.loads(found.stdout)["methods"]}
    assert scores["laplace"]["log_density"] > scores["baseline"]["log_density"] + 0.1
    assert scores["baseline"]["log_density"] > -4  # one share of all trials, not one count for all rows
    assert scores["laplace"]["calibration_error"] < 0.2


@pytest.mark.slow
def test_labels_in_a_given_order(run, claims, tmp_path):
    size = np.array(["low", "mid", "high"])[
        np.digitize(np.asarray(claims["age"]) + 4 * RNG.normal(size=ROWS), [33, 47])
    ]
    data, out = table(tmp_path / "t.csv", {"age": claims["age"], "size": size}), tmp_path / "m.sitewise"
    found = run("fit", data, "-t", "size", "--likelihood", "ordinal", "-o", out)
    assert found.exit_code == 1 and "say --order 'high,low,mid'" in found.stderr
    found = run("fit", data, "-t", "size", "--order", "low,mid,huge", "-o", out)
    assert found.exit_code == 1 and "'high' is not in the order" in found.stderr
    found = run("fit", data, "-t", "size", "--order", "low,mid,high", "-m", "laplace", "-o", out, "--json")
    assert found.exit_code == 0, found.stderr
    assert load(out).classes_.tolist() == ["low", "mid", "high"]
    found = run("predict", out, data, "--interval", "0.8", "--json")
    assert found.exit_code == 0, found.stderr
    result = json.loads(found.stdout)
    assert result["scores"]["accuracy"] > 0.6 and set(result["predictions"]["low 0.8"]) <= {"low", "mid", "high"}
    arguments = ("-t", "size", "--order", "low,mid,high", "--methods", "laplace", "--folds", "2")
    found = run("compare", data, *arguments, "--out", tmp_path / "c.html", "--json")
    assert found.exit_code == 0, found.stderr
    assert "accuracy" in json.loads(found.stdout)["methods"][0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--exposure", "weeks"), "has no column 'weeks'"),
        (("--exposure", "customer"), "(--exposure) must hold numbers, but has 'c0' in row 1"),
        (("--likelihood", "binomial"), "binomial needs --trials COLUMN"),
        (("--likelihood", "weibull"), "lifetimes must be positive"),
        (("--likelihood", "gaussian", "--noise", "months"), "--noise is for --likelihood heteroscedastic_gaussian"),
        (("--likelihood", "poisson", "--order", "0,1,2"), "say --likelihood ordinal"),
    ],
)
def test_columns_that_cannot_be_used(run, claims, tmp_path, more, words):
    named = {**claims, "customer": [f"c{i % 3}" for i in range(ROWS)]}
    data = table(tmp_path / "t.csv", named)
    found = run("fit", data, "-t", "claims", *more, "-o", tmp_path / "m.sitewise")
    assert found.exit_code == 1 and words in found.stderr and found.stderr.count("error:") == 1


def test_intervals_that_cannot_be(run, model, table_of_classes):
    for more, words in (
        (("--interval", "90"), "such as 0.9 for 90 %"),
        (("--quantiles", "0.1;0.9"), "separated by commas"),
        (("--interval", "0.9"), "a classifier predicts probabilities"),
        (("--keep", "nobody"), "has no column 'nobody'"),
    ):
        found = run("predict", model, table_of_classes, *more)
        assert found.exit_code == 1 and words in found.stderr


@pytest.fixture
def table_of_classes(tmp_path, rows, write):
    return write(tmp_path / "classes.csv", rows)
