"""Parameters of the kernel by scikit-learn's names, as in `kernel__lengthscale`, for grids and set_params."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.kernels import Kernel
from sitewise.parameters import values, walk, with_values

PREFIX = "kernel__"


def read(kernel: Kernel) -> dict[str, Any]:
    """The values by name: numbers, or arrays where a parameter has several entries."""
    return {PREFIX + name: value.item() if value.ndim == 0 else value for name, value in values(kernel).items()}


def write(kernel: Kernel, new: dict[str, Any]) -> Kernel:
    """A copy of the kernel with other values."""
    known = {p.name: p for p, _ in walk(kernel)}
    for key, value in new.items():
        name = key.removeprefix(PREFIX)
        if name not in known:
            raise ValueError(
                f"Invalid parameter {key!r}; the kernel {type(kernel).__name__} has "
                f"{', '.join(PREFIX + name for name in known)}."
            )
        number = np.asarray(value, float)
        if problem := known[name].support.problem(number):
            raise ValueError(f"{key} {problem}, got {value!r}.")
        kernel = with_values(kernel, {name: number})
    return kernel
