"""Malformed and impossible formulas are refused in one sentence that says what to do."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pytest

import sitewise
from sitewise import UserError, likelihoods

RNG = np.random.default_rng(0)
ROWS = 20
TABLE: dict[str, Any] = {
    "y": RNG.normal(size=ROWS),
    "x": RNG.normal(size=ROWS),
    "z": RNG.uniform(1, 2, ROWS),
    "n": RNG.integers(0, 5, ROWS),
    "t": RNG.integers(0, 2, ROWS),
    "g": np.array(list("abcd"))[np.arange(ROWS) % 4],
    "district": np.array(["p", "q", "r"])[np.arange(ROWS) % 3],
    "same": np.ones(ROWS),
    "one": np.array(["u"] * ROWS),
    "gone": np.where(np.arange(ROWS) == 3, np.nan, 1.0),
    "id": np.array([f"row {k}" for k in range(ROWS)]),
    "span": [datetime.timedelta(hours=k) for k in range(ROWS)],
    "day": [f"2024-01-{k + 1:02d}" for k in range(ROWS)],
    "written": [f"{k / 7:.3f}" for k in range(ROWS)],
}
FORMULAS = {
    # grammar
    "y ~ x; scale ~ z; shape ~ z": "at most one ;",
    "y ~ x;": "one ~",
    "y ~ x; ~ z": "response is missing",
    "y ~ x; log(scale) ~ z": r"got log\(scale\) before ~",
    "y ~ x; scale ~ 0": "no term of scale; write scale ~ 1",
    "y ~ x; scale ~ y": "response y is also a term",
    "y ~ x; scale ~ s(t)": "at least 4 distinct values",
    "y ~ x; scale ~ nowhere": "nowhere",
    "y ~ x; shape ~ z": "no parameter 'shape' that can vary; write scale ~ …",
    "y": "one ~",
    "y ~": "terms are missing",
    "y ~ 0": "formula has no term; add a column, or write y ~ 1",
    "~ x": "response is missing",
    "y ~ x ~ z": "one ~",
    "y ~ x +": r"missing after '\+'",
    "y ~ * x": "missing before '*'",
    "y ~ (x": "not closed",
    "y ~ x)": "unexpected place",
    "y ~ x z": "put an operator",
    "y ~ s(x": "not closed",
    "y ~ x + (g | district)": r"\(1 \| district:g\)",
    "y ~ s(t)": "at least 4 distinct values",
    "y ~ s(x,, z)": "missing before ','",
    "y ~ s(x, k=4, k=5)": "given twice",
    "y ~ s(k=4, x)": "columns stand before options",
    "y ~ .": "instead of a dot",
    "y ~ x %in% z": r"\(1 \| a/b\)",
    "y ~ 'x": "close the quotation mark",
    "y ~ x & z": "backticks",
    "y ~ x | z | g": "cannot vary by group",
    # terms
    "y ~ 2": "not a term; 1 is the intercept",
    "y ~ 'x'": "without quotes",
    "y ~ x > 1": r"write I\(x > 1\)",
    "y ~ x^2": r"write I\(x\^2\)",
    "y ~ (1 + x):z": "products of columns",
    "y ~ (x + z)^9": "power from 1 to 4",
    "y ~ 2*x": r"write I\(2 \* x\)",
    "y ~ x - z": "no such term",
    "y ~ y + x": "also a term",
    "y ~ I(y^2)": "also a term",
    "log(z) ~ s(z)": "also a term",
    "y ~ s(y)": "also a term",
    "y ~ s(x, by=y)": "also a term",
    "y ~ (1 | y)": "also a term",
    "y ~ x + offset(y)": "also a term",
    "y ~ x; scale ~ s(y)": "also a term",
    "y ~ s(x):z": r"s\(x, by=z\)",
    "y ~ s(x)*g": r"s\(x, by=z\)",
    "y ~ s(x) + s(x)": "given twice",
    "cbind(y, n) ~ x": "trials=",
    "Surv(y, t) ~ x": "event=",
    "1 ~ x": "must be a column",
    # groups
    "y ~ (0 | g)": "no effect that varies",
    "y ~ (s(x) | g)": "cannot vary by group",
    "y ~ (1 | x + z)": r"\(1 \| a:b\)",
    "y ~ (1 | log(x))": "name of a column after the bar",
    "y ~ (1 | 3)": "name of a column after the bar",
    "y ~ (x:z | g)": r"write I\(a\*b\)",
    "y ~ (1 + g | g)": "cannot vary by g itself",
    "y ~ (1 | one)": "only one level",
    "y ~ (1 + same | g)": "constant",
    "y ~ (1 | missing_column)": "no column 'missing_column'",
    # columns and functions
    "y ~ w": "no column 'w'",
    "w ~ x": "no column 'w'",
    "y ~ gone": "missing values in 'gone', in row 4",
    "y ~ f(x)": r"no function f\(\)",
    "y ~ log(x)": "not finite",
    "y ~ log(x, z)": "takes one column",
    "y ~ log(g)": "holds categories",
    "y ~ I(g + 1)": "holds categories",
    "y ~ one": "the same level",
    "y ~ C(g, ref='e')": "there is no level 'e'",
    "y ~ C(g, base='a')": "only ref=",
    "y ~ C(x, z)": "name of one column",
    "g ~ x": "response g holds categories .* use likelihood='logit' for two classes",
    "written ~ x": "response written holds categories .* convert the strings to numbers",
    "y ~ span": "column 'span' holds timedelta.*; convert it",
    "y ~ s(span)": "column 'span' holds timedelta.*; convert it",
    "y ~ s(day)": "convert the strings to dates, as pandas.to_datetime does",
    "y ~ series(written)": "convert the strings to numbers, as pandas.to_numeric does",
    "y ~ log(written)": "convert the strings to numbers, as pandas.to_numeric does",
    # smooth terms
    "y ~ s()": "names no column",
    "y ~ s(x, z, n)": "3 columns",
    "y ~ s(x, x)": "twice",
    "y ~ s(g)": r"write \(1 \| g\)",
    "y ~ s(x, k=2)": "at least 4",
    "y ~ s(x, k=n)": "whole number",
    "y ~ s(x, bs='cr')": "only k=, by=, period=",
    "y ~ s(x, by=x)": "another column",
    "y ~ s(x, by=log(z))": "name of a column",
    "y ~ s(x, period='week')": "column of dates",
    "y ~ s(x, period=0)": "positive number",
    "y ~ s(x, z, by=g)": "one column",
    "y ~ te(x)": r"te\(x, z\)",
    "y ~ map(x)": r"map\(lon, lat\)",
    "y ~ map(x, g)": "holds categories",
    "y ~ map(x, z, sphere=2)": "True or False",
    "y ~ area(district)": "graphs=",
    "y ~ area(log(x))": "name of a column",
    "y ~ series(g)": "needs numbers",
    "y ~ offset(x, z)": "one column or expression",
    "y ~ offset(g)": "holds categories",
}
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("y ~ x", {"likelihood": "normal"}, "likelihood must be one of"),
    ("n ~ x; scale ~ z", {"likelihood": "poisson"}, "out, or use a likelihood in which it can: 'gaussian', "),
    (
        "n ~ x; zero ~ z",
        {"likelihood": "poisson"},
        "zero ~ … out, or use a likelihood in which it can: 'zero_inflated_",
    ),
    ("y ~ x; scale ~ x", {"exposure": "z"}, "exposure is for .*, but the likelihood is 'gaussian'; leave it out"),
    ("t ~ x; scale ~ z", {"likelihood": "logit"}, "No parameter of the likelihood 'logit' can vary"),
    ("n ~ x; spread ~ z", {"likelihood": "ordinal"}, "use 'gaussian' with scale"),
    ("y ~ x; scale ~ z", {"method": "mcmc"}, "use 'hybrid', 'ep', 'vi' or 'laplace'"),
    ("y ~ x; scale ~ z", {"integrate": True}, "integrate is for models with one latent function"),
    (
        "y ~ x",
        {"likelihood": likelihoods.VaryingParameter(likelihoods.Gaussian(), "scale")},
        "varies by a second formula",
    ),
    ("y ~ x", {"likelihood": "poisson"}, "whole number|count"),
    ("y ~ x", {"likelihood": "logit"}, "two classes"),
    ("n ~ x", {"likelihood": "poisson", "trials": "t"}, "trials"),
    ("t ~ x", {"likelihood": "logit", "exposure": "z"}, "leave it out"),
    ("n ~ x", {"likelihood": "poisson", "exposure": "w"}, "no column 'w'"),
    ("n ~ x", {"likelihood": "poisson", "exposure": [1.0, 2.0]}, "one number per row"),
    ("log(t + 1) ~ x", {"likelihood": "logit"}, "name of a column of labels"),
    ("y ~ area(district)", {"graphs": {"district": {"p": ["q"], "q": ["p"]}}}, "no area 'r'"),
    ("y ~ area(district)", {"graphs": {"district": {"p": ["q"]}}}, "no area of it"),
    ("y ~ area(district, model='car')", {"graphs": {"district": {"p": [], "q": [], "r": []}}}, "'bym2' or 'icar'"),
]


def one_sentence(problem: BaseException) -> None:
    text = str(problem)
    assert text.endswith(".") and "\n" not in text
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*\)", "", text)
    assert ". " not in plain, text


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_refused_in_one_sentence(formula: str) -> None:
    with pytest.raises(ValueError, match=FORMULAS[formula]) as found:
        sitewise.fit(formula, TABLE)
    one_sentence(found.value)


@pytest.mark.parametrize(("formula", "given", "match"), CALLS)
def test_a_call_is_refused_in_one_sentence(formula: str, given: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match) as found:
        sitewise.fit(formula, TABLE, **given)
    one_sentence(found.value)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (np.zeros((5, 2)), "named columns"),
        ({"y": [1.0], "x": [2.0]}, "1 rows"),
        ({"y": [1.0, 2.0, 3.0], "x": [1.0, 2.0]}, "differ in length"),
    ],
)
def test_a_table_is_refused_in_one_sentence(data: Any, match: str) -> None:
    with pytest.raises(UserError, match=match) as found:
        sitewise.fit("y ~ x", data)
    one_sentence(found.value)


def test_at_least_sixty_formulas_are_refused() -> None:
    assert len(FORMULAS) + len(CALLS) >= 60


@pytest.mark.parametrize("term", ["g", "C(g)", "factor(g, ref='3')", "`g`"])
def test_the_advice_for_too_many_levels_is_a_formula(term: str) -> None:
    table = {"g": [f"{k}" for k in range(300)] * 2, "y": np.arange(600) % 7.0}
    with pytest.raises(UserError, match="too many for one coefficient per level; write") as caught:
        sitewise.fit(f"y ~ {term}", table)
    assert "write (1 | g) for a group" in str(caught.value)


def test_formulas_have_no_mcmc():
    with pytest.raises(UserError, match="Formulas have no mcmc"):
        sitewise.fit("y ~ x", TABLE, method="mcmc")


@pytest.mark.parametrize("formula", ["I(y - x) ~ x", "log(z / n) ~ s(n)", "log(z / n) ~ x + offset(log(n))"])
def test_a_response_of_several_columns_may_have_one_of_them_on_the_right(formula):
    table = {**TABLE, "n": TABLE["n"] + 1.0}
    assert sitewise.fit(formula, table, integrate=False).predict(table).shape == (ROWS,)
    with pytest.raises(UserError, match="also a term"):
        sitewise.fit("I(y - x) ~ I(y - x) + z", table)
