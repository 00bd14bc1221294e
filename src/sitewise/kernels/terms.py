"""The terms of a kernel: f = Σ_p f_p with independent f_p of the kernels κ_p, so that κ = Σ_p κ_p."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sitewise.kernels.additive import Additive
from sitewise.kernels.base import Kernel, Product, Scaled, Sum, inner
from sitewise.kernels.index import Index
from sitewise.kernels.linear import Constant
from sitewise.kernels.pairwise import Pairwise
from sitewise.types import replace


class Term(NamedTuple):
    """`columns` are those that it sees, by their numbers in the whole table; None for all."""

    name: str
    kernel: Kernel
    columns: tuple[int, ...] | None


def terms(kernel: Kernel, names: Sequence[str] | None = None) -> list[Term]:
    """The parts of a sum, those of sums within it, and the effects of `Additive`; one for any other kernel.

    A term has the `name` of its kernel, or else that of its columns, from `names` or x0, x1, …; a constant is
    "offset".  Of terms with equal names the second gets "#2", and so on.
    """
    found = [Term(_called(one, columns, names), one, columns) for one, columns in _split(kernel)]
    count: Counter[str] = Counter()
    out = []
    for term in found:
        count[term.name] += 1
        again = count[term.name]
        out.append(term if again == 1 else term._replace(name=f"{term.name} #{again}"))
    return out


def together(chosen: Sequence[Term]) -> Kernel:
    """The kernel of the sum of some terms."""
    return chosen[0].kernel if len(chosen) == 1 else Sum(tuple(term.kernel for term in chosen))


def level_columns(kernel: Kernel, columns: Sequence[int]) -> set[int]:
    """Which of these columns hold levels, of an `Index` anywhere in the kernel."""
    seen = list(columns) if kernel.active_dims is None else [columns[j] for j in kernel.active_dims]
    if isinstance(kernel, Index):
        return set(seen)
    if isinstance(kernel, Pairwise):
        half = len(seen) // 2
        return level_columns(kernel.base, seen[:half]) | level_columns(kernel.base, seen[half:])
    return {column for part in inner(kernel) for column in level_columns(part, seen)}


def _split(kernel: Kernel) -> Iterator[tuple[Kernel, tuple[int, ...] | None]]:
    """Kernels that add up to this one, in the order of its parts, each with the columns that it sees."""
    own = kernel.active_dims
    for part, columns in _parts(kernel):
        if own is None:
            yield part, columns
        else:
            inside = tuple(own[j] for j in columns) if columns is not None else own
            yield (part if part is kernel else Sum((part,), active_dims=own, name=part.name)), inside


def _parts(kernel: Kernel) -> Iterator[tuple[Kernel, tuple[int, ...] | None]]:
    """As `_split`, in the columns that the kernel itself sees."""
    if isinstance(kernel, Sum):
        for part in kernel.parts:
            yield from _split(part)
    elif isinstance(kernel, Scaled | Pairwise):
        within = list(_split(kernel.base))
        for part, columns in within:
            name = kernel.name if len(within) == 1 else part.name
            yield replace(kernel, base=part, active_dims=None, name=name), columns
    elif isinstance(kernel, Additive):
        yield from _effects(kernel)
    else:
        yield kernel, _seen(kernel)


def _seen(kernel: Kernel) -> tuple[int, ...] | None:
    """The columns of a product or another kernel of kernels, where its parts say; in its own columns."""
    if isinstance(kernel, Constant):
        return ()
    if not isinstance(kernel, Product):
        return None
    each = [tuple(p.active_dims) if p.active_dims is not None else _seen(p) for p in inner(kernel)]
    if any(columns is None for columns in each):
        return None
    return tuple(sorted({j for columns in each for j in columns or ()}))


def _effects(kernel: Additive) -> Iterator[tuple[Kernel, tuple[int, ...] | None]]:
    yield replace(Constant(), variance=kernel.offset), ()
    for part in kernel.effects:
        yield part, part.active_dims
    if kernel.interaction is not None:
        for one, other in itertools.combinations(kernel.effects, 2):
            pair = replace(Scaled(Product((one, other))), variance=kernel.interaction)
            yield pair, (*(one.active_dims or ()), *(other.active_dims or ()))


def _called(kernel: Kernel, columns: tuple[int, ...] | None, names: Sequence[str] | None) -> str:
    if kernel.name is not None:
        return kernel.name
    if columns == ():
        return "offset"
    if columns is None:
        return _kind(kernel)
    shown = [names[j] if names is not None and j < len(names) else f"x{j}" for j in columns]
    return " × ".join(dict.fromkeys(shown))


def _kind(kernel: Kernel) -> str:
    """The class of a kernel, without its scale and the wrapper of its columns."""
    while isinstance(kernel, Scaled | Pairwise) or (isinstance(kernel, Sum) and len(kernel.parts) == 1):
        kernel = inner(kernel)[0]
    return type(kernel).__name__
