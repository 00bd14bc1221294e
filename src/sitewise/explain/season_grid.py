"""The periods of a kernel along a column, which decide at how many values an effect is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sitewise.kernels import Cosine, Kernel, Periodic, terms
from sitewise.kernels.base import Product, Scaled, Sum, inner
from sitewise.parts import Season

POINTS_PER_PERIOD = 12
MAX_SEASON_POINTS = 400


def _periods(kernel: Kernel, columns: Sequence[int], place: int) -> Iterator[float]:
    """Yield the periods of the kernel in the column `place`; `columns` are the columns that the kernel sees."""
    seen = list(columns) if kernel.active_dims is None else [columns[j] for j in kernel.active_dims]
    if isinstance(kernel, Periodic | Cosine | Season) and place in seen:
        yield float(np.broadcast_to(kernel.period, len(seen))[seen.index(place)])
    elif isinstance(kernel, Sum | Product | Scaled):
        for part in inner(kernel):
            yield from _periods(part, seen, place)


def _is_periodic(kernel: Kernel) -> bool:
    """Return whether the kernel repeats itself exactly: a periodic kernel, its multiples, and sums and products."""
    wraps = isinstance(kernel, Sum | Product | Scaled)
    return all(map(_is_periodic, inner(kernel))) if wraps else isinstance(kernel, Periodic | Cosine | Season)


def season(kernel: Kernel, columns: Sequence[int], place: int, chosen: Sequence[int] | None) -> float | None:
    """Return the common period in the column `place` if the chosen terms of the kernel repeat exactly, else None."""
    each = terms(kernel)
    parts = [one.kernel for one in (each if chosen is None else [each[i] for i in chosen])]
    if not all(map(_is_periodic, parts)):
        return None
    found = {period for part in parts for period in _periods(part, columns, place)}
    return found.pop() if len(found) == 1 else None


def season_points(kernel: Kernel, columns: Sequence[int], place: int, reach: float) -> int:
    """Return how many evenly spaced values over `reach` show the shortest period of the kernel in the column."""
    found = list(_periods(kernel, columns, place))
    return min(MAX_SEASON_POINTS, int(POINTS_PER_PERIOD * reach / min(found)) + 1) if found else 0
