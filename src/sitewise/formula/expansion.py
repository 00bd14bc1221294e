"""Expand the right side of a formula: + and − of terms, a*b = a + b + a:b, a/b = a + a:b, (a + b)^2, special terms."""

from __future__ import annotations

import dataclasses
import itertools

from sitewise.errors import UserError
from sitewise.formula.grammar import (
    TWO_EXAMPLE,
    Binary,
    Call,
    Minus,
    Name,
    Node,
    Number,
    Text,
    names_in,
    parse,
    parse_expression,
    text_of,
)

Product = tuple[Node, ...]  # a product of columns: a linear term

SMOOTHS = ("s", "te", "map", "area", "series")
SPECIAL = (*SMOOTHS, "offset")


@dataclasses.dataclass(frozen=True)
class Grouping:
    """(terms | group): effects that vary by group.

    correlated  whether the effects of a group are correlated: | and not ||
    """

    intercept: bool
    linear: tuple[Product, ...]
    group: tuple[Name, ...]
    correlated: bool

    def __str__(self) -> str:
        first = ["1"] if self.intercept else ["0"]
        left = " + ".join([*first, *(":".join(map(str, term)) for term in self.linear)])
        return f"({left} {'|' if self.correlated else '||'} {':'.join(map(str, self.group))})"


Special = Call | Grouping


@dataclasses.dataclass(frozen=True)
class Formula:
    """A formula in its terms.

    linear   products of columns, by their number of factors
    special  smooth functions, maps, areas, series and groups
    offsets  expressions that are added to f with the coefficient 1
    varying  the terms of a parameter of the likelihood, whose name is the response there; or None
    """

    text: str
    response: Node
    intercept: bool
    linear: tuple[Product, ...]
    special: tuple[Special, ...]
    offsets: tuple[Node, ...]
    varying: Formula | None = None

    @property
    def functions(self) -> tuple[Formula, ...]:
        """The formula per latent function."""
        return (self,) if self.varying is None else (self, self.varying)

    @staticmethod
    def of(given: object) -> Formula:
        """Parse and expand a formula."""
        text = text_of(given)
        (response, right), *rest = parse(text)
        if isinstance(response, Call) and response.function in ("cbind", "Surv", "trials", *SPECIAL):
            raise UserError(
                f"The response {response} is not supported; write the column alone, and give trials=, event= or "
                "exposure= to fit with the name of a column."
            )
        if isinstance(response, Number | Text):
            raise UserError(f"The response must be a column, got {response}.")
        found = _formula(text, response, right)
        _refuse_response_on_the_right(found, response)
        if not rest:
            return found
        ((parameter, terms),) = rest
        if not isinstance(parameter, Name):
            raise UserError(f"The second formula varies a parameter, as in {TWO_EXAMPLE!r}; got {parameter} before ~.")
        varying = _formula(text, response, terms)
        _refuse_response_on_the_right(varying, response)
        return dataclasses.replace(found, varying=dataclasses.replace(varying, response=parameter))


def _refuse_response_on_the_right(formula: Formula, response: Node) -> None:
    """Raise UserError if the response, or the only column in it, is on the right.

    A response of several columns, such as a change, may have one of them on the right: I(after - before) ~ before.
    """
    names = set(names_in(response))
    used = set(columns_of(dataclasses.replace(formula, response=Number(0.0))))
    if str(response) in {str(factor) for term in formula.linear for factor in term} or (
        len(names) == 1 and names <= used
    ):
        raise UserError(
            f"The response {response} is also a term of the formula {formula.text!r}; leave it out on the right."
        )


def columns_of(formula: Formula) -> list[str]:
    """Return the names of the columns that a formula uses."""
    nodes: list[Node] = [formula.response]
    for function in formula.functions:
        nodes += [*function.offsets, *(node for term in function.linear for node in term)]
        for one in function.special:
            nodes += [*one.group, *itertools.chain(*one.linear)] if isinstance(one, Grouping) else [one]
    return list(dict.fromkeys(name for node in nodes for name in names_in(node)))


def terms_of(text: str, right: Node) -> Formula:
    """Return the terms of a right side alone, for a parameter that varies."""
    return _formula(text, Number(0.0), right)


def canonical_name(name: str, before: tuple[str, ...]) -> str:
    """Return the name of a smooth or group term that is written otherwise, as "(1|g)" for "(1 | g)".

    `before` are the beginnings of the names of terms per function, such as "scale: ".
    """
    first = next((one for one in reversed(before) if name.startswith(one.strip())), "")
    text = name.removeprefix(first.strip()).strip()
    try:
        special = terms_of(text, parse_expression(text)).special
    except UserError:
        return name
    return f"{first}{special[0] if len(special) == 1 else text}"


def _formula(text: str, response: Node, right: Node) -> Formula:
    found = _expanded(right)
    special = [one for one in found.special if isinstance(one, Grouping) or one.function != "offset"]
    offsets = []
    for one in found.special:
        if isinstance(one, Call) and one.function == "offset":
            if len(one.arguments) != 1 or one.options:
                raise UserError(f"{one} must hold one column or expression, as in offset(log(exposure)).")
            offsets.append(one.arguments[0])
    linear = sorted(found.linear, key=len)
    return Formula(text, response, found.intercept is not False, tuple(linear), tuple(special), tuple(offsets))


@dataclasses.dataclass
class _Sum:
    """A sum of terms; `intercept` is None if the formula names neither 1 nor 0."""

    intercept: bool | None = None
    linear: list[Product] = dataclasses.field(default_factory=list)
    special: list[Special] = dataclasses.field(default_factory=list)

    def plus(self, other: _Sum) -> _Sum:
        intercept = self.intercept if other.intercept is None else other.intercept
        repeated = [str(one) for one in other.special if one in self.special]
        if repeated:
            raise UserError(f"The term {repeated[0]} is given twice; leave one out.")
        return _Sum(intercept, _distinct([*self.linear, *other.linear]), [*self.special, *other.special])

    def minus(self, other: _Sum, text: str) -> _Sum:
        absent = [one for one in other.linear if not _among(one, self.linear)]
        absent += [one for one in other.special if one not in self.special]  # type: ignore[misc]
        if absent:
            raise UserError(f"The formula subtracts {text}, but has no such term before the minus sign.")
        linear = [one for one in self.linear if not _among(one, other.linear)]
        special = [one for one in self.special if one not in other.special]
        intercept = not other.intercept if other.intercept is not None else self.intercept
        return _Sum(intercept, linear, special)


def _among(term: Product, terms: list[Product]) -> bool:
    return any(set(term) == set(one) for one in terms)


def _distinct(terms: list[Product]) -> list[Product]:
    out: list[Product] = []
    for term in terms:
        if not _among(term, out):
            out.append(term)
    return out


def _product(left: Product, right: Product) -> Product:
    return tuple(dict.fromkeys((*left, *right)))


def _expanded(node: Node) -> _Sum:
    if isinstance(node, Number):
        if node.value not in (0, 1):
            raise UserError(f"The number {node} is not a term; 1 is the intercept, 0 + or - 1 leaves it out.")
        return _Sum(bool(node.value))
    if isinstance(node, Text):
        raise UserError(f"{node} in quotes is not a term; write the name of a column without quotes or in backticks.")
    if isinstance(node, Minus):
        return _Sum().minus(_expanded(node.of), str(node.of))
    if isinstance(node, Call):
        return _Sum(special=[node]) if node.function in SPECIAL else _Sum(linear=[(node,)])
    if isinstance(node, Name):
        return _Sum(linear=[(node,)])
    return _of_operator(node)


def _of_operator(node: Binary) -> _Sum:
    if node.operator in ("|", "||"):
        return _Sum(special=list(_groupings(node)))
    if node.operator == "+":
        return _expanded(node.left).plus(_expanded(node.right))
    if node.operator == "-":
        return _expanded(node.left).minus(_expanded(node.right), str(node.right))
    if node.operator == "^":
        return _power(node)
    if node.operator not in ("*", "/", ":"):
        raise UserError(f"The comparison {node} is not a term; write I({node}) for a column of 0 and 1.")
    left, right = _factors(node.left, node), _factors(node.right, node)
    crossed = [_product(a, b) for a in left for b in right]
    if node.operator == ":":
        return _Sum(linear=_distinct(crossed))
    if node.operator == "/":
        inner = [_product(tuple(itertools.chain(*left)), b) for b in right]
        return _Sum(linear=_distinct([*left, *inner]))
    return _Sum(linear=_distinct([*left, *right, *crossed]))


def _factors(node: Node, whole: Node) -> list[Product]:
    if isinstance(node, Number):
        raise UserError(f"{whole} multiplies by a number; write I({whole}) for arithmetic.")
    found = _expanded(node)
    if found.special:
        raise UserError(
            f"{found.special[0]} cannot be multiplied in {whole}; write s(x, by=z) for a function that varies with z, "
            "or (0 + x | g) for slopes per group."
        )
    if found.intercept is not None:
        raise UserError(f"{whole} multiplies the intercept; write the products of columns out.")
    return found.linear


def _power(node: Binary) -> _Sum:
    if not isinstance(node.right, Number) or node.right.value not in (1, 2, 3, 4):
        raise UserError(f"{node} needs a power from 1 to 4, for products of up to that many columns.")
    base = _factors(node.left, node)
    if len(base) == 1 and node.right.value > 1:
        raise UserError(f"{node} is the column itself in a formula; write I({node}) for arithmetic.")
    out: list[Product] = []
    for count in range(1, int(node.right.value) + 1):
        for chosen in itertools.combinations(base, count):
            out.append(tuple(dict.fromkeys(itertools.chain(*chosen))))
    return _Sum(linear=_distinct(out))


def _groupings(node: Binary) -> list[Grouping]:
    left, correlated = _expanded(node.left), node.operator == "|"
    if left.special:
        raise UserError(
            f"{left.special[0]} cannot vary by group in ({node}); write s(x, by=g) for a function per group."
        )
    intercept = left.intercept is not False
    if not intercept and not left.linear:
        raise UserError(f"({node}) has no effect that varies; write (1 | g), or (0 + x | g) for slopes alone.")
    return [Grouping(intercept, tuple(left.linear), group, correlated) for group in _groups(node.right, node)]


def _groups(node: Node, whole: Node) -> list[tuple[Name, ...]]:
    """Return the groups of a/b (a and a:b), a:b or a."""
    if isinstance(node, Name):
        return [(node,)]
    if isinstance(node, Binary) and node.operator == "/":
        outer, inner = _groups(node.left, whole), _groups(node.right, whole)
        return [*outer, *((*outer[-1], *one) for one in inner)]
    if isinstance(node, Binary) and node.operator == ":":
        return [(*a, *b) for a in _groups(node.left, whole) for b in _groups(node.right, whole)]
    raise UserError(f"({whole}) needs the name of a column after the bar, as in (1 | g), (1 | a:b) or (1 | a/b).")
