"""Mean functions μ(x)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sitewise.types import ArrayField, Module, module, real

__all__ = ["Constant", "Linear", "Mean", "Zero"]


@module
class Mean(Module):
    """A mean function is called with a table of inputs and returns one number per row."""

    def __call__(self, X: jax.Array) -> jax.Array:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(X).")


@module
class Zero(Mean):
    def __call__(self, X: jax.Array) -> jax.Array:
        return jnp.zeros(X.shape[0], X.dtype)


@module
class Constant(Mean):
    value: ArrayField = real(default=0.0)

    def __call__(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.value, X.dtype), X.shape[:1])


@module
class Linear(Mean):
    """offset + X·slope; `slope` is one number per column."""

    slope: ArrayField = real(default=0.0)
    offset: ArrayField = real(default=0.0)

    def __call__(self, X: jax.Array) -> jax.Array:
        return self.offset + jnp.sum(X * self.slope, axis=1)
