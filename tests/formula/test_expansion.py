"""Formulas expand to the same columns as in formulaic, and special terms to their parts."""

from __future__ import annotations

import numpy as np
import pytest

from sitewise.formula.design import Design
from sitewise.formula.expansion import Formula, Grouping, columns_of
from sitewise.formula.grammar import parse
from sitewise.formula.linear_columns import Coding
from sitewise.tables.table import table_of

RNG = np.random.default_rng(0)
ROWS = 30
TABLE = {
    "x": RNG.normal(size=ROWS),
    "z": RNG.uniform(1, 2, ROWS),
    "a": np.array(["p", "q", "r"])[RNG.integers(0, 3, ROWS)],
    "b": np.array(["u", "v"])[RNG.integers(0, 2, ROWS)],
    "k": RNG.integers(1, 4, ROWS),
    "y": RNG.normal(size=ROWS),
}
LINEAR = [
    "x", "x + z", "x * z", "x:z", "(x + z)^2", "a", "a + b", "a * b", "a:b", "a + a:b", "a / b", "a / x", "a:x",
    "x + a:x", "0 + a", "a - 1", "0 + a + b", "0 + a:x", "log(z)", "I(x^2)", "I(x / z + 1)", "C(k)", "C(k):x",
    "x + z - z", "a * x * z - a:x:z", "(a + b + x)^2", "x * (a + b)",
]  # fmt: skip


@pytest.mark.parametrize("right", LINEAR)
def test_columns_span_the_same_functions_as_those_of_formulaic(right: str) -> None:
    pandas, formulaic = pytest.importorskip("pandas"), pytest.importorskip("formulaic")
    formula = Formula.of(f"y ~ {right}")
    found = list(Coding().columns(formula.linear, formula.intercept, table_of(TABLE), fitting=True).values())
    ours = np.column_stack([*([np.ones(ROWS)] if formula.intercept else []), *found])
    python = right.replace("log", "np.log").replace("^", "**")
    theirs = np.asarray(formulaic.model_matrix(python, pandas.DataFrame(TABLE), context={"np": np}), float)
    assert ours.shape == theirs.shape
    rank = np.linalg.matrix_rank(theirs)
    assert np.linalg.matrix_rank(ours) == rank == np.linalg.matrix_rank(np.column_stack([ours, theirs]))


def test_columns_have_readable_names() -> None:
    formula = Formula.of("y ~ a*x + C(k, ref='2')")
    found = Coding().columns(formula.linear, True, table_of(TABLE), fitting=True)
    assert list(found) == ["a[q]", "a[r]", "x", 'C(k, ref="2")[1]', 'C(k, ref="2")[3]', "a[q]:x", "a[r]:x"]


@pytest.mark.parametrize("text", ["x + -y / 2", "I((a + b) * c^2)", "s(x, by=g, k=7)", "(1 + x || g:h)", "a:b:c - 1"])
def test_a_printed_formula_is_the_same_formula(text: str) -> None:
    ((_, right),) = parse(f"w ~ {text}")
    assert parse(f"w ~ {right}")[0][1] == right


def test_names_may_have_dots_and_spaces_and_be_keywords() -> None:
    formula = Formula.of("Sepal.Length ~ `a name` + class + lambda_2")
    assert [str(term[0]) for term in formula.linear] == ["`a name`", "class", "lambda_2"]


def test_groups_are_nested_and_crossed() -> None:
    found = Formula.of("y ~ (1 | a/b) + (0 + x || a:c)").special
    assert [str(one) for one in found] == ["(1 | a)", "(1 | a:b)", "(0 + x || a:c)"]
    assert isinstance(found[2], Grouping) and not found[2].correlated


def test_new_levels_share_a_number() -> None:
    design = Design(Formula.of("y ~ (1 | a)"))
    design.learn(table_of(TABLE), {})
    new = design.inputs(table_of({"a": ["q", "new", "other", "new"]}))
    assert np.array_equal(new[:, 0], [1, -1, -2, -1])


def test_expressions_keep_the_means_of_the_training_rows() -> None:
    design = Design(Formula.of("y ~ scale(x) + center(z)"))
    design.learn(table_of(TABLE), {})
    new = design.inputs(table_of({"x": [1.0], "z": [1.0]}))
    assert np.allclose(new, [(1 - TABLE["x"].mean()) / TABLE["x"].std(), 1 - TABLE["z"].mean()])


def test_options_that_name_no_column_are_none_of_its_columns() -> None:
    formula = Formula.of("y ~ map(a, b, sphere=True) + C(c, ref=low) + s(x, by=g, k=5)")
    assert columns_of(formula) == ["y", "c", "a", "b", "x", "g"]


def test_sums_of_comparisons_count() -> None:
    table = table_of({"x": [1.0, 2.0, 3.0], "g": ["a", "b", "b"]}, "the table")
    found = Coding().numbers(parse("y ~ I((x > 1) + (x > 2) - (g == 'b'))")[0][1].arguments[0], table)
    assert found.tolist() == [0.0, 0.0, 1.0]


def test_numbers_are_printed_with_all_their_digits() -> None:
    assert [str(parse(f"y ~ I(x * {text})")[0][1]) for text in ("1234567.25", "0.1", "2")] == [
        "I(x * 1234567.25)", "I(x * 0.1)", "I(x * 2)",
    ]  # fmt: skip
