"""CSV dialects, and columns that can be parsed in two ways."""

import sys

import numpy as np
import pytest

from sitewise.app.input.advice import spell
from sitewise.app.input.table_file import read_table
from sitewise.errors import UserError
from sitewise.tables.cells import parse_number

PLAIN = "a,b,name\n1.5,-2,x\n1234.5,3e2,y\n"


def read(tmp_path, content, name="t.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.encode("utf-16"),
        PLAIN.replace(",", "\t"),
        "a;b;name\n1,5;-2;x\n1234,5;3e2;y\n",
        b"\xef\xbb\xbfa;b;name\r\n1,5;-2;x\r\n1.234,5;3e2;y\r\n",
        'a,b,name\n"1,5",-2,x\n"1234,5",3e2,y\n',
        " a , b ,name\n 1.5, -2 ,x\n\n1234.5,3e2,y\n\n",
        "a,b,name,\n1.5,-2,x,\n1234.5,3e2,y,\n",
    ],
)
def test_every_dialect_gives_the_same_table(tmp_path, content):
    table = read(tmp_path, content)
    assert list(table.columns) == ["a", "b", "name"]
    assert np.array_equal(table.numbers("a"), [1.5, 1234.5]) and np.array_equal(table.numbers("b"), [-2, 300])
    assert table.numbers("name") is None and list(table.text("name")) == ["x", "y"]
    assert list(table.lines) == [1, 2]


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        ("Sales 2024\nregion;2019;2020\nnorth;5;6\nsouth;7;8\n", ["region", "2019", "2020"], 2),
        ("sep=;\na;b;c\n1;2;x\n3;4;y\n", ["a", "b", "c"], 2),
        ("Report, north, 3 May 2024\n\na,b\n1,x\n2,y\n", ["a", "b"], 2),
        ('"a","b"\n"1",3,x\n"2",4,y\n', ["unnamed 1", "a", "b"], 2),
        ("a,b\n1,x\n2,y\n\nSource: the office\nAll rights reserved\n", ["a", "b"], 2),
        ("a,b,c\n1,,\n2,,\n3,4,x\n", ["a", "b", "c"], 3),
    ],
)
def test_titles_and_remarks_are_skipped(tmp_path, content, names, rows):
    table = read(tmp_path, content)
    assert list(table.columns) == names and table.rows == rows and list(table.lines) == list(range(1, rows + 1))


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ("a\n1\n2\n", [1, 2]),
        ("a\r\n1\r\n\r\n3\r\n\r\n", [1, None, 3]),  # a blank line keeps its row number
        ('\n"a"\n""\n2\n', [None, 2]),
        ('"a"\n"1,5"\n"2,5"\n', [1.5, 2.5]),
        ("a,\n1,\n2,\n", [1, 2]),
        ('"a; b"\nx; y\nz\n', ["x; y", "z"]),
    ],
)
def test_a_single_column(tmp_path, content, cells):
    table = read(tmp_path, content)
    (values,) = table.columns.values()
    assert [None if v is None or v != v else v for v in values] == cells
    assert list(table.lines) == list(range(1, len(cells) + 1)) and not table.problems


def test_text_that_is_not_utf8_is_read_with_a_note(tmp_path):
    table = read(tmp_path, "a,b\n1,bösartig\n".encode("cp1252"))
    assert table.text("b")[0] == "bösartig" and "Windows-1252" in table.notes[0]


def test_missing_values_in_their_many_spellings(tmp_path):
    table = read(tmp_path, "a,b\n1,x\n,NA\n?,n/a\nNaN,x\nnull,none\n-9,y\n", missing=["-9"])
    assert list(table.missing("a")) == [False, True, True, True, True, True]
    assert list(table.missing("b")) == [False, True, True, False, False, False]  # "none" is a category


def test_numbers():
    assert parse_number("1,234.5", ".") == 1234.5 and parse_number("1.234,5", ",") == 1234.5
    assert parse_number("1,5", ".") is None and parse_number("12,34", ".") is None
    assert parse_number(".5", ".") == 0.5 and parse_number("5.", ".") == 5 and parse_number("-inf", ".") == -np.inf
    assert parse_number("", ".") is None and parse_number(".", ".") is None and parse_number("1e", ".") is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1,2\n3\n", "row 2 has 1 fields"),
        ("a,b,c\n1,2\n3,4\n", "row 1 has 2 fields, but the header names 3"),
        ("a,b\n1\n2\n", "row 1 has 1 fields, but the header names 2"),
        ("1,2\n3,4\n", "must name the columns"),
        ("a,b\n", "no rows"),
        ("", "empty"),
        ("a\n1,5\n2,5\n", "names one column, but its rows have two fields"),
        ("a\ngood\nbad, late\nfair\n", "row 2 has 2 fields, but the header names 1"),
        (b"PK\x03\x04 zipped", "not a text table"),
        ("a,b,a,b,c\n1,x,2,y,3\n", "several columns of t.csv are named 'a', 'b'; give every column its own name"),
    ],
)
def test_unreadable_files_raise_one_sentence(tmp_path, content, words):
    with pytest.raises(UserError, match=words):
        read(tmp_path, content)


def test_the_decimal_option_resolves_an_ambiguous_comma(tmp_path):
    content = 'a,b\n"1,234",x\n"2,345",y\n'
    (problem,) = read(tmp_path, content).problems
    assert "--decimal .  if it groups thousands\n  --decimal ,  if it marks" in problem.sentence(spell)
    assert not problem.fix
    assert read(tmp_path, content, decimal=".").numbers("a")[0] == 1234
    assert read(tmp_path, content, decimal=",").numbers("a")[0] == 1.234


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match="pip install pyarrow"):
        read(tmp_path, b"PAR1", "t.parquet")


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    content = {"a": [1, None], "b": ["x", None], "c": [True, False]}
    parquet.write_table(pyarrow.table(content), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.numbers("a")[0] == 1 and list(table.missing("a")) == [False, True]
    assert list(table.text("b")) == ["x", None] and list(table.text("c")) == ["True", "False"]
    with pytest.raises(UserError, match="not a Parquet file"):
        read(tmp_path, b"no parquet", "u.parquet")


def test_line_ends_of_old_macs(tmp_path):
    path = tmp_path / "mac.csv"
    path.write_bytes(b'x,name\r1.5,a\r2.5,"b ""c"""\r')
    table = read_table(path)
    assert table.columns["x"].tolist() == [1.5, 2.5] and table.text("name").tolist() == ["a", 'b "c"']
