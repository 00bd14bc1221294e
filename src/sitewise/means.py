"""Mean functions μ(x) of Gaussian process priors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.checks import one_number, one_per_column
from sitewise.types import ArrayField, Module, module, precedes, real, replace

__all__ = ["Constant", "Linear", "Mean", "Zero"]


@module
class Mean(Module):
    """Base class of mean functions: called with a table of inputs, returns one number per row."""

    def __call__(self, X: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(X).")

    def check(self, columns: int) -> None:
        """Raise ValueError if the mean cannot take inputs with this number of columns; by default, it always can."""

    def at(self, X: Array) -> Array:
        """Return the checked values at the rows X; a NumPy array if X and the parameters are NumPy arrays."""
        values = self(X)
        if np.shape(values) != X.shape[:1]:
            raise ValueError(
                f"{type(self).__name__} gave the shape {np.shape(values)} for {X.shape[0]} rows; a mean function "
                "returns one number per row."
            )
        return np.asarray(values) if is_host(X, *jax.tree.leaves(self)) else values

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if precedes(cls, "__call__", "pull"):
            cls.pull = Mean.pull  # type: ignore[method-assign] # an inherited pull belongs to the inherited __call__

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        """Return the cotangent of this mean, given the cotangent `bar` of its values at the rows X (NumPy arrays)."""
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, jax.vjp(lambda mean: mean(X), self)[1](jnp.asarray(bar))[0])


@module
class Zero(Mean):
    """Mean 0."""

    def __call__(self, X: Array) -> Array:
        return namespace(X).zeros(X.shape[0], X.dtype)

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        return self


@module
class Constant(Mean):
    """Constant mean (intercept) with a learned value.

    Parameters
    ----------
    value : float, default=0.0
        The value; learned.
    """

    value: ArrayField = real(default=0.0)

    def check(self, columns: int) -> None:
        one_number(self, "value")

    def __call__(self, X: Array) -> Array:
        return self.value + namespace(X).zeros(X.shape[0], X.dtype)

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        return replace(self, value=np.reshape(np.sum(bar), np.shape(self.value)))


@module
class Linear(Mean):
    """Linear mean (linear trend) offset + Σ_j slope_j x_j.

    Parameters
    ----------
    slope : float or array of shape (n_columns,), default=0.0
        One number per column, as in `Linear(np.zeros(columns))`, or one number for all columns; learned.  The
        lengthscales of kernels follow the same rule.
    offset : float, default=0.0
        The value at x = 0; learned.
    """

    slope: ArrayField = real(default=0.0)
    offset: ArrayField = real(default=0.0)

    def check(self, columns: int) -> None:
        one_per_column(self, columns, "slope")
        one_number(self, "offset")

    def __call__(self, X: Array) -> Array:
        return self.offset + (X * self.slope).sum(axis=1)

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        each = X.T @ bar
        slope = each if np.ndim(self.slope) else np.sum(each)
        return replace(self, slope=np.asarray(slope), offset=np.reshape(np.sum(bar), np.shape(self.offset)))
