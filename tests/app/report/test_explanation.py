"""Importance and effects of the columns of a table, as in a report."""

import numpy as np
import pytest

from sitewise import GPClassifier, GPRegressor
from sitewise.app.input.table_file import read_table
from sitewise.app.input.targets import describe
from sitewise.app.report.comparison_page import _varying
from sitewise.app.report.explanation import explain

RNG = np.random.default_rng(0)
ROWS = 60
AGE, SHOP = RNG.uniform(20, 60, ROWS).round(1), np.array(["a", "b", "c"])[np.arange(ROWS) % 3]
SIGNAL = (AGE - 40) / 10 + np.where(SHOP == "b", 2.0, 0.0)


def _explained(tmp_path, target, likelihood, model, positive=None):
    lines = [f"{a},{s},{y}" for a, s, y in zip(AGE, SHOP, target, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["age,shop,y", *lines]))
    table = read_table(tmp_path / "t.csv")
    encoding, _, problems = describe(table, "y", likelihood, False)
    assert not problems
    X = encoding.inputs(table)
    return explain(model.fit(X, encoding.targets(table)), encoding, X, positive)


def test_effects_have_the_units_of_the_table(tmp_path):
    found = _explained(tmp_path, SIGNAL + 0.05 * RNG.normal(size=ROWS), "gaussian", GPRegressor())
    effects = {e["column"]: e for e in found["effects"]}
    age, shop = effects["age"], effects["shop"]
    slope = (age["mean"][-1] - age["mean"][0]) / (age["x"][-1] - age["x"][0])
    assert slope == pytest.approx(0.1, abs=0.01) and 20 < age["x"][0] < 25 < 55 < age["x"][-1] < 60
    assert shop["x"] == ["a", "b", "c"] and shop["text"]
    assert shop["mean"][1] - shop["mean"][0] == pytest.approx(2.0, abs=0.15)
    shares = {s["column"]: s["total"] for s in found["importance"]}
    wanted = AGE.var() / 100 / (AGE.var() / 100 + 4 * 2 / 9)
    assert shares["age"] == pytest.approx(wanted, abs=0.08)
    lines = {line["at"]: np.array(line["mean"]) for line in found["together"]["lines"]}
    assert found["together"]["columns"] == ["age", "shop"]
    np.testing.assert_allclose(lines["b"] - lines["a"], 2.0, atol=0.3)


def test_where_a_varying_scale_is_large(tmp_path):
    scale = np.where(SHOP == "c", 2.0, 0.1)
    model = GPRegressor(varying="scale")
    found = _explained(tmp_path, SIGNAL + scale * RNG.normal(size=ROWS), "gaussian", model)
    assert found["terms"] == []
    shown = found["varying"]
    assert shown["importance"][0]["column"] == "shop" and shown["importance"][0]["total"] > 0.8
    effect = shown["effects"][0]
    assert effect["x"] == ["a", "b", "c"] and effect["mean"][2] > 4 * effect["mean"][0]
    assert all(low < mean < high for low, mean, high in zip(effect["low"], effect["mean"], effect["high"], strict=True))
    assert all(SHOP[row["index"]] == "c" for row in shown["largest"])
    rows = [{**row, "row": row["index"] + 2} for row in shown["largest"]]
    (page,) = _varying({"varying": {**shown, "parameter": "scale", "largest": rows}})
    assert "Where the scale is large" in page and f"<td>{rows[0]['row']}</td>" in page.replace(" class=left", "")


def test_either_class_can_be_the_positive_one(tmp_path):
    label = np.where(SIGNAL > 0.5, "yes", "no")
    both = [_explained(tmp_path, label, "probit", GPClassifier(), positive) for positive in ("yes", "no")]
    yes, no = ({e["column"]: e for e in found["effects"]}["age"] for found in both)
    np.testing.assert_allclose(np.add(yes["mean"], no["mean"]), 1.0)
    np.testing.assert_allclose(np.add(yes["low"], no["high"]), 1.0)
    assert (yes["of"], no["of"]) == ("yes", "no") and yes["mean"][-1] > yes["mean"][0] + 0.3
    lines = [[line["mean"] for line in found["together"]["lines"]] for found in both]
    np.testing.assert_allclose(np.add(*lines), 1.0)
