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


@pytest.fixture
def open_questions(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "open.csv"
    rows = [f"{1 + k % 12:02d}/{1 + 5 * k % 12:02d}/2024,{rng.uniform():.4f},{rng.normal():.4f}" for k in range(40)]
    rows[7] = rows[7].split(",")[0] + ",n.d.,0.5"
    path.write_text("when,x,y\n" + "\n".join(rows))
    return path


def test_open_questions_on_columns_of_the_formula_stop_the_command(shell, open_questions, tmp_path):
    """One unreadable cell made a column of numbers 38 categories, and day and month were guessed."""
    mixed = shell(open_questions, "y ~ x")
    assert mixed.exit_code == 1
    assert "holds numbers, but also 'n.d.' (row 8): say --missing n.d. --drop-missing" in mixed.stderr
    dates = shell(open_questions, "y ~ s(when)")
    assert dates.exit_code == 1 and "--dayfirst" in dates.stderr and "--monthfirst" in dates.stderr
    answered = shell(open_questions, "y ~ x + s(when)", "--missing", "n.d.", "--drop-missing", "--dayfirst")
    assert answered.exit_code == 0, answered.stderr
    assert "1 of 40 rows have missing values" in answered.stdout
    assert shell(open_questions, "y ~ 1").exit_code == 0  # a column that is not used raises no question
    as_group = shell(open_questions, "y ~ (1 | x)")  # levels are strings as they are
    assert as_group.exit_code == 0, as_group.stderr


def test_open_questions_on_new_rows_stop_the_prediction(shell, open_questions, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("when,x\n03/04/2024,1.0\n05/06/2024,2.0\n")
    words = ["--missing", "n.d.", "--drop-missing", "--dayfirst"]
    saved = tmp_path / "dates.sitewise"
    assert shell(open_questions, "y ~ s(when)", *words, "--save", saved).exit_code == 0
    found = CliRunner().invoke(app, ["predict", str(saved), str(new)])
    assert found.exit_code == 1 and "--dayfirst" in found.stderr
    assert CliRunner().invoke(app, ["predict", str(saved), str(new), "--dayfirst"]).exit_code == 0


@pytest.mark.parametrize("words", [("--out", "p.csv"), ("--interval", "0.9")])
def test_options_of_predictions_need_a_table_to_predict(shell, table, words):
    found = shell(table, "y ~ x", *words)
    assert found.exit_code == 1 and "add --predict TABLE" in found.stderr


def test_rows_to_predict_with_missing_values_are_left_out_with_a_note(shell, open_questions, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("when,x,y\n,1.0,\n03/04/2024,,2.0\n04/04/2024,2.0,\n")
    words = ["--missing", "n.d.", "--dayfirst", "--predict", new]
    found = shell(open_questions, "y ~ x", *words, "--drop-missing")
    assert found.exit_code == 0, found.stderr
    assert "1 of 3 rows of new.csv have missing values in 'x' and are left out" in found.stderr
    assert [line.split(",")[0] for line in found.stdout.splitlines()] == ["row", "1", "3"]
    new.write_text("when,x,y\n03/04/2024,,2.0\n")
    assert (
        "All rows of new.csv have missing values in 'x'"
        in shell(open_questions, "y ~ x", *words, "--drop-missing").stderr
    )


def test_predict_leaves_out_rows_with_missing_values_of_the_formula_alone(shell, open_questions, tmp_path):
    saved, new = tmp_path / "model.sitewise", tmp_path / "new.csv"
    words = ["--missing", "n.d.", "--dayfirst"]
    assert shell(open_questions, "y ~ x", *words, "--drop-missing", "--save", saved).exit_code == 0
    new.write_text("when,x\n,1.0\n03/04/2024,n.d.\n04/04/2024,2.0\n")
    command = ["predict", str(saved), str(new), *words]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1 and "--drop-missing" in CliRunner().invoke(app, [*command[:3], "--dayfirst"]).stderr
    found = CliRunner().invoke(app, [*command, "--drop-missing"])
    assert found.exit_code == 0, found.stderr
    assert "1 of 3 rows of new.csv have missing values in 'x' and are left out" in found.stderr
    assert [line.split(",")[0] for line in found.stdout.splitlines()] == ["row", "1", "3"]


def test_an_impossible_interval_is_refused_before_the_fit(shell, table, monkeypatch):
    monkeypatch.setattr("sitewise.formula.fit", None)
    found = shell(table, "y ~ x", "--predict", table, "--interval", "90")
    assert found.exit_code == 1 and "--interval must lie between 0 and 1" in found.stderr


@pytest.mark.parametrize("formula", ["y ~ (1 | zip)", "y ~ C(zip)", "y ~ (1 | zip) + (1 | other)"])
def test_codes_that_are_one_number_are_different_levels(shell, tmp_path, formula):
    rng = np.random.default_rng(3)
    codes, path = rng.choice(["01", "1", "02", "10"], 80), tmp_path / "codes.csv"
    level = {"01": 0.0, "1": 3.0, "02": 1.0, "10": 2.0}
    rows = [f"{code},{k % 3},{level[code] + 0.1 * rng.normal():.4f}" for k, code in enumerate(codes)]
    path.write_text("zip,other,y\n" + "\n".join(rows))
    saved, new = tmp_path / "codes.sitewise", tmp_path / "new.csv"
    assert shell(path, formula, "--save", saved).exit_code == 0
    for rows, wanted in (("01,0 1,0 02,0 10,0", [0.0, 3.0, 1.0, 2.0]), ("01,0 02,0", [0.0, 1.0])):
        new.write_text("zip,other\n" + "\n".join(rows.split()))
        for command in (["predict", str(saved), str(new)], ["model", str(path), formula, "--predict", str(new)]):
            found = CliRunner().invoke(app, command)
            assert found.exit_code == 0, found.output
            means = [float(line.split(",")[1]) for line in found.stdout.splitlines()[1:]]
            np.testing.assert_allclose(means, wanted, atol=0.2)


def test_new_codes_that_are_one_number_are_a_level_of_numbers(shell, tmp_path):
    """Levels 1 to 3, which were written 01 to 03; 01 and 1 of new rows were new groups."""
    rng, path, new = np.random.default_rng(3), tmp_path / "codes.csv", tmp_path / "new.csv"
    path.write_text("zip,y\n" + "\n".join(f"0{k % 3 + 1},{3 * (k % 3) + 0.1 * rng.normal():.4f}" for k in range(60)))
    new.write_text("zip\n01\n1\n02\n03\n")
    saved = tmp_path / "codes.sitewise"
    assert shell(path, "y ~ (1 | zip)", "--save", saved).exit_code == 0
    for command in (["predict", str(saved), str(new)], ["model", str(path), "y ~ (1 | zip)", "--predict", str(new)]):
        found = CliRunner().invoke(app, command)
        assert found.exit_code == 0, found.output
        means = [float(line.split(",")[1]) for line in found.stdout.splitlines()[1:]]
        np.testing.assert_allclose(means, [0.0, 0.0, 3.0, 6.0], atol=0.2)
