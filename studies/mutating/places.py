"""Places in the source where one small change makes a mutant: operators, comparisons, constants, returned values."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"),
}  # fmt: skip
_COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
_LOGIC = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
# Arguments that change nothing that a result depends on.
_HARMLESS = {
    "frozen",
    "slots",
    "repr",
    "stacklevel",
    "exist_ok",
    "parents",
    "kw_only",
    "eq",
    "hash",
    "compare",
    "strict",
}


@dataclass(frozen=True)
class Mutant:
    """One change of one line: `before` and `after` are the whole line, without its indentation."""

    file: str  # below src/sitewise
    line: int
    column: int
    kind: str  # operator, comparison, logic, constant or returned value
    function: str  # "" at module level
    before: str
    after: str
    statement: tuple[int, int]  # first and last line of the statement, without its body

    @property
    def name(self) -> str:
        return f"{self.file}|{self.before}|{self.after}|{self.column}"

    @property
    def folder(self) -> str:
        """Return the first folder below src/sitewise; for a file outside folders, its own name."""
        return Path(self.file).parts[0]


class _Walk(ast.NodeVisitor):
    """Collect (node, first line, column, last column, replacement, kind) with the function and statement around it."""

    def __init__(self, text: str, file: str) -> None:
        self.lines = text.splitlines()
        self.file = file
        self.names: list[str] = []
        self.returns: list[str] = []
        self.statement = (1, 1)
        self.found: list[Mutant] = []

    def _add(self, line: int, start: int, end: int, text: str, kind: str) -> None:
        """Note a change of columns start to end (in UTF-8 bytes, as the parser counts) of a line."""
        whole = self.lines[line - 1].encode()
        changed = (whole[:start] + text.encode() + whole[end:]).decode().strip()
        before = whole.decode().strip()
        function = ".".join(self.names)
        self.found.append(Mutant(self.file, line, start, kind, function, before, changed, self.statement))

    def _between(self, left: ast.expr, right: ast.expr, sign: str, other: str, kind: str) -> None:
        """Note a change of the operator between two expressions, if it is on the line where the left one ends."""
        line, start = left.end_lineno or 0, left.end_col_offset or 0
        end = right.col_offset if right.lineno == line else None
        gap = self.lines[line - 1].encode()[start:end].decode()
        spelled = re.search(rf"(?<![*/=<>!\w]){re.escape(sign)}(?![*/=<>\w])", gap)
        if spelled:
            at = start + len(gap[: spelled.start()].encode())
            self._add(line, at, at + len(sign.encode()), other, kind)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            outside, body = self.statement, getattr(node, "body", None)
            last = (body[0].lineno - 1 if body and isinstance(body, list) else node.end_lineno) or node.lineno
            self.statement = (node.lineno, max(last, node.lineno))
            super().visit(node)
            self.statement = outside
        else:
            super().visit(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.names.append(node.name)
        if isinstance(node, ast.ClassDef):
            self.returns.append("")
        else:
            self.returns.append(ast.unparse(node.returns) if node.returns else "")
            for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                self.visit(default)
        for child in node.body:
            self.visit(child)
        self.names.pop()
        self.returns.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) not in ("TYPE_CHECKING", "__name__ == '__main__'"):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """A message's wording is not a result."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion states what cannot happen."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _HARMLESS:
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        pair = _ARITHMETIC.get(type(node.op))
        both_text = any(
            isinstance(side, ast.JoinedStr | ast.Constant) and not _number(side) for side in (node.left, node.right)
        )
        if pair and not both_text:
            self._between(node.left, node.right, *pair, "operator")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._between(left, right, *_COMPARISONS[type(operator)], "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, *_LOGIC[type(node.op)], "logic")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub) and node.operand.lineno == node.lineno:
            self._add(node.lineno, node.col_offset, node.operand.col_offset, "", "operator")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool) or _number(node):
            other = str(not node.value) if isinstance(node.value, bool) else _other_number(node.value)
            self._add(node.lineno, node.col_offset, node.end_col_offset or 0, other, "constant")

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is not None and value.lineno == value.end_lineno and not isinstance(value, ast.Constant):
            text = ast.get_source_segment("\n".join(self.lines), value) or ""
            kind = self.returns[-1] if self.returns else ""
            changed = "None"
            if kind == "bool":
                changed = f"not ({text})"
            elif kind in ("float", "Array", "np.ndarray", "jax.Array", "int"):
                changed = f"2 * ({text})"
            if text != "None":
                self._add(value.lineno, value.col_offset, value.end_col_offset or 0, changed, "returned value")
        self.generic_visit(node)


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _other_number(value: float) -> str:
    """Return another number: the next integer, or twice the value; one for zero."""
    if isinstance(value, int):
        return str(value + 1)
    return repr(2.0 * value) if value else "1.0"


def places(source: Path) -> list[Mutant]:
    """Return every mutant of the files below `source`."""
    found: list[Mutant] = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text()
        walk = _Walk(text, str(path.relative_to(source)))
        walk.visit(ast.parse(text))
        found += walk.found
    return found


def _compiles(source: Path, mutant: Mutant) -> bool:
    try:
        ast.parse(changed((source / mutant.file).read_text(), mutant))
    except SyntaxError:
        return False
    return mutant.before != mutant.after


def changed(text: str, mutant: Mutant) -> str:
    """Return the source with the mutant's change at the line nearest to the recorded one.

    Raises ValueError if no line reads as it did.
    """
    lines = text.splitlines(keepends=True)
    same = [row for row, line in enumerate(lines, 1) if line.strip() == mutant.before]
    if not same:
        raise ValueError(f"no line of {mutant.file} reads {mutant.before!r}")
    row = min(same, key=lambda candidate: abs(candidate - mutant.line))
    lines[row - 1] = lines[row - 1].replace(mutant.before, mutant.after)
    return "".join(lines)


def sample(source: Path, count: int, seed: int, core: frozenset[str]) -> Iterator[Mutant]:
    """Draw mutants without replacement, half of the count in the `core` folders and half elsewhere; one per line."""
    mutants = places(source)
    generator = random.Random(seed)
    for inside in (True, False):
        seen: set[tuple[str, int]] = set()
        pool = [mutant for mutant in mutants if (mutant.folder in core) == inside]
        for mutant in generator.sample(pool, len(pool)):
            if (mutant.file, mutant.line) not in seen and _compiles(source, mutant):
                seen.add((mutant.file, mutant.line))
                yield mutant
                if len(seen) == count // 2:
                    break
