"""`sitewise model` fits a formula, prints its summary, predicts and saves; errors are one sentence."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sitewise
from sitewise.app.commands import app


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x, g = rng.uniform(0, 3, 40), rng.integers(0, 4, 40)
    y = rng.poisson(np.exp(0.5 * x))
    path = tmp_path / "table.csv"
    path.write_text("y,x,g\n" + "\n".join(f"{a},{b:.4f},s{c}" for a, b, c in zip(y, x, g, strict=True)))
    return path


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr("sitewise.app.commands.model_formula.own_process", lambda: None)
    return lambda *words: CliRunner().invoke(app, ["model", *map(str, words)])


def test_a_formula_is_fitted_saved_and_predicts(shell, table, tmp_path):
    saved, out = tmp_path / "m.sitewise", tmp_path / "p.csv"
    found = shell(
        table,
        "y ~ x",
        "--likelihood",
        "poisson",
        "--save",
        saved,
        "--predict",
        table,
        "--interval",
        "0.8",
        "--out",
        out,
    )
    assert found.exit_code == 0, found.stderr
    assert "linear terms" in found.stdout and "leave-one-out" in found.stdout
    lines = out.read_text().splitlines()
    assert lines[0] == "row,prediction,low,high" and len(lines) == 41
    predicted = np.array([float(line.split(",")[1]) for line in lines[1:]])
    loaded = sitewise.load(saved)
    np.testing.assert_allclose(predicted, loaded.predict(), rtol=1e-9)
    again = shell(table, "y ~ x", "--likelihood", "poisson", "--json")
    result = json.loads(again.stdout)
    assert [row["term"] for row in result["summary"]["linear"]] == ["intercept", "x"]


@pytest.mark.parametrize(
    ("formula", "words", "sentence"),
    [
        ("y ~ x +", (), "missing after"),
        ("y ~ q", (), "no column 'q'"),
        ("y ~ x", ("--likelihood", "poison"), "likelihood must be one of"),
        ("y ~ x", ("--exposure", "q", "--likelihood", "poisson"), "no column 'q'"),
    ],
)
def test_errors_are_one_sentence(shell, table, formula, words, sentence):
    found = shell(table, formula, *words)
    assert found.exit_code == 1
    assert sentence in found.stderr and len(found.stderr.strip().splitlines()) == 1
