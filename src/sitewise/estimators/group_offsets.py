"""Group offsets (random intercepts), added to the kernel of all other columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sitewise.estimators.candidates import Candidate
from sitewise.explain.effects import column_of
from sitewise.kernels import Constant, Index, Kernel
from sitewise.types import replace


def group_columns(model: Any) -> list[int]:
    """Return the numbers of the columns in `groups`: one name or number, or a list of them."""
    given = model.groups
    if given is None:
        return []
    each = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [column_of(model, one) for one in each]


def beside_groups(one: Candidate, rest: Sequence[int], groups: Sequence[int]) -> Candidate:
    """Return the candidate with offsets of groups; its own kernel becomes the first part of the sum."""
    weak = {name.replace("kernel.", "kernel.parts.0.", 1): prior for name, prior in one.weak.items()}
    return Candidate(one.name, with_groups(one.kernel, rest, groups), weak)


def with_groups(kernel: Kernel | None, rest: Sequence[int], groups: Sequence[int]) -> Kernel:
    """Return the kernel of the other columns plus one offset per level of each group column.

    `kernel` is None if there are no other columns.
    """
    if kernel is None:
        base: Kernel = Constant()
    elif kernel.active_dims is None:
        base = replace(kernel, active_dims=(*rest,))
    else:
        base = kernel
    return sum((Index(column) for column in groups), base)
