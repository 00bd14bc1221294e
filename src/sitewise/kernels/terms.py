"""Split a kernel into the terms of its sum: κ = Σ_p κ_p, so f = Σ_p f_p with independent f_p of the kernels κ_p."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sitewise.kernels.additive import Additive
from sitewise.kernels.base import Kernel, Product, Scaled, Sum, inner
from sitewise.kernels.linear import Constant
from sitewise.kernels.normal_scores import NormalScores
from sitewise.kernels.pairwise import Pairwise
from sitewise.types import replace


class Term(NamedTuple):
    """One term of a kernel that is a sum.

    Attributes
    ----------
    name : str
        The name of the kernel, or else of its columns.
    kernel : Kernel
        The kernel of the term.
    columns : tuple of int or None
        The numbers of the columns that it uses in the whole table; None for all.
    """

    name: str
    kernel: Kernel
    columns: tuple[int, ...] | None


def terms(kernel: Kernel, names: Sequence[str] | None = None) -> list[Term]:
    """Return the terms of a kernel: the parts of sums, also of nested sums, and the effects of `Additive`.

    Any other kernel is a single term.  A term is called by the `name` of its kernel, or else by the names of its
    columns; a constant is called "offset".  Repeated names are numbered: "x0", "x0 #2", ….

    Parameters
    ----------
    kernel : Kernel
        Any kernel.
    names : sequence of str, default=None
        The names of the columns of the table; None means x0, x1, ….

    Returns
    -------
    terms : list of Term
        One entry per term.
    """
    found = [Term(_term_name(one, columns, names), one, columns) for one, columns in _split(kernel)]
    count: Counter[str] = Counter()
    out = []
    for term in found:
        count[term.name] += 1
        number = count[term.name]
        out.append(term if number == 1 else term._replace(name=f"{term.name} #{number}"))
    return out


def together(chosen: Sequence[Term]) -> Kernel:
    """Return the kernel of the sum of the chosen terms."""
    return chosen[0].kernel if len(chosen) == 1 else Sum(tuple(term.kernel for term in chosen))


def level_columns(kernel: Kernel, columns: Sequence[int]) -> set[int]:
    """Return the columns among `columns` that any part of the kernel reads as levels."""
    seen = list(columns) if kernel.active_dims is None else [columns[j] for j in kernel.active_dims]
    if levels := kernel.level_dims(len(seen)):
        return {seen[j] for j in levels}
    if isinstance(kernel, Pairwise):
        half = len(seen) // 2
        return level_columns(kernel.base, seen[:half]) | level_columns(kernel.base, seen[half:])
    return {column for part in inner(kernel) for column in level_columns(part, seen)}


def _split(kernel: Kernel) -> Iterator[tuple[Kernel, tuple[int, ...] | None]]:
    """Yield the terms of a kernel in order, each with its columns in the whole table."""
    own = kernel.active_dims
    for part, columns in _parts(kernel):
        if own is None:
            yield part, columns
        else:
            inside = tuple(own[j] for j in columns) if columns is not None else own
            yield (part if part is kernel else Sum((part,), active_dims=own, name=part.name)), inside


def _parts(kernel: Kernel) -> Iterator[tuple[Kernel, tuple[int, ...] | None]]:
    """Yield the terms of a kernel and their columns, numbered within the kernel's active columns."""
    if isinstance(kernel, Sum):
        for part in kernel.parts:
            yield from _split(part)
    elif isinstance(kernel, Scaled | Pairwise | NormalScores):
        within = list(_split(kernel.base))
        for part, columns in within:
            name = kernel.name if len(within) == 1 else part.name
            yield replace(kernel, base=part, active_dims=None, name=name), columns
    elif isinstance(kernel, Additive):
        yield from _effects(kernel)
    else:
        yield kernel, _columns_used(kernel)


def _columns_used(kernel: Kernel) -> tuple[int, ...] | None:
    """Return the columns that a kernel uses, numbered within its active columns; None for all, or if unknown."""
    if isinstance(kernel, Constant):
        return ()
    if not isinstance(kernel, Product):
        return None
    each = [tuple(p.active_dims) if p.active_dims is not None else _columns_used(p) for p in inner(kernel)]
    if any(columns is None for columns in each):
        return None
    return tuple(sorted({j for columns in each for j in columns or ()}))


def _effects(kernel: Additive) -> Iterator[tuple[Kernel, tuple[int, ...] | None]]:
    """Yield the offset, the main effects and the interactions of an additive kernel, with their columns."""
    yield replace(Constant(), variance=kernel.offset), ()
    for part in kernel.effects:
        yield part, part.active_dims
    if kernel.interaction is not None:
        for one, other in itertools.combinations(kernel.effects, 2):
            pair = replace(Scaled(Product((one, other))), variance=kernel.interaction)
            yield pair, (*(one.active_dims or ()), *(other.active_dims or ()))


def _term_name(kernel: Kernel, columns: tuple[int, ...] | None, names: Sequence[str] | None) -> str:
    """Return the name of a term: its own name, "offset", the names of its columns, or its class."""
    if kernel.name is not None:
        return kernel.name
    if columns == ():
        return "offset"
    if columns is None:
        return _class_name(kernel)
    shown = [names[j] if names is not None and j < len(names) else f"x{j}" for j in columns]
    return " × ".join(dict.fromkeys(shown))


def _class_name(kernel: Kernel) -> str:
    """Return the class name of a kernel below scalings and wrappers of a single part."""
    while isinstance(kernel, Scaled | Pairwise | NormalScores) or (isinstance(kernel, Sum) and len(kernel.parts) == 1):
        kernel = inner(kernel)[0]
    return type(kernel).__name__
