"""Docstrings of the public API: numpydoc sections that name the parameters and defaults of the signature.

The reference (docs/reference) lists what is public.  Everything on it is checked, and everything that a public module
exports is on it.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

import sitewise
from sitewise import GPClassifier, GPOrdinal, GPRegressor, Sites, TableEncoder, mcmc, testing

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
docstrings = importlib.import_module("docstrings")
source_tables = importlib.import_module("source_tables")
sys.path.remove(str(DOCS))

ESTIMATORS = (GPClassifier, GPRegressor, GPOrdinal, TableEncoder)
EXPORTING = (
    sitewise, sitewise.estimators, sitewise.likelihoods, sitewise.kernels, sitewise.parts, sitewise.inference, mcmc,
    sitewise.formula, testing,
)  # fmt: skip
AUTOSUMMARY = re.compile(r"\.\. currentmodule:: (\S+)|^   ([A-Za-z_][\w.]*)$", re.MULTILINE)


def listed() -> dict[str, Any]:
    """Return the objects that the index of the reference lists, by their paths."""
    found, module = {}, ""
    for current, name in AUTOSUMMARY.findall((DOCS / "reference" / "index.md").read_text()):
        module = current or module
        if name:
            found[f"{module}.{name}"] = reached(f"{module}.{name}")
    return found


def reached(path: str) -> Any:
    """Return the object at a path, importing its module."""
    parts = path.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for name in parts[size:]:
            found = getattr(found, name)
        return found
    raise AttributeError(path)


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of a class that sitewise documents."""
    for name in dir(kind):
        function = getattr(inspect.getattr_static(kind, name), "__func__", inspect.getattr_static(kind, name))
        ours = inspect.isfunction(function) and function.__module__.startswith("sitewise")
        if ours and not name.startswith("_") and function.__doc__:
            yield name, function


LISTED = listed()
METHODS = {
    f"{path}.{name}": function
    for path, kind in LISTED.items()
    if inspect.isclass(kind)
    for name, function in methods_of(kind)
    if kind in ESTIMATORS or "Parameters\n" in function.__doc__
}


@pytest.mark.parametrize("path", [*LISTED, *METHODS])
def test_the_sections_agree_with_the_signature(path: str) -> None:
    one = LISTED.get(path) or METHODS[path]
    assert list(docstrings.problems(one)) == []


@pytest.mark.parametrize("path", [*LISTED, *METHODS])
def test_parameters_are_rendered_as_a_field_list(path: str) -> None:
    one = LISTED.get(path) or METHODS[path]
    text = "\n".join(docstrings.to_rst(one, inspect.cleandoc(one.__doc__).split("\n")))
    for entry in docstrings.parameters(one):
        head = ", ".join(rf"\*\*{re.escape(docstrings._plain(name))}\*\*" for name in entry.head.split(", "))
        found = re.search(rf"^:Parameters:\n(?:\n|    .*\n)*?    {head}(?: : (.+))?\n        \S", text, re.MULTILINE)
        assert found, f"{entry.head} is not rendered:\n{text}"
        assert entry.default is None or found[1].endswith(f", default= ``{entry.default}``")


def test_everything_exported_is_in_the_reference() -> None:
    known = {id(one) for one in LISTED.values()}
    missing = [
        f"{module.__name__}.{name}"
        for module in EXPORTING
        for name in module.__all__
        if callable(one := getattr(module, name)) and not isinstance(one, types.ModuleType) and id(one) not in known
    ]
    assert missing == []


def test_everything_in_the_index_is_on_a_page() -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").rglob("*.md") if page.name != "index.md")
    modules = set(re.findall(r"automodule:: (\S+)\n(?!   :no-members)", pages))
    single = set(re.findall(r"auto(?:class|function|exception):: (\S+)", pages))
    missing = [
        path
        for path in LISTED
        if path.rpartition(".")[0] not in modules and not {path, path.removeprefix("sitewise.")} & single
    ]
    assert missing == []


PLANTED = {
    "run-on": ("Parameters\n----------\nx : rows to average over; None means the training rows, so that they\n", "x "),
    "unknown": (
        "Parameters\n----------\nx : int, default=1\n    A number.\nz : int\n    Another.\n",
        "z is documented",
    ),
    "missing": ("Returns\n-------\ny : int\n    A number.\n", "the parameter x is not documented"),
    "default": ("Parameters\n----------\nx : int, default=2\n    A number.\n", "the default 2 is documented, and 1 is"),
    "no default": ("Parameters\n----------\nx : int\n    A number.\n", "x: the default None is documented"),
    "paragraph": ("Parameters\n----------\nx : int, default=1\n    A number.\n\nThe end.\n", "'The end.' is not"),
    "section": ("Parameter\n---------\nx : int, default=1\n    A number.\n", "the section 'Parameter' is not one of"),
    "shared": ("Parameters\n----------\nx : as in Data.pad\n    A number.\n", "x is not the parameter of Data.pad"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_found(name: str) -> None:
    def function(x: int = 1) -> None: ...

    text, expected = PLANTED[name]
    function.__doc__ = f"Return nothing.\n\n{text}"
    assert any(expected in problem for problem in docstrings.problems(function))
    function.__doc__ = "Return nothing.\n\nParameters\n----------\nx : int, default=1\n    A number.\n"
    assert list(docstrings.problems(function)) == []


def test_laid_out_blocks_and_names_keep_their_form() -> None:
    text = "Return `Sites` of kernel_.\n\n    a  =  b_i * c\n\nSee `f(x)`.\n"
    assert docstrings.to_rst(Sites.zeros, text.split("\n")) == [
        "Return \\ :py:obj:`Sites`\\  of kernel\\_.", "",
        ".. code-block:: none", "", "    a  =  b_i * c", "",
        "See \\ ``f(x)``\\ .", "",
    ]  # fmt: skip


EXAMPLES = [path for path, one in {**LISTED, **METHODS}.items() if ">>>" in (one.__doc__ or "")]


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_run_without_warnings(path: str) -> None:
    matplotlib.use("agg")
    one = LISTED.get(path) or METHODS[path]
    runner = doctest.DocTestRunner(verbose=False)
    example = doctest.DocTestParser().get_doctest(one.__doc__, {}, path, None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # Matplotlib 3.9 uses old names of pyparsing, whose warnings of that are also UserWarnings.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="matplotlib")
        assert runner.run(example).failed == 0


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fitted_attributes_are_documented(kind: type) -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = kind().fit(X, np.arange(12) % 3)
    documented = {name for entry in docstrings._entries_of(kind, "Attributes") for name in entry.names}
    properties = {name for name in dir(kind) if name.endswith("_") and not name.startswith("_")}
    assert {name for name in vars(model) if name.endswith("_") and not name.startswith("_")} <= documented
    assert properties <= documented
    known = properties | set(vars(model)) | {"feature_names_in_", "kernel_weights_"}
    assert documented <= known | {"kernel_", "mean_", "likelihood_", "samples_"}


@pytest.mark.parametrize("kind", ESTIMATORS[:3])
def test_names_that_arguments_take_are_listed(kind: type) -> None:
    from sitewise.kernel_choice import NAMED_KERNELS
    from sitewise.learning.integration import DESIGNS
    from sitewise.likelihoods import BY_NAME
    from sitewise.methods import METHODS as NAMED_METHODS
    from sitewise.structures import NAMED

    texts = {name: " ".join(entry.text) for entry in docstrings.parameters(kind) for name in entry.names}
    taken = {"method": NAMED_METHODS, "kernel": NAMED_KERNELS, "structure": NAMED, "integrate": DESIGNS}
    if "likelihood" in texts:
        classes = kind is GPClassifier
        taken["likelihood"] = [n for n, one in BY_NAME.items() if (one.support == "classes") is classes]
    for argument, names in taken.items():
        assert [name for name in names if f'"{name}"' not in texts[argument]] == []


def test_tables_from_the_source_are_used_and_complete() -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").rglob("*.md"))
    assert set(re.findall(r"^\{\{ (\w+) \}\}$", pages, re.MULTILINE)) == set(source_tables.TABLES)
    assert all(f"| `{name}` |" in source_tables.likelihoods() for name in sitewise.likelihoods.BY_NAME)
    assert all(f"`--{name}`" in source_tables.options() for name in ("target", "likelihood", "exposure", "se-per-row"))
