"""L0. How much memory a computation may take, said before it starts.

A full GP keeps several n × n matrices at once.  One that would not fit is refused with the numbers, instead of being
ended by the system half an hour later.
"""

from __future__ import annotations

import os
from pathlib import Path

# n × n matrices at the same time, by the growth of a fit from 1 024 to 2 048 rows (docs/explanation/trust.md); of joint
# classes the matrices are those of all latent values, Cn × Cn (10 classes, from 256 to 512 rows)
_MATRICES, _JOINT_MATRICES = 10, 7
_SHARE = 0.9  # of the memory that is there
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def budget() -> float:
    """Bytes: SITEWISE_MEMORY (in GB), or nine tenths of what the machine, or its container, has."""
    given = os.environ.get("SITEWISE_MEMORY")
    if given:
        try:
            gigabytes = float(given)
        except ValueError:
            gigabytes = 0.0
        if not gigabytes > 0:
            raise ValueError(f"SITEWISE_MEMORY must be a positive number of GB, got {given!r}.")
        return 1e9 * gigabytes
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    for place in map(Path, _LIMITS):
        try:
            found.append(int(place.read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return _SHARE * min(found, default=float("inf"))


def require_full(rows: int, latents: int = 1, matrices: int = _MATRICES) -> None:
    """Raise ValueError if learning a full GP of so many (padded) rows, and latent values a row, exceeds the budget."""
    matrices, side = (matrices if latents == 1 else _JOINT_MATRICES), rows * latents
    need, have = 8.0 * matrices * side**2, budget()
    if need > have:
        what, way = (
            (f"{rows} rows", "make it sparse (n_inducing=500, or Model.sparse)")
            if latents == 1
            else (f"{rows} rows and {latents} joint classes", "take one class against the rest")
        )
        raise ValueError(
            f"A full GP of {what} needs about {need / 1e9:.3g} GB ({matrices} matrices of {8e-9 * side**2:.3g} "
            f"GB), but {have / 1e9:.3g} GB may be used; {way}, use fewer rows, or raise SITEWISE_MEMORY."
        )
