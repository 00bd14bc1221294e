"""Mean functions μ(x)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.runtime.engine import Array, is_host, namespace
from sitewise.types import ArrayField, Module, module, precedes, real, replace

__all__ = ["Constant", "Linear", "Mean", "Zero"]


@module
class Mean(Module):
    """A mean function is called with a table of inputs and returns one number per row."""

    def __call__(self, X: Array) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(X).")

    def at(self, X: Array) -> Array:
        """Its values at the rows X: NumPy's for NumPy arrays."""
        values = self(X)
        return np.asarray(values) if is_host(X, *jax.tree.leaves(self)) else values

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if precedes(cls, "__call__", "pull"):
            cls.pull = Mean.pull  # type: ignore[method-assign] # that of a base class is not its derivative

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        """The cotangent of this mean, given that of its values at the rows X (NumPy arrays)."""
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, jax.vjp(lambda mean: mean(X), self)[1](jnp.asarray(bar))[0])


@module
class Zero(Mean):
    def __call__(self, X: Array) -> Array:
        return namespace(X).zeros(X.shape[0], X.dtype)

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        return self


@module
class Constant(Mean):
    value: ArrayField = real(default=0.0)

    def __call__(self, X: Array) -> Array:
        return self.value + namespace(X).zeros(X.shape[0], X.dtype)

    def pull(self, X: np.ndarray, bar: np.ndarray) -> Mean:
        return replace(self, value=np.reshape(np.sum(bar), np.shape(self.value)))


@module
class Linear(Mean):
    """offset + X·slope; `slope` is one number per column."""

    slope: ArrayField = real(default=0.0)
    offset: ArrayField = real(default=0.0)

    def __call__(self, X: Array) -> Array:
        return self.offset + (X * self.slope).sum(axis=1)
