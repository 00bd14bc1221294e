"""Predictions of saved formulas, and scores of predictions."""

import csv
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import sitewise
from sitewise.app.commands.predict_rows import score


def test_errors_of_either_sign_add_to_the_root_mean_square():
    y = np.array([1.0, 5.0, 2.0])
    model = SimpleNamespace(
        predict=lambda X: y + np.array([2.0, -2.0, -1.0]), log_predictive_density=lambda X, y: np.zeros(3)
    )
    encoding = SimpleNamespace(target="y", side={}, targets=lambda table: y)
    table = SimpleNamespace(columns={"y": y}, rows=3, missing=lambda name: np.zeros(3, bool))
    assert score(model, encoding, table, np.zeros((3, 1)))["rmse"] == pytest.approx(np.sqrt(3.0))


def written(path, table):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


def columns_of(text):
    rows = list(csv.DictReader(text.splitlines()))
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture(scope="module")
def groups():
    """Rows with a number, a group, an exposure, a count and a label."""
    rng = np.random.default_rng(3)
    x, g, n = rng.uniform(0, 3, 40).round(3), rng.integers(1, 5, 40), rng.integers(1, 4, 40)
    label = np.where(x + rng.normal(size=40) > 1.5, "yes", "no")
    codes = [f"{k:02d}" for k in g]
    return {"x": x, "g": codes, "n": n.astype(float), "y": rng.poisson(n * np.exp(x / 2)), "label": label}


def saved(path, formula, table, *given, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = sitewise.fit(formula, {name: np.asarray(v).tolist() for name, v in table.items()}, *given, **more)
    found.save(path)
    return found


def test_a_saved_formula_predicts_means_intervals_and_new_groups(run, groups, tmp_path):
    model = saved(tmp_path / "f.sitewise", "y ~ s(x) + (1 | g)", groups, "poisson", exposure="n")
    new = {"x": [0.5, 1.0, 2.5], "g": ["01", "03", "09"], "n": [1.0, 2.0, 1.0]}
    path = written(tmp_path / "new.csv", new)
    done = run("predict", tmp_path / "f.sitewise", path, "--interval", "0.8", "--keep", "g")
    assert done.exit_code == 0, done.output
    found, expected = columns_of(done.stdout), model.predict(new, interval=0.8)
    assert list(found) == ["row", "g", "mean", "std", "low 0.8", "high 0.8"] and found["g"] == new["g"]
    for name, values in (("mean", expected.mean), ("low 0.8", expected.low), ("high 0.8", expected.high)):
        np.testing.assert_allclose(np.array(found[name], float), values, rtol=1e-9)
    without = run("predict", tmp_path / "f.sitewise", written(tmp_path / "w.csv", {"x": [1.0], "g": ["01"]}))
    assert without.exit_code == 1 and "exposure='n'" in without.stderr and "Traceback" not in without.output


def test_codes_with_leading_zeros_are_the_levels_of_the_fit(run, groups, tmp_path):
    model = saved(tmp_path / "f.sitewise", "y ~ x + (1 | g)", groups, "poisson")
    for codes in (["01", "02"], ["04", "10"]):
        new = {"x": [0.5, 1.0], "g": codes}
        done = run("predict", tmp_path / "f.sitewise", written(tmp_path / "new.csv", new))
        assert done.exit_code == 0, done.output
        np.testing.assert_allclose(np.array(columns_of(done.stdout)["mean"], float), model.predict(new), rtol=1e-9)


def test_a_saved_formula_of_classes_writes_probabilities(run, groups, tmp_path):
    model = saved(tmp_path / "f.sitewise", "label ~ x", groups, "probit")
    path = written(tmp_path / "new.csv", {"x": [0.5, 2.5], "label": ["no", "yes"]})
    done = run("predict", tmp_path / "f.sitewise", path)
    assert done.exit_code == 0, done.output
    found = columns_of(done.stdout)
    assert list(found) == ["row", "prediction", "probability no", "probability yes"]
    assert found["prediction"] == ["no", "yes"] and "not scored" in done.stderr
    np.testing.assert_allclose(np.array(found["probability yes"], float), model.predict({"x": [0.5, 2.5]}), rtol=1e-9)
    refused = run("predict", tmp_path / "f.sitewise", path, "--interval", "0.9")
    assert refused.exit_code == 1 and "classifier predicts probabilities" in refused.stderr


def test_a_certificate_of_a_saved_formula_is_refused_in_one_sentence(run, groups, tmp_path):
    saved(tmp_path / "f.sitewise", "y ~ x", groups)
    done = run("certificate", tmp_path / "f.sitewise", "--out", tmp_path / "z.html")
    assert done.exit_code == 1 and "holds a formula" in done.stderr and "sitewise fit" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not (tmp_path / "z.html").exists()
