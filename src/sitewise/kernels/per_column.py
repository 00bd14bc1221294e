"""Kernels with one lengthscale per column: free (ARD), or shrunk towards a common lengthscale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sitewise.kernels.base import Kernel, Product, Scaled, Sum, inner_names
from sitewise.kernels.lengthscale_start import sample, start_lengthscale
from sitewise.kernels.pairwise import Pairwise
from sitewise.kernels.shrunk import Shrunk
from sitewise.kernels.stationary import Stationary
from sitewise.parameters import with_values
from sitewise.types import replace

SPREAD = 0.25  # of kernel="shrunk"


def lengthscales_of(kernel: Kernel, columns: int) -> Iterator[tuple[str, tuple[int, ...], np.ndarray]]:
    """Yield name, columns and value (one number, or one per column) of every lengthscale of a kernel."""

    def walk(part: Any, path: str, seen: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], np.ndarray]]:
        if part.active_dims is not None:
            seen = tuple(seen[i] for i in part.active_dims)
        if hasattr(part, "lengthscale"):
            yield f"{path}lengthscale", seen, np.asarray(part.lengthscale)
            return
        if isinstance(part, Pairwise):
            seen = seen[: len(seen) // 2]
        for where, each in inner_names(part):
            yield from walk(each, f"{path}{where}.", seen)

    return walk(kernel, "", tuple(range(columns)))


def with_ard(kernel: Kernel, columns: int) -> Kernel:
    """Return the kernel with one lengthscale per column, starting from its present lengthscale."""
    found = list(lengthscales_of(kernel, columns))
    if not found:
        raise ValueError(
            f"PerColumn is for kernels with a lengthscale, which {type(kernel).__name__} does not have; give the "
            "kernel itself."
        )
    return with_values(kernel, {name: np.array(np.broadcast_to(value, len(seen))) for name, seen, value in found})


def with_shrunk(kernel: Kernel, X: np.ndarray, start: bool, spread: float = SPREAD) -> Kernel:
    """Return the kernel with one lengthscale per column, shrunk towards a common value in the units of the columns.

    With `start` the common value is the starting value of the default kernel.
    """
    sd = np.std(X, axis=0)
    units = np.where(sd > 0, sd, 1.0)

    def shrink(part: Any, seen: np.ndarray) -> Kernel:
        if part.active_dims is not None:
            seen = seen[list(part.active_dims)]
        if isinstance(part, Sum | Product):
            return replace(part, parts=tuple(shrink(each, seen) for each in part.parts))
        if isinstance(part, Scaled):
            return replace(part, base=shrink(part.base, seen))
        if not isinstance(part, Stationary) or np.ndim(part.lengthscale):
            raise ValueError(
                f"PerColumn(…, shrunk=True) is for stationary kernels with one lengthscale, which "
                f"{type(part).__name__} is not; give the kernel itself, or build kernels.Shrunk yourself."
            )
        own = replace(part, active_dims=None)
        if start:
            own = replace(own, lengthscale=np.float64(start_lengthscale(sample(X)[:, seen] / units[seen])))
        return Shrunk(own, np.zeros(len(seen)), spread, units[seen], active_dims=part.active_dims)

    return shrink(kernel, np.arange(X.shape[1]))


def start_lengthscales(X: np.ndarray) -> np.ndarray:
    """Return starting values for one lengthscale per column, in the units of the columns."""
    spread = np.std(X, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return start_lengthscale(sample(X) / spread) * spread
