"""Encoding of a table's target and columns, for the training table and for later tables."""

import numpy as np
import pytest

from sitewise.app.input import targets
from sitewise.app.input.advice import spell
from sitewise.app.input.targets import Encoding
from sitewise.errors import UserError
from sitewise.tables import Table, explain, understand


def describe(table, *arguments, **options):
    encoding, notes, problems = targets.describe(understand(table), *arguments, **options)
    if problems:
        raise explain(problems, spell, None)
    return encoding, notes


def table(**columns):
    made = {}
    for name, values in columns.items():
        numbers = all(v is None or isinstance(v, int | float) for v in values)
        made[name] = (
            np.array([np.nan if v is None else v for v in values], float) if numbers else np.array(values, object)
        )
    return Table("t.csv", made, lines=np.arange(1, len(next(iter(made.values()))) + 1))


COLOURS = ["red", "green", "blue", "red", "green", "blue"]
SIZES = ["S", "L", "S", "L", "S", "S"]
Y = ["a", "b", "a", "b", "a", "b"]


def test_numbers_are_scaled_and_categories_become_zeros_and_ones():
    t = table(x=[1, 2, 3, 4, 5, 9], colour=COLOURS, size=SIZES, y=Y)
    encoding, notes = describe(t, "y", "auto", impute=False)
    X = encoding.inputs(t)
    assert encoding.features == ["x", "colour=blue", "colour=green", "colour=red", "size=S"]
    assert abs(X[:, 0].mean()) < 1e-12 and abs(X[:, 0].std() - 1) < 1e-12
    assert np.array_equal(X[:, 1:4].sum(1), np.ones(6)) and np.array_equal(X[:, 4], [1, 0, 1, 0, 1, 1])
    assert any("'colour' holds 3 categories" in n for n in notes)
    again = Encoding.from_plain(encoding.to_plain())
    assert np.array_equal(again.inputs(t), X) and list(again.targets(t)) == Y


def test_missing_values_are_refused_by_name_or_filled_from_the_training_rows():
    t = table(x=[1, None, 3, 100, 100, 100], colour=["red", "red", None, "blue", "blue", "blue"], y=Y)
    with pytest.raises(UserError, match=r"'x' \(1 of 6 rows\), 'colour' \(1 of 6 rows\).*--impute"):
        describe(t, "y", "auto", impute=False)
    encoding, _ = describe(t, "y", "auto", impute=True)
    train = encoding.learn(t.take(np.arange(3)))
    assert train.columns[0].fill == 2 and train.columns[1].fill == "red"
    assert train.inputs(t)[1, 0] == 0  # (median − mean) of 1, 2 (filled), 3


def test_an_unseen_category_has_zero_in_every_feature():
    t = table(x=[1, 2, 3, 4, 5, 7], colour=COLOURS, y=Y)
    encoding, _ = describe(t, "y", "auto", impute=False)
    new = table(x=[1, 2], colour=["red", "pink"])
    assert np.array_equal(encoding.inputs(new)[:, 1:], [[0, 0, 1], [0, 0, 0]])
    assert "'pink' (in row 2); the model treats it as none of the known categories" in encoding.unknown_levels(new)[0]
    with pytest.raises(UserError, match="lacks the column 'colour'"):
        encoding.inputs(table(x=[1]))
    with pytest.raises(UserError, match=r"held numbers when the model was fitted, but row 1 of t\.csv has 'many'"):
        encoding.inputs(table(x=["many"], colour=["red"]))


def test_columns_that_may_surprise_are_noted():
    texts = ["p", "q", "r", "s", "t", "u"]
    t = table(id=[2, 1, 3, 4, 6, 5], same=[7] * 6, void=[None] * 6, name=texts, x=[3, 1, 4, 1, 5, 9], y=Y)
    encoding, notes = describe(t, "y", "auto", impute=False)
    assert encoding.features == ["x"]
    assert [n.split("'")[1] for n in notes] == ["id", "same", "void", "name"]
    encoding, _ = describe(t, "y", "auto", impute=False, use=["id", "name"])
    assert encoding.features == ["id", *(f"name={v}" for v in texts), "x"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": ["1", "2", "3", "4", "5", "?!"], "y": Y}, "--missing '\\?!'"),
        ({"x": ["p", "q", "r", "s", "t", "t"], "y": Y}, "5 categories.*--drop x"),
        (
            {"week": [1, 2, 3, 4, 5, 6], "y": Y},
            "counts the rows, from 1 to 6; choose one:\n  --use week .*\n  --drop week",
        ),
        ({"x": Y, "y": Y}, "'x' determines the target.*--drop x"),
        ({"x": [1, 2, 3, 4, 5, np.inf], "y": Y}, "infinity"),
        ({"x": [1, 2, 3, 4, 5, 7], "y": ["a"] * 6}, "only one class"),
        ({"x": [1, 2, 3, 4, 5, 7], "y": [2.5] * 6}, "nothing to learn"),
        (
            {"x": [1, 2, 3, 4, 5, 7], "y": [1, 2, 3, 1, 2, 3]},
            "whole numbers 1, 2, 3; choose one:\n  --likelihood probit",
        ),
        ({"x": [1] * 6, "y": Y}, "no column besides 'y'"),
    ],
)
def test_undecidable_columns_raise_one_sentence(columns, words):
    with pytest.raises(UserError, match=words):
        describe(table(**columns), "y", "auto", impute=False)


def test_targets():
    t = table(x=[1, 2, 3, 4], y=[0, 1, 1, 0], z=[0.5, 1.5, 2.5, 4.0])
    assert describe(t, "y", "auto", False)[0].likelihood == "probit"
    assert list(describe(t, "y", "auto", False)[0].targets(t)) == ["0", "1", "1", "0"]
    assert describe(t, "z", "auto", False)[0].likelihood == "gaussian"
    assert not any("poisson" in n for n in describe(t, "z", "auto", False)[1])
    many = table(x=list(range(0, 24, 2)), y=list(range(12)))
    assert "--likelihood poisson or negative_binomial" in describe(many, "y", "auto", False)[1][0]
    assert describe(t, "y", "poisson", False)[0].targets(t).dtype == float
    with pytest.raises(UserError, match="row 2 is the first"):
        describe(t, "z", "auto", False)[0].targets(table(z=[1, None, 3]))
    with pytest.raises(UserError, match=r"holds 'a' \(row 1\), but gaussian needs numbers"):
        describe(table(x=[1, 2], y=["a", "b"]), "y", "gaussian", False)[0].targets(table(y=["a", "b"]))


def test_the_description_in_a_model_file_of_version_0_1_is_read():
    plain = {
        "target": "y", "likelihood": "probit", "impute": True, "columns": [
            {"name": "x", "levels": [], "fill": 2.0, "centre": 1.0, "scale": 4.0},
            {"name": "colour", "levels": ["blue", "green", "red"], "fill": "red", "centre": 0.0, "scale": 1.0},
        ],
    }  # fmt: skip
    encoding = Encoding.from_plain(plain)
    new = table(x=[9, None], colour=["blue", None], y=["a", "b"])
    assert np.array_equal(encoding.inputs(new), [[2, 1, 0, 0], [0.25, 0, 0, 1]])
    assert list(encoding.targets(new)) == ["a", "b"]
    with pytest.raises(UserError, match="fit it again"):
        Encoding.from_plain({**plain, "columns": [{"name": "x"}]})


@pytest.mark.parametrize("values", [(1, 2, 3, 4, 5), (0, 1, 2), (10, 20, 35), (-1, 0, 1)])
def test_the_meaning_of_a_few_whole_numbers_is_asked_and_none_is_suggested(values):
    found = understand(table(x=[0.5, 0.1, 0.7] * 5, y=(list(values) * 5)[:15]))
    problem = next(p for p in targets.describe(found, "y", "auto", False)[2] if "whole numbers" in p.what)
    offered = ["probit", "ordinal", *(["poisson"] if min(values) >= 0 else []), "gaussian"]
    assert [settings["likelihood"] for settings, _ in problem.ways] == offered and problem.fix == {}
    shown = problem.sentence(spell).splitlines()
    assert len(shown) == 1 + len(offered) and shown[1].split(maxsplit=2)[:2] == ["--likelihood", "probit"]


def test_a_recoded_target_is_a_copy_and_chance_is_not():
    labels = ["no", "yes", "no", "yes", "yes"] * 5
    coded = [int(v == "yes") for v in labels]
    other = [1 - c if k == 3 else c for k, c in enumerate(coded)]
    with pytest.raises(UserError, match="'x' determines the target 'y' in every row"):
        describe(table(x=coded, z=[0.1, 0.7, 0.5, 0.2, 0.9] * 5, y=labels), "y", "auto", False)
    describe(table(x=other, z=[0.1, 0.7, 0.5, 0.2, 0.9] * 5, y=labels), "y", "auto", False)


def test_a_long_tail_is_hinted_at():
    values = np.exp(np.linspace(0, 5, 40)).tolist()
    _, notes = describe(table(x=np.sin(np.arange(40.0)).tolist(), y=values), "y", "auto", False)
    assert any("long tail" in n and "gamma or log_normal" in n for n in notes)
