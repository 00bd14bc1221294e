"""Imports go downwards only, in a circle never; deferred imports and those for type checking count like all others."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from module_graph import Import, imports, modules, strongly_connected

LAYERS = [
    {"errors"},
    {"arrays", "checks", "numerics", "process", "setting", "supports", "tables", "types"},
    {
        "data",
        "sites",
        "means",
        "kernels",
        "likelihoods",
        "hyperparameters",
        "hyperpriors",
        "kernel_choice",
        "parameters",
        "parts",
        "priors",
        "model",
        "rows",
        "duels",
        "monotone",
    },
    {"inference", "evidence"},
    {"learning", "methods", "parts_structure", "predict", "metrics", "structure_base", "structures", "surface"},
    {"mcmc"},
    {"fitted"},
    {"explain"},
    {"estimators", "testing"},
    {"formula"},
    {"app", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MAX_LINES = 400
LONGER = {"sitewise.priors.sparse.features"}  # one computation with its pullback
APPLICATION = {"app", "__main__"}
FACTORISE = {"numerics", "testing"}  # `testing` computes the same numbers in another way, to compare
COPIED = "sitewise.estimators.numpy_predictor"  # predicts without the library
FACTORISING = {
    "cholesky", "cho_factor", "ldl", "lu", "lu_factor", "qr", "schur", "svd", "svdvals", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "pinv", "solve", "lstsq", "det", "slogdet",
}  # fmt: skip


def part(name: str) -> str:
    """What the layers speak of: the first name below `sitewise`; empty for the package itself."""
    return name.split(".")[1] if "." in name else ""


def shown(each: Import) -> str:
    return f"{each.importer}:{each.line} imports {each.imported}"


def test_every_module_has_a_layer() -> None:
    unknown = {part(name) for name in modules()} - set(LEVEL) - {""}
    assert not unknown, f"add to LAYERS: {unknown}"
    unused = set(LEVEL) - {part(name) for name in modules()}
    assert not unused, f"take out of LAYERS: {unused}"


def test_no_two_modules_share_a_file_name() -> None:
    counts = Counter(path.name for path in modules().values())
    twice = {name for name, count in counts.items() if count > 1} - {"__init__.py", "base.py"}
    assert not twice, f"rename one of each: {twice}"


def test_no_module_is_too_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES and name not in LONGER}
    assert not long, f"split into files of at most {MAX_LINES} lines: {long}"


def test_no_module_imports_from_a_layer_above() -> None:
    wrong = [
        shown(i)
        for i in imports()
        if part(i.importer) and part(i.imported) in LEVEL and LEVEL[part(i.imported)] > LEVEL[part(i.importer)]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_library_module_imports_the_application_or_the_paper() -> None:
    wrong = [
        shown(i)
        for i in imports()
        if i.imported.startswith("sitewise_icml2023")
        or (part(i.imported) in APPLICATION and part(i.importer) not in APPLICATION)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_in_a_circle() -> None:
    after: dict[str, set[str]] = {name: set() for name in modules()}
    for each in imports():
        if each.imported in after and each.imported != each.importer:
            after[each.importer].add(each.imported)
    circles = [sorted(group) for group in strongly_connected(after) if len(group) > 1]
    assert not circles, "\n".join(map(str, circles))


def test_circles_are_found() -> None:
    assert {"a", "b"} in strongly_connected({"a": {"b"}, "b": {"a", "c"}, "c": set()})
    assert all(len(group) == 1 for group in strongly_connected({"a": {"b", "c"}, "b": {"c"}, "c": set()}))


def test_the_library_defers_no_import_of_its_own() -> None:
    """A deferred import hides a dependency and delays its errors."""
    found = dict.fromkeys(shown(i) for i in imports() if i.deferred and part(i.importer) not in APPLICATION)
    assert not found, "\n".join(found)


def factorisations(tree: ast.AST) -> Iterator[str]:
    """Calls of something in a module called linalg that factorises or inverts a matrix, under whatever name."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            first, *rest = ast.unparse(node).split(".")
            whole = [*names.get(first, first).split("."), *rest]
            if "linalg" in whole[:-1] and whole[-1] in FACTORISING:
                yield f"line {node.lineno}: {'.'.join(whole)}"


def test_only_numerics_factorises_matrices() -> None:
    wrong = [
        f"{name}, {found}"
        for name, path in modules().items()
        if part(name) not in FACTORISE and name != COPIED
        for found in factorisations(ast.parse(path.read_text()))
    ]
    assert not wrong, "\n".join(wrong)


def test_factorisations_are_found_under_any_name() -> None:
    for text in (
        "import jax.numpy as jnp\njnp.linalg.cholesky(K)",
        "from jax.scipy.linalg import cho_factor as factor\nfactor(K)",
        "from jax.scipy import linalg\nf = linalg.solve",
        "import scipy.linalg\nscipy.linalg.eigh(K)",
    ):
        assert list(factorisations(ast.parse(text))), text
    harmless = "from jax.scipy.linalg import solve_triangular\nfrom a import solve\nsolve_triangular(L, b)\nsolve(b)"
    assert not list(factorisations(ast.parse(harmless)))
