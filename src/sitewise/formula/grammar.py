"""The grammar of formulas: text → tree of names, numbers, calls and operators.

    y ~ x + s(z, by=g) + (1 + x | g) + a:b + log(w) + `name with spaces`
    y ~ s(x); scale ~ z

Operators from the loosest to the tightest: ~, | and ||, comparisons, + −, * /, :, a sign, ^.  A name may contain dots.
A tree is data: nothing in a formula is evaluated as code.
"""

from __future__ import annotations

import dataclasses
import re

from sitewise.errors import UserError

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)"
    r"|(?P<name>[^\W\d][\w.]*)|`(?P<quoted>[^`]+)`"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<operator>\|\||\*\*|<=|>=|==|!=|[-+*/:^|~(),=<>;]))"
)
BINDING = {
    "|": 1, "||": 1, "<": 2, ">": 2, "<=": 2, ">=": 2, "==": 2, "!=": 2, "+": 3, "-": 3, "*": 4, "/": 4, ":": 5, "^": 7,
}  # fmt: skip
SIGN_BINDING = 6
EXAMPLE, TWO_EXAMPLE = "y ~ x + s(z) + (1 | g)", "y ~ s(x); scale ~ z"


@dataclasses.dataclass(frozen=True)
class Name:
    """The name of a column."""

    text: str

    def __str__(self) -> str:
        return self.text if re.fullmatch(r"[^\W\d][\w.]*", self.text) else f"`{self.text}`"


@dataclasses.dataclass(frozen=True)
class Number:
    """A number."""

    value: float

    def __str__(self) -> str:
        short = f"{self.value:g}"
        return short if float(short) == self.value else repr(self.value)  # model files keep expressions as text


@dataclasses.dataclass(frozen=True)
class Text:
    """A string in quotes."""

    value: str

    def __str__(self) -> str:
        return f'"{self.value}"'


@dataclasses.dataclass(frozen=True)
class Call:
    """A function with its arguments, and its options by name."""

    function: str
    arguments: tuple[Node, ...]
    options: tuple[tuple[str, Node], ...] = ()

    def __str__(self) -> str:
        given = [*map(str, self.arguments), *(f"{name}={value}" for name, value in self.options)]
        return f"{self.function}({', '.join(given)})"


@dataclasses.dataclass(frozen=True)
class Binary:
    """An operator between two expressions."""

    operator: str
    left: Node
    right: Node

    def __str__(self) -> str:
        apart = "" if self.operator in ":^" else " "
        sides = (_inner(side, self.operator) for side in (self.left, self.right))
        return f"{apart}{self.operator}{apart}".join(sides)


@dataclasses.dataclass(frozen=True)
class Minus:
    """A minus sign before an expression."""

    of: Node

    def __str__(self) -> str:
        return f"-{_inner(self.of, '*')}"


Node = Name | Number | Text | Call | Binary | Minus


def _inner(side: Node, operator: str) -> str:
    looser = isinstance(side, Binary) and BINDING[side.operator] < BINDING[operator]
    return f"({side})" if looser or isinstance(side, Minus) else str(side)


def text_of(formula: object) -> str:
    """Return a formula as one text; a list holds the formula of the response and the formula of a parameter."""
    if isinstance(formula, list | tuple) and formula and all(isinstance(one, str) for one in formula):
        return "; ".join(formula)
    if not isinstance(formula, str):
        raise UserError(
            f"The formula must be a text such as {EXAMPLE!r} or {TWO_EXAMPLE!r}, got {type(formula).__name__}."
        )
    return formula


def parse(formula: str) -> list[tuple[Node, Node]]:
    """Return the trees of the left and the right side of a formula, and of a second one after a semicolon."""
    tokens = _tokens(formula)
    ends = [k for k, token in enumerate(tokens) if token == ("operator", ";")]
    pieces = [tokens[a:b] for a, b in zip([0, *(k + 1 for k in ends)], [*ends, len(tokens)], strict=True)]
    if len(pieces) > 2:
        raise UserError(
            f"A formula has at most one ; between the response and one parameter that varies, as in {TWO_EXAMPLE!r}; "
            f"got {formula!r}."
        )
    return [_sides(piece, formula) for piece in pieces]


def _sides(tokens: list[tuple[str, str]], formula: str) -> tuple[Node, Node]:
    """Return the trees of the left and the right side of the tokens of one formula."""
    sides = sum(token == ("operator", "~") for token in tokens)
    if sides != 1:
        raise UserError(f"A formula has one ~ between the response and its terms, as in {EXAMPLE!r}; got {formula!r}.")
    cut = tokens.index(("operator", "~"))
    if not tokens[:cut]:
        raise UserError(f"The response is missing before ~, as in {EXAMPLE!r}; got {formula!r}.")
    if not tokens[cut + 1 :]:
        raise UserError(f"The terms are missing after ~; write y ~ 1 for an intercept alone; got {formula!r}.")
    left, right = (_Parser(part, formula).whole() for part in (tokens[:cut], tokens[cut + 1 :]))
    return left, right


def parse_expression(text: str) -> Node:
    """Return the tree of one side of a formula, such as the terms of a second formula."""
    return _Parser(_tokens(text), text).whole()


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = TOKEN.match(text, at)
        if match is None:
            rest = text[at:].strip()
            raise UserError(f"{rest[:12]!r} in the formula {text!r} is not a name, number or operator; {_hint(rest)}.")
        kind, value = next((k, v) for k, v in match.groupdict().items() if v is not None)
        value = "^" if value == "**" else value
        found.append((kind, value))
        at = match.end()
    return found


def _hint(rest: str) -> str:
    if rest[0] == ".":
        return "write the columns out instead of a dot"
    if rest[0] in "\"'`":
        return "close the quotation mark"
    if rest[0] == "%":
        return "for nested groups write (1 | a/b)"
    return "put a column's name with other characters in backticks, as in `a name`"


class _Parser:
    """Precedence climbing over the tokens."""

    def __init__(self, tokens: list[tuple[str, str]], formula: str) -> None:
        self.tokens, self.formula, self.at = tokens, formula, 0

    def whole(self) -> Node:
        node = self.expression(0)
        if self.at < len(self.tokens):
            odd = self.tokens[self.at][1]
            raise self.problem(f"{odd!r} is in an unexpected place; put an operator before it, or remove it.")
        return node

    def problem(self, what: str) -> UserError:
        return UserError(f"In the formula {self.formula!r}, {what}")

    def operator(self) -> str:
        """Return the next token if it is an operator, else an empty string."""
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "operator":
            return self.tokens[self.at][1]
        return ""

    def expression(self, least: int) -> Node:
        left = self.prefix()
        while (operator := self.operator()) in BINDING and BINDING[operator] >= least:
            self.at += 1
            above = BINDING[operator] if operator == "^" else BINDING[operator] + 1
            left = Binary(operator, left, self.expression(above))
        return left

    def prefix(self) -> Node:
        if self.at >= len(self.tokens):
            last = f"after {self.tokens[-1][1]!r} " if self.tokens else ""
            raise self.problem(f"a term is missing {last}at the end.")
        kind, value = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return Number(float(value))
        if kind == "text":
            return Text(value[1:-1])
        if kind == "quoted":
            return Name(value)
        if kind == "name":
            return self.call(value) if self.operator() == "(" else Name(value)
        if value == "-":
            return Minus(self.expression(SIGN_BINDING))
        if value == "+":
            return self.expression(SIGN_BINDING)
        if value == "(":
            node = self.expression(0)
            self.close()
            return node
        raise self.problem(f"a term is missing before {value!r}.")

    def close(self) -> None:
        if self.operator() != ")":
            raise self.problem("a parenthesis is not closed.")
        self.at += 1

    def call(self, function: str) -> Call:
        self.at += 1
        arguments: list[Node] = []
        options: dict[str, Node] = {}
        while self.operator() != ")":
            named = self.tokens[self.at : self.at + 2]
            if len(named) == 2 and named[0][0] == "name" and named[1] == ("operator", "="):
                self.at += 2
                if named[0][1] in options:
                    raise self.problem(f"{named[0][1]}= is given twice in {function}(…).")
                options[named[0][1]] = self.expression(0)
            else:
                if options:
                    raise self.problem(f"columns stand before options in {function}(…).")
                arguments.append(self.expression(0))
            if self.operator() == ",":
                self.at += 1
            elif self.operator() != ")":
                break
        self.close()
        return Call(function, tuple(arguments), tuple(options.items()))


def names_in(node: Node) -> list[str]:
    """Return the names of the columns in a tree, in their order."""
    if isinstance(node, Name):
        return [node.text]
    if isinstance(node, Binary):
        inner: tuple[Node, ...] = (node.left, node.right)
    elif isinstance(node, Call):
        inner = (*node.arguments, *(value for name, value in node.options if name == "by"))  # others are no columns
    else:
        inner = (node.of,) if isinstance(node, Minus) else ()
    return list(dict.fromkeys(name for one in inner for name in names_in(one)))
