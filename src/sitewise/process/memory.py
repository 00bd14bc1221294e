"""How much memory a computation may take, checked before it starts.

A full GP keeps several n × n matrices at once.  A fit that needs too much memory is refused with the numbers at once;
otherwise the system would end it half an hour later.
"""

from __future__ import annotations

import os
from pathlib import Path

from sitewise.errors import UserError

# How many n × n matrices exist at the same time: measured by the growth of a fit from 1 024 to 2 048 rows
# (docs/explanation/trust.md).  With joint classes the matrices are Cn × Cn, one row per latent value (measured
# with 10 classes, from 256 to 512 rows).
_MATRICES, _JOINT_MATRICES = 10, 7
_BUDGET_SHARE = 0.9  # of the memory of the machine
MAX_COUNTED_FITS = 1024.0  # also where the memory of the machine is not known
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def budget() -> float:
    """Return the bytes that may be used: SITEWISE_MEMORY (in GB), or 90 % of the memory of the machine or container."""
    given = os.environ.get("SITEWISE_MEMORY")
    if given:
        try:
            gigabytes = float(given)
        except ValueError:
            gigabytes = 0.0
        if not gigabytes > 0:
            raise UserError(f"SITEWISE_MEMORY must be a positive number of GB, got {given!r}.")
        return 1e9 * gigabytes
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    for place in map(Path, _LIMITS):
        try:
            found.append(int(place.read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return _BUDGET_SHARE * min(found, default=float("inf"))


def full_fits(rows: int, latents: int = 1) -> int:
    """Return how many full GPs of this size may be learned at the same time, at least 1."""
    matrices = _MATRICES if latents == 1 else _JOINT_MATRICES
    return max(1, int(min(budget() / (8.0 * matrices * (rows * latents) ** 2), MAX_COUNTED_FITS)))


def require_full(rows: int, latents: int = 1, matrices: int = _MATRICES, *, classes: bool = True) -> None:
    """Raise UserError if learning a full GP needs more than the budget.

    rows       number of rows, padding included
    latents    latent values per row: the number of classes if they are treated jointly, else 1
    matrices   how many n × n matrices the learner keeps at once, if latents is 1
    classes    whether several latent values per row are those of joint classes
    """
    matrices, side = (matrices if latents == 1 else _JOINT_MATRICES), rows * latents
    need, have = 8.0 * matrices * side**2, budget()
    if need > have:
        if latents == 1:
            what, way = f"{rows} rows", "make it sparse (structure=Sparse(500), or Model.sparse)"
        elif not classes:
            what, way = f"{rows} rows and {latents} latent functions", "hold the varying parameter constant"
        else:
            what, way = f"{rows} rows and {latents} joint classes", "take one class against the rest"
        raise UserError(
            f"A full GP of {what} needs about {need / 1e9:.3g} GB ({matrices} matrices of {8e-9 * side**2:.3g} "
            f"GB), but {have / 1e9:.3g} GB may be used; {way}, use fewer rows, or raise SITEWISE_MEMORY."
        )
