"""Which module of the package imports which: read off the source, without importing anything."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src"


class Import(NamedTuple):
    """`importer` imports `imported`, which is a module or package of this project; where, and whether in a function."""

    importer: str
    imported: str
    line: int
    deferred: bool


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name; a package stands for its __init__."""
    found = {}
    for path in (SOURCE / "sitewise").rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def named(node: ast.AST, importer: str, is_package: bool) -> Iterator[str]:
    """The dotted names that a statement imports, those of submodules in full."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = importer.split(".")
            parts = parts[: len(parts) - node.level + is_package]
            base = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield whole if whole in modules() else base
    elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
        yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))


def imports_of(name: str, path: Path) -> Iterator[Import]:
    def walk(node: ast.AST, deferred: bool) -> Iterator[Import]:
        for target in named(node, name, path.name == "__init__.py"):
            if target.split(".")[0] in ("sitewise", "sitewise_icml2023"):
                yield Import(name, target, getattr(node, "lineno", 0), deferred)
        inside = deferred or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    return walk(ast.parse(path.read_text()), False)


@functools.cache
def imports() -> list[Import]:
    return [each for name, path in modules().items() for each in imports_of(name, path)]


def strongly_connected(after: dict[str, set[str]]) -> list[set[str]]:
    """Groups of names of which each reaches every other (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        seen.add(name)
        for following in after[name] - seen:
            if following not in seen:
                visit(following)
        order.append(name)

    for name in after:
        if name not in seen:
            visit(name)
    before: dict[str, set[str]] = {name: set() for name in after}
    for name, following in after.items():
        for other in following:
            before[other].add(name)
    groups, placed = [], set[str]()
    for name in reversed(order):
        group, waiting = set[str](), [name]
        while waiting:
            here = waiting.pop()
            if here not in placed:
                placed.add(here)
                group.add(here)
                waiting += before[here]
        if group:
            groups.append(group)
    return groups
