"""Kernels without a lengthscale: linear and constant."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sitewise.kernels.base import Kernel
from sitewise.types import ArrayField, module, positive


@module
class Linear(Kernel):
    """Σ_k variance_k x_k x'_k."""

    variance: ArrayField = positive(default=1.0)

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return (A * self.variance) @ B.T

    def diag(self, A: jax.Array) -> jax.Array:
        return jnp.sum(A * A * self.variance, axis=1)


@module
class Constant(Kernel):
    """variance: one unknown offset shared by all rows."""

    variance: ArrayField = positive(default=1.0)

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.variance, A.dtype), (A.shape[0], B.shape[0]))

    def diag(self, A: jax.Array) -> jax.Array:
        return jnp.broadcast_to(jnp.asarray(self.variance, A.dtype), A.shape[:1])
