"""Twelve untidy tables: the messages of the command, and the command line that it suggests or asks to complete."""

import json
import re
import shlex

import numpy as np
import pytest
import typer
from sklearn.pipeline import make_pipeline
from typer.main import get_command
from typer.testing import CliRunner

from sitewise import GPClassifier, TableEncoder, load, save
from sitewise.app.commands import app
from sitewise.app.input.targets import Encoding

ROWS = 30
RNG = np.random.default_rng(3)
X = RNG.normal(size=ROWS).round(3)
Y = np.where(X + 0.3 * RNG.normal(size=ROWS) > 0, "yes", "no")
DAYS = np.datetime64("2023-11-20") + 9 * np.arange(ROWS)  # into the next year, days up to the 31st


def csv(header, *columns, separator=","):
    """The text of a table; cells with the separator are quoted."""
    rows = zip(*([str(v) for v in column] for column in columns), strict=True)
    quoted = ([f'"{v}"' if separator in v else v for v in row] for row in rows)
    return "\n".join([header, *(separator.join(row) for row in quoted)]) + "\n"


def written(dates, form):
    return [d.item().strftime(form) for d in dates]


AMBIGUOUS = [f"{1 + k % 12:02}/{1 + (k * 5) % 12:02}/2024" for k in range(ROWS)]
MONEY = [f"${1000 + 37.5 * k:,.2f}" for k in range(ROWS)]
EUROS = [f"{1000 + 37.5 * k:,.2f} €".translate(str.maketrans(",.", ".,")) for k in range(ROWS)]
THOUSANDS = [f"{1100 + 611 * k:,}" for k in range(ROWS)]
PERCENT = [f"{10 + 0.5 * k} %" for k in range(ROWS)]
ODD = ["n.d." if k == 7 else "<5" if k == 9 else v for k, v in enumerate(X)]
NOTES = [f"call {k % 20}" for k in range(ROWS)]
GAPS = ["" if k in (3, 8) else v for k, v in enumerate(Y)]
WEIGHTS = [f"{60 + k} {'lb' if k == 4 else 'kg'}" for k in range(ROWS)]

# name: (content, what the first command says, what the suggested line adds, what the user has to decide)
TABLES = {
    "dates with times": (
        csv("when,x,y", written(DAYS, "%Y-%m-%d 08:30"), X, Y), ["'when' holds dates and became year, month"], "", ""),
    "dates in two orders": (
        csv("when,x,y", AMBIGUOUS, X, Y),
        ["dates such as '02/06/2024'", "--dayfirst    if the day", "--monthfirst  if the month"], "", "--dayfirst"),
    "percentages": (
        csv("share,x,y", PERCENT, X, Y), ["'share' holds percentages: 12.5 % is used as 0.125"], "", ""),
    "currencies": (
        csv("price,cost,fee,y", MONEY, EUROS, [f"€ {k * k}" for k in range(ROWS)], Y),
        ["'price' holds amounts of money in '$'", "'cost' holds amounts of money in '€'",
         "commas were read as decimal marks in 'cost'"], "", ""),
    "thousands": (
        csv("n,x,y", THOUSANDS, np.rint(100 * X).astype(int), Y),
        ["numbers such as '1,100', whose comma may group thousands"], "", "--decimal ."),
    "titles above the header": (
        "Sales of the north,,\nprinted on 3 May\n\n" + csv("shop,x,y", ["a", "b"] * 15, X, Y),
        ["skipped 2 lines above the header: 'Sales of the north'", "'shop' holds 2 categories"], "", ""),
    "an index without a name": (
        csv(",x,y", range(ROWS), X, Y), ["'unnamed 1' counts the rows and is left out"], "", ""),
    "identifiers and notes": (
        csv("CustomerID,name,note,x,y", RNG.permutation(ROWS) + 7001, [f"N{k}b" for k in range(ROWS)], NOTES, X, Y),
        ["'CustomerID' counts the rows and is left out", "'name' has a different text in every row",
         "20 categories in 30 rows, such as 'call 0'"], "--drop note", ""),
    "constants": (
        csv("country,zero,x,y", ["CH"] * ROWS, [0] * ROWS, X, Y),
        ["'country' has the same value in every row", "'zero' has the same value in every row"], "", ""),
    "row names and a remark": (
        csv("x,z,y", range(1, ROWS + 1), X, RNG.permutation(X), Y) + "Source: the office\n",
        ["skipped one line below the table: 'Source: the office'", "'unnamed 1' counts"], "", ""),
    "odd cells and targets that are missing": (
        csv("x;z;y", ODD, [str(v).replace(".", ",") for v in X[::-1]], GAPS, separator=";"),
        ["2 problems with the table", "but also 'n.d.' (row 8) and '<5'", "missing in 2 rows"],
        "", "--impute --missing n.d. --missing '<5' --skip-missing-target"),
    "a counter, a copy of the target, two units": (
        csv("week,again,weight,x,y", range(ROWS), Y, WEIGHTS, X, Y),
        ["3 problems with the table", "counts the rows, from 0 to 29", "'again' determines the target",
         "several units, such as '60 kg' and '64 lb' (row 5)",
         "To continue, decide problems 1 and 2 and add the option:"], "--drop again", "--drop weight --use week"),
}  # fmt: skip


@pytest.fixture
def stops_before_the_fit(monkeypatch):
    """The command ends well as soon as the table is read."""

    def stop():
        raise typer.Exit(0)

    monkeypatch.setattr("sitewise.app.commands.fit_model.own_process", stop)
    monkeypatch.setattr("sitewise.app.commands.compare.own_process", stop)


@pytest.mark.parametrize("name", TABLES)
def test_the_suggested_line_with_the_answers_of_the_user_suffices(name, run, tmp_path, stops_before_the_fit):
    content, said, added, decided = TABLES[name]
    path = tmp_path / "a table.csv"
    path.write_text(content)
    first = [
        "sitewise",
        "fit",
        str(path),
        "--target",
        "y",
        "--out",
        str(tmp_path / "m.sitewise"),
        "--method",
        "laplace",
    ]
    found = run(*first[1:])
    for words in said:
        assert words in found.stderr, found.stderr
    if not added and not decided:
        assert found.exit_code == 0, found.stderr
        return
    assert found.exit_code == 1 and "Traceback" not in found.stderr
    words = shlex.split(found.stderr.splitlines()[-1]) if added else first
    assert sorted(words) == sorted([*first, *shlex.split(added)])
    again = run(*words[1:], *shlex.split(decided))
    assert again.exit_code == 0, again.stderr


@pytest.mark.parametrize("drop", [["--drop", "a,b"], ["--drop", "a", "--drop", "b"], ["--drop", " b , a"]])
def test_columns_are_dropped_together_or_one_by_one(drop, run, tmp_path, stops_before_the_fit):
    path = tmp_path / "t.csv"
    path.write_text(csv("a,b,note,x,y", NOTES, NOTES, NOTES, X, Y))
    typed = ["sitewise", "compare", str(path), "--target", "y", "--out", str(tmp_path / "c.html")]
    found = run(*typed[1:], *drop)
    ready = shlex.split(found.stderr.splitlines()[-1])
    assert sorted(ready) == sorted([*typed, *drop, "--drop", "note"])
    assert run(*ready[1:]).exit_code == 0
    found = run(*typed[1:], "--drop", "a,c")
    assert found.exit_code == 1 and "has no column 'c'" in found.stderr


def test_a_later_table_is_read_as_the_first_one(run, tmp_path):
    """Orders, marks, units and codes for missing values are kept in the model file."""
    path, model = tmp_path / "t.csv", tmp_path / "m.sitewise"
    days = [d.item().strftime("%d/%m/%Y") for d in DAYS]
    costs = ["n.d." if k == 5 else v for k, v in enumerate(EUROS)]
    path.write_text(csv("id;when;cost;share;x;y", range(ROWS), days, costs, PERCENT, X, Y, separator=";"))
    arguments = ("--target", "y", "--method", "laplace", "--missing", "n.d.", "--impute", "--json")
    found = run("fit", path, *arguments, "--out", model)
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["data"]["features"] == [
        "when (year)", "when (month)", "when (weekday)", "when (days)", "cost", "share", "x",
    ]  # fmt: skip
    plain = load(model).table_
    assert Encoding.from_plain(plain).to_plain() == plain
    new = tmp_path / "new.csv"
    first = csv("y,x,share,cost,when", Y[5:7], X[5:7], PERCENT[5:7], ["n.d.", '"1.225"'], days[5:7])
    assert days[5] == "04/01/2024" and EUROS[6] == "1.225,00 €"
    new.write_text(first)
    found = run("predict", model, new, "--json")
    assert found.exit_code == 0, found.stderr
    whole = json.loads(run("predict", model, path, "--json").stdout)["predictions"]["probability yes"]
    np.testing.assert_allclose(json.loads(found.stdout)["predictions"]["probability yes"], whole[5:7], rtol=1e-9)
    new.write_text("x,share,cost,when\n1,12.5,$ 5,2024-01-04\n2,13,$ 6,soon\n")
    found = run("predict", model, new)
    assert found.exit_code == 1
    for words in (
        "'cost' had the unit '€'",
        "'share' had the unit '%'",
        "row 2 of new.csv has 'soon'",
        "--missing soon",
    ):
        assert words in found.stderr, found.stderr


HEADER = "when,at,share,shop,x,months,y"
GOOD = ["2024-03-01", "14:30", "12 %", "north", "1.5", "3", "2"]
BAD = {  # place of the cell, what stands there, what the command says
    "a hole": (4, "", "missing values (blank, NA, NaN, null or ?) in 'x' (1 of 2 rows)"),
    "an odd number": (4, "1O", "row 2 of new.csv has '1O'"),
    "an odd share": (2, "12", "row 2 of new.csv has '12'"),
    "an odd time": (1, "25:99", "row 2 of new.csv has '25:99'"),
    "an odd date": (0, "2024-02-30", "row 2 of new.csv has '2024-02-30'"),
    "infinity": (4, "inf", "holds infinity in row 2"),
    "a new category": (
        3, "west", "unseen category 'west' (in row 2); the model treats it as halfway between 'north' and 'south'"),
    "an odd exposure": (5, "3O", "(--exposure) must hold numbers, but has '3O' in row 2"),
    "no exposure": (5, "", "(--exposure) is empty in row 2"),
    "no target": (6, "", "1 of 2 rows have a target, and only these rows are scored"),
    "an odd target": (6, "few", "not scored: the target 'y' holds 'few' (row 2), but poisson needs numbers."),
}  # fmt: skip


@pytest.fixture(scope="module", params=[(), ("--impute",)], ids=["as it is", "impute"])
def counts(request, tmp_path_factory):
    """A model of a table with every kind of column, whose target is a count with an exposure."""
    folder = tmp_path_factory.mktemp("counts")
    hours = [f"{k % 24}:{k % 6}0" for k in range(ROWS)]
    shops, months = ["north", "south"] * 15, 1 + np.arange(ROWS) % 4
    days = written(DAYS, "%Y-%m-%d")
    (folder / "t.csv").write_text(csv(HEADER, days, hours, PERCENT, shops, X, months, RNG.poisson(2 * months)))
    options = ("--target", "y", "--exposure", "months", "--method", "laplace", "--out", folder / "m.sitewise")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sitewise.app.commands.fit_model.own_process", lambda: None)
        found = CliRunner().invoke(app, ["fit", str(folder / "t.csv"), *map(str, options), *request.param])
    assert found.exit_code == 0 and "'at' holds times of day" in found.stderr, found.stderr
    return folder / "m.sitewise"


@pytest.mark.parametrize("name", BAD)
def test_predict_recommends_only_what_it_has(name, counts, run, tmp_path):
    place, cell, said = BAD[name]
    rows = [GOOD, [cell if k == place else v for k, v in enumerate(GOOD)]]
    (tmp_path / "new.csv").write_text("\n".join([HEADER, *map(",".join, rows)]) + "\n")
    found = run("predict", counts, tmp_path / "new.csv", "--json")
    filled = name == "a hole" and load(counts).table_["impute"]
    assert filled or said in found.stderr, found.stderr
    assert found.exit_code == (0 if filled or "target" in name or "category" in name else 1)
    options = {o for p in get_command(app).commands["predict"].params for o in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"--\w[\w-]*", found.stderr)) <= {*options, "--exposure"}  # that says where it comes from
    if offered := re.search(r"say (--missing .*) if that means a missing value", found.stderr):
        assert run("predict", counts, tmp_path / "new.csv", *shlex.split(offered[1])).exit_code == 0


def test_predict_names_the_columns_that_lack_and_reads_a_single_one(run, tmp_path):
    path, model, new = tmp_path / "t.csv", tmp_path / "m.sitewise", tmp_path / "new.csv"
    path.write_text(csv("x,y", X, Y))
    assert run("fit", path, "--target", "y", "--method", "laplace", "--out", model).exit_code == 0
    new.write_text("z\n1\n2\n")
    found = run("predict", model, new)
    assert found.exit_code == 1 and "lacks the column 'x', which the model was fitted with; add it." in found.stderr
    new.write_text("x\n0.5\n-0.25\n")
    found = run("predict", model, new, "--json")
    assert found.exit_code == 0 and json.loads(found.stdout)["predictions"]["row"] == [1, 2]
    found = run("fit", new, "--target", "x", "--out", model)
    assert found.exit_code == 1 and "no column besides 'x' to predict from" in found.stderr


def test_a_pipeline_that_was_saved_from_python_predicts_tables(run, tmp_path):
    rows = [{"x": float(x), "shop": "north" if k % 2 else "south"} for k, x in enumerate(X)]
    pipeline = make_pipeline(TableEncoder(), GPClassifier(method="laplace")).fit(rows, Y)
    save(pipeline, tmp_path / "m.sitewise")
    (tmp_path / "t.csv").write_text(csv("shop,x,y", [r["shop"] for r in rows], X, Y))
    found = run("predict", tmp_path / "m.sitewise", tmp_path / "t.csv", "--json")
    assert found.exit_code == 0, found.stderr
    probability = json.loads(found.stdout)["predictions"]["probability yes"]
    np.testing.assert_allclose(probability, pipeline.predict_proba(rows)[:, 1], rtol=1e-9)


def test_the_suggested_line_proposes_no_row_numbers_and_no_likelihood(run, tmp_path, stops_before_the_fit):
    path = tmp_path / "t.csv"
    status, kids = np.arange(ROWS) % 3, [["0", "1", "2", "3+"][k % 4] for k in range(ROWS)]
    gaps = ["" if k == 4 else v for k, v in enumerate(X)]
    path.write_text(csv("rownames,kids,x,status", range(1, ROWS + 1), kids, gaps, status))
    typed = ["sitewise", "fit", str(path), "--target", "status", "--out", str(tmp_path / "m.sitewise")]
    found = run(*typed[1:])
    assert found.exit_code == 1 and "column 'rownames' counts the rows from 1 to 30 and is left out" in found.stderr
    assert "the target 'status' holds the whole numbers 0, 1, 2; choose one:" in found.stderr
    assert "To continue, decide problem 1 and add the option:" in found.stderr
    ready = shlex.split(found.stderr.splitlines()[-1])
    assert sorted(ready) == sorted([*typed, "--impute"])
    found = run(*ready[1:], "--likelihood", "ordinal")
    assert found.exit_code == 0 and "'kids' holds 4 categories" in found.stderr, found.stderr


def test_categorical_is_remembered_by_the_model(run, tmp_path):
    path, model, new = tmp_path / "t.csv", tmp_path / "m.sitewise", tmp_path / "new.csv"
    path.write_text(csv("ward,x,y", 1 + np.arange(ROWS) % 3, X, Y))
    options = ("--target", "y", "--method", "laplace", "--out", model, "--json")
    found = run("fit", path, *options, "--categorical", "ward")
    assert json.loads(found.stdout)["data"]["features"] == ["ward=1", "ward=2", "ward=3", "x"], found.stderr
    new.write_text("ward,x\n2,0.5\n4,0.5\n")
    found = run("predict", model, new)
    assert "column 'ward' has the unseen category '4' (in row 2)" in found.stderr and found.exit_code == 0
    found = run("fit", path, "--target", "ward", *options[2:], "--categorical", "ward")
    assert json.loads(found.stdout)["data"]["classes"] == ["1", "2", "3"]
