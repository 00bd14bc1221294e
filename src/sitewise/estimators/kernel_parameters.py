"""Parameters of the kernel by scikit-learn's names, as in `kernel__lengthscale`, for grids and set_params."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.kernel_choice import PerColumn
from sitewise.kernels import Kernel, Matern52
from sitewise.parameters import values, walk, with_values

PREFIX = "kernel__"


def inner_kernel(choice: Any) -> Kernel | None:
    """Return the kernel inside an estimator's `kernel`; None for several kernels or no fixed form."""
    if isinstance(choice, PerColumn):
        return choice.kernel
    if choice is None or (isinstance(choice, str) and choice in ("isotropic", "ard", "shrunk")):
        return Matern52()
    return choice if isinstance(choice, Kernel) else None


def read(choice: Any) -> dict[str, Any]:
    """Return the values by name: numbers, or arrays for parameters with several entries."""
    kernel = inner_kernel(choice)
    found = {} if kernel is None else values(kernel)
    return {PREFIX + name: value.item() if value.ndim == 0 else value for name, value in found.items()}


def write(choice: Any, new: dict[str, Any]) -> Kernel | PerColumn:
    """Return the choice with other values of the kernel's parameters."""
    kernel = inner_kernel(choice)
    if kernel is None:
        raise ValueError(f"kernel={choice!r} has no parameter {next(iter(new))!r}; give one kernel instead.")
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
    if isinstance(choice, PerColumn):
        return choice.with_fields(kernel=kernel)
    named = isinstance(choice, str) and choice in ("ard", "shrunk")
    return PerColumn(kernel, shrunk=choice == "shrunk") if named else kernel
