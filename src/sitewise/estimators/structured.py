"""The kernel to start from, where an estimator is asked for groups of rows or for additive effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sitewise.estimators.candidates import Candidate
from sitewise.explain.effects import column_of
from sitewise.kernels import Constant, Index, Kernel
from sitewise.types import replace


def group_columns(model: Any) -> list[int]:
    """The numbers of the columns in `groups`: one name or number, or a list of them."""
    given = model.groups
    if given is None:
        return []
    each = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [column_of(model, one) for one in each]


def additive_order(model: Any) -> int:
    """0 for no additive kernel, else its order; True stands for 2."""
    given = model.additive
    if given not in (False, 1, 2):
        raise ValueError(f"additive must be True, False, 1 (main effects) or 2 (and pairs), got {given!r}.")
    if given is False or given == 0:
        return 0
    if model.kernel is not None or model.ard not in ("auto", False):
        raise ValueError("additive makes the kernel, with a lengthscale for every column; leave kernel and ard out.")
    return 2 if given is True else int(given)


def beside_groups(one: Candidate, rest: Sequence[int], groups: Sequence[int]) -> Candidate:
    """A kernel of the other columns beside offsets of groups, of which it is the first part."""
    weak = {name.replace("kernel.", "kernel.parts.0.", 1): prior for name, prior in one.weak.items()}
    return Candidate(one.name, with_groups(one.kernel, rest, groups), weak)


def with_groups(kernel: Kernel | None, rest: Sequence[int], groups: Sequence[int]) -> Kernel:
    """The kernel of the other columns, and an offset for every level of each group column.

    `kernel` is None where there are no other columns.
    """
    if kernel is None:
        base: Kernel = Constant()
    elif kernel.active_dims is None:
        base = replace(kernel, active_dims=(*rest,))
    else:
        base = kernel
    return sum((Index(column) for column in groups), base)
