"""A function of time by the state-space form of its kernel (`kernels.state_space`).

Short series have independent variables on a tree of times (`time_tree`), which keeps all digits where times are close.
Long ones, and products of kernels, have the states themselves as variables (`chain_layout`), which needs fewer loads
per row.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sitewise.arrays.engine import Array
from sitewise.checks import must_be
from sitewise.kernels.base import Kernel, Product, Scaled, Sum, check_parts
from sitewise.kernels.state_space import check_form, states_of
from sitewise.kernels.stationary import Matern12, Matern32, Matern52
from sitewise.kernels.units import Units, input_units
from sitewise.parts.base import Layout, Part, starting_kernel
from sitewise.parts.chain_layout import ChainLayout
from sitewise.parts.time_layout import HARMONICS
from sitewise.parts.time_tree import MAX_TREE_PAIRS, TreeLayout, pairs_of_loads
from sitewise.types import fixed, module, replace, static


@module
class Series(Part):
    """Function of time (trend, state-space model): one series, or one independent function per series.

    Parameters
    ----------
    columns : int or str, default=()
        The column of time.
    kernel : Kernel, default=None
        None is `Matern32()`; otherwise `Matern12`, `Matern32` or `Matern52`, a sum of these, or a product with one of
        these.
    by : int or str, default=None
        The column whose values name independent series that share the kernel; None for one series.
    """

    kernel: Kernel = fixed(default=None)
    by: int | str | None = static(default=None)

    local: ClassVar[bool] = True
    further: ClassVar[str] = "by"

    def __post_init__(self) -> None:
        if self.kernel is None:
            object.__setattr__(self, "kernel", Matern32())
        must_be(self.kernel, Kernel, "The kernel of a Series", "Matern32(), a kernel of sitewise.kernels")
        super().__post_init__()

    def check(self, columns: int) -> None:
        if len(self.columns) != 1:  # type: ignore[arg-type]
            raise ValueError("Series needs one column of time, as in Series(0).")
        super().check(columns)
        check_parts(self, (self.kernel,), 1)
        check_form(self.kernel)
        if not _has_noise(self.kernel):
            raise ValueError(
                f"Series: {type(self.kernel).__name__} has a part without noise; use Season, Linear or Constant as "
                "separate parts, and Matern12, Matern32 or Matern52 here."
            )

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return () if self.by is None else (1,)

    def units(self, ranges: np.ndarray, path: str) -> Units:
        return input_units(self.kernel, ranges[:1], f"{path}.kernel")

    def pairs(self, A: Array, B: Array) -> Array:
        K = self.kernel.matrix(A[:, :1], B[:, :1])
        return K if self.by is None else K * (A[:, 1][:, None] == B[:, 1])

    def diag(self, A: Array) -> Array:
        return self.kernel.variances(A[:, :1])

    def started(self, A: np.ndarray, variance: float) -> Series:
        return replace(self, kernel=starting_kernel(self.kernel, A[:, :1], variance))

    def layout(self, A: np.ndarray) -> Layout:
        longest = len(np.unique(A[:, 0])) if self.by is None else int(np.max(_times_per_series(A), initial=0))
        states = len(states_of(self.kernel, HARMONICS, ()))
        is_tree = _is_sum(self.kernel) and pairs_of_loads(longest, len(A), states) <= MAX_TREE_PAIRS
        return TreeLayout(self, A) if is_tree else ChainLayout(self, A)

    def layout_with_fixed_loads(self, A: np.ndarray) -> Layout:
        return ChainLayout(self, A)


def _times_per_series(A: np.ndarray) -> np.ndarray:
    return np.unique(np.unique(A, axis=0)[:, 1], return_counts=True)[1]


def _is_sum(kernel: Kernel) -> bool:
    """Return whether the kernel is a sum without products."""
    if isinstance(kernel, Sum):
        return all(map(_is_sum, kernel.parts))
    return not isinstance(kernel, Product) and (not isinstance(kernel, Scaled) or _is_sum(kernel.base))


def _has_noise(kernel: Kernel) -> bool:
    """Return whether the noise of every state is regular."""
    if isinstance(kernel, Sum):
        return all(map(_has_noise, kernel.parts))
    if isinstance(kernel, Product):
        return any(map(_has_noise, kernel.parts))
    if isinstance(kernel, Scaled):
        return _has_noise(kernel.base)
    return isinstance(kernel, Matern12 | Matern32 | Matern52)
