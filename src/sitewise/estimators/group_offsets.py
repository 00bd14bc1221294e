"""Group offsets (random intercepts), added to the kernel of all other columns."""

from __future__ import annotations

from collections.abc import Sequence

from sitewise.estimators.candidates import Candidate
from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.explain.fitted_model import number_of
from sitewise.kernels import Constant, Index, Kernel
from sitewise.types import replace


def group_columns(model: FittedEstimator) -> list[int]:
    """Return the numbers of the columns in `groups`: one name or number, or a list of them."""
    given = model.groups
    if given is None:
        return []
    each = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [_group_column(model, one) for one in each]


def _group_column(model: FittedEstimator, group: str | int) -> int:
    """Return the number of one column in `groups`; the error says how a column in a Pipeline keeps its name."""
    names = model._column_names()
    if isinstance(group, str) and not model._given_names():
        raise ValueError(
            f"groups={group!r} is a name, but X has no column names; give a data frame, call "
            "set_output(transform='pandas') on the previous step of the Pipeline, or give the number of the column."
        )
    if isinstance(group, str) and group not in names and any(name.startswith(f"{group}=") for name in names):
        raise ValueError(
            f"groups={group!r} is a categorical column with one column of 0 and 1 per category here; encode it with "
            f"TableEncoder(groups={group!r})."
        )
    return number_of(group, names)


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
