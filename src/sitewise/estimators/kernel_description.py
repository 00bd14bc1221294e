"""Describe kernels as nested dicts of numbers and arrays, for predictions without the library."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise import kernels
from sitewise.errors import UserError
from sitewise.kernels import Kernel
from sitewise.kernels.base import Product, Scaled, Sum

STATIONARY = (kernels.RBF, kernels.Matern12, kernels.Matern32, kernels.Matern52, kernels.Laplacian)
FIELDS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys(STATIONARY, ("lengthscale", "variance")),
    kernels.Constant: ("variance",),
    kernels.Linear: ("variance",),
    kernels.NormalScores: ("knots", "scores"),
    kernels.Index: ("kappa",),
    Scaled: ("variance",),
    Sum: (),
    Product: (),
}


def described(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as a dict; `numpy_predictor.covariance` evaluates it."""
    columns = None if kernel.active_dims is None else list(kernel.active_dims)
    if isinstance(kernel, kernels.Shrunk):
        return {**described(kernel._plain()), "columns": columns}
    if isinstance(kernel, kernels.Additive) and type(kernel.base) in STATIONARY[:4]:
        interaction = 0.0 if kernel.interaction is None else float(kernel.interaction)
        arrays = {name: np.asarray(getattr(kernel, name)) for name in ("nodes", "weight", "lengthscale", "variance")}
        return {
            "kind": "Additive", "columns": columns, "shape": type(kernel.base).__name__, **arrays,
            "offset": float(kernel.offset), "interaction": interaction,
        }  # fmt: skip
    if type(kernel) not in FIELDS or (isinstance(kernel, kernels.Index) and kernel.rank):
        raise UserError(f"export cannot describe the kernel {type(kernel).__name__}; use model.save for this model.")
    out: dict[str, Any] = {"kind": type(kernel).__name__, "columns": columns}
    out |= {name: np.asarray(getattr(kernel, name), float) for name in FIELDS[type(kernel)]}
    if isinstance(kernel, Sum | Product):
        out["parts"] = [described(part) for part in kernel.parts]
    if isinstance(kernel, Scaled | kernels.NormalScores):
        out["base"] = described(kernel.base)
    return out
