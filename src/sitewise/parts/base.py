"""Parts of a latent function with a sparse precision: the contract that `priors.precision` requires of them.

A part is a kernel, so that its covariance is known, and it has another form besides: variables x ~ N(0, Q(θ)⁻¹) with a
sparse Q, on which the rows load, f_i = w_iᵀ x + e_i.  At the training rows e_i = 0.  At new rows the part may have a
residual e of its own: a new level, or a place between others.

    Part.layout(A)                    variables, loads and pattern of the training rows; does not depend on θ
    Layout.precision(part)            the entries of Q on the pattern, and log|Q|
    Layout.pull(part, bar, log_det)   the derivative in θ, given the derivatives in these numbers
    Layout.weights(part)              the loads of the training rows, and `pull_weights` their derivative, if `moving`
    Layout.loads(part, A)             w and the variance of e at new rows
    Layout.residuals(part, A)         the covariance matrix of e at new rows

A new kind of part is a class in this folder that defines these, `pairs` and `diag`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sitewise.kernels.base import Kernel, inner_names
from sitewise.kernels.stationary import Matern32
from sitewise.kernels.units import Units, input_units
from sitewise.setting import same
from sitewise.types import module, replace, static

Columns = int | str | tuple[int | str, ...]
START_EXTENT = 0.1  # lengthscale of a default kernel at the start, as a share of the extent of the columns


class Loads(NamedTuple):
    """Loads of rows on the variables of a part: weights `weight` on variables `variable`, both (rows, k).

    residual  the variance of e per row
    """

    variable: np.ndarray
    weight: np.ndarray
    residual: np.ndarray


class Layout(abc.ABC):
    """The variables of a part for given training rows.

    size         number of variables
    index, weight   loads of the training rows, both (rows, k); `weight` is replaced by `weights(part)` if `moving`
    moving       whether the loads of the training rows depend on θ
    i, j         entries of Q, each pair once, the whole diagonal included
    positions    coordinates of the variables, (size, d), or None
    border       variables that are eliminated last, because many rows or variables touch them
    sums         sets of variables whose sums are zero
    dense        whether every row loads on every variable; `index` then repeats 0 … size − 1 and is not used
    """

    dense: ClassVar[bool] = False
    moving: ClassVar[bool] = False

    size: int
    index: np.ndarray
    weight: np.ndarray
    i: np.ndarray
    j: np.ndarray
    positions: np.ndarray | None = None
    border: np.ndarray = np.empty(0, np.int64)
    sums: Sequence[np.ndarray] = ()

    @abc.abstractmethod
    def precision(self, part: Any) -> tuple[np.ndarray, float]:
        """Return the entries of Q and log|Q|; with `sums`, as `numerics.sparse.factor` defines it."""

    @abc.abstractmethod
    def pull(self, part: Any, bar: np.ndarray, log_det: float) -> Any:
        """Return the cotangent of the part, given the cotangents of the entries and of log|Q|."""

    def weights(self, part: Any) -> np.ndarray:
        """Return the loads of the training rows."""
        return self.weight

    def pull_weights(self, part: Any, bar: np.ndarray) -> Any:
        """Return the cotangent of the part, given the cotangent of `weights`; for layouts whose loads are `moving`."""
        raise NotImplementedError(f"{type(self).__name__} must define pull_weights(part, bar).")

    @abc.abstractmethod
    def loads(self, part: Any, A: np.ndarray) -> Loads:
        """Return the loads of new rows; A holds the active columns."""

    def residuals(self, part: Any, A: np.ndarray) -> np.ndarray:
        """Return the covariance matrix of e at new rows; the default is for a part without residuals."""
        return np.zeros((len(A), len(A)))


@module
class Part(Kernel):
    """Base class of the parts of a latent function with a sparse precision.

    Parameters
    ----------
    columns : int, str or tuple, default=()
        The numbers of the columns of X that the part uses, or in an estimator their names.
    """

    columns: Columns = static(default=())

    local: ClassVar[bool] = False  # a row loads on variables next to each other, in space or time
    further: ClassVar[str] = ""  # the field that holds columns besides `columns`, such as "by"; it may be None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _tuple(self.columns))
        used = self.used
        object.__setattr__(self, "active_dims", used if used and all(isinstance(c, int) for c in used) else None)
        super().__post_init__()

    def __repr__(self) -> str:
        return super(Part, replace(self, active_dims=None)).__repr__()  # they repeat the columns

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Part):
            raise ValueError("Write parts.Product((a, b)) for the product of two parts a and b.")
        return super().__mul__(other)

    @property
    def used(self) -> tuple[int | str, ...]:
        """The columns that the part uses, in the order of its active columns."""
        return (*self.columns, *self._further_columns())  # type: ignore[misc]

    def _further_columns(self) -> tuple[int | str, ...]:
        more = getattr(self, self.further, None)
        return () if more is None else _tuple(more)

    def check(self, columns: int) -> None:
        named = [c for c in self.used if isinstance(c, str)]
        if named:
            raise ValueError(
                f"{type(self).__name__}: the column {named[0]!r} is given by its name, which only an estimator "
                "resolves; give its number."
            )
        super().check(columns)

    def with_numbers(self, names: Sequence[str], columns: int) -> Self:
        """Return the part with numbers of columns in place of names."""
        found = numbered(self, self.columns, names, columns), numbered(self, self.used, names, columns)
        others: dict[str, Any] = {}
        if more := numbered(self, self._further_columns(), names, columns):
            others[self.further] = more if isinstance(getattr(self, self.further), tuple) else more[0]
        return replace(self, columns=found[0], active_dims=found[1] or None, **others)

    def units(self, ranges: np.ndarray, path: str) -> Units:
        """Return the units of the parameters (`Prior.input_units`), given max − min of the active columns."""
        found: Units = {}
        for name, part in inner_names(self):
            found |= input_units(part, ranges, f"{path}.{name}")
        return found

    def started(self, A: np.ndarray, variance: float) -> Self:
        """Return the part with a starting kernel from the spread of its active columns, if its kernel is the default.

        `variance` is a typical variance of the latent function.
        """
        return self

    def doubt(self, A: np.ndarray) -> str:
        """Return a sentence that warns of a column unsuitable for this part; empty if there is no doubt."""
        return ""

    def is_effect_per_row(self, A: np.ndarray, weight: np.ndarray) -> bool:
        """Return whether the part has an independent effect per row; a weight above 1 stands for repeated rows."""
        return False

    @abc.abstractmethod
    def layout(self, A: np.ndarray) -> Layout:
        """Return variables, loads and pattern for training rows; A holds the active columns."""

    def layout_with_fixed_loads(self, A: np.ndarray) -> Layout:
        """Return a layout whose loads do not depend on θ, for products of parts and for two functions per row."""
        return self.layout(A)

    def exact_for(self, rows: float) -> bool:
        """Return whether the precision is that of the kernel, for this number of rows."""
        return True


def starting_kernel(kernel: Kernel, at: np.ndarray, variance: float) -> Kernel:
    """Return the kernel, or in place of the default a kernel with a lengthscale that suits the coordinates `at`."""
    extent = float(np.max(np.ptp(at, axis=0), initial=0.0)) if len(at) else 0.0
    if not same(kernel, Matern32()) or not extent > 0:
        return kernel
    return Matern32(START_EXTENT * extent, variance)


def _tuple(columns: Any) -> tuple[int | str, ...]:
    each = tuple(columns) if isinstance(columns, list | tuple | range | np.ndarray) else (columns,)
    return tuple(c if isinstance(c, str) else _number(c) for c in each)


def _number(column: Any) -> int:
    if isinstance(column, bool | np.bool_) or not isinstance(column, int | np.integer) or column < 0:
        raise ValueError(f"A part takes the numbers of columns, from 0, or their names; got {column!r}.")
    return int(column)


def numbered(part: Part, columns: Any, names: Sequence[str], count: int) -> tuple[int, ...]:
    """Return the numbers of columns that are given by numbers or names; ValueError for an unknown column."""
    found = []
    for column in _tuple(columns):
        if isinstance(column, str):
            if column not in names:
                known = f"the columns are {', '.join(map(str, names))}" if len(names) else "X has no column names"
                raise ValueError(f"{type(part).__name__}: X has no column {column!r}; {known}.")
            column = list(names).index(column)
        if column >= count:
            raise ValueError(f"{type(part).__name__}: X has no column {column}; its columns are 0 to {count - 1}.")
        found.append(column)
    return tuple(found)
