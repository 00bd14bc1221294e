"""Kernels without a lengthscale: linear and constant."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sitewise.kernels.base import Kernel
from sitewise.types import module, positive


@module
class Linear(Kernel):
    """Σ_k variance_k x_k x'_k."""

    variance: jax.Array = positive(default=1.0)

    def pairs(self, A, B):
        return (A * self.variance) @ B.T

    def diag(self, A):
        return jnp.sum(A * A * self.variance, axis=1)


@module
class Constant(Kernel):
    """variance: one unknown offset shared by all rows."""

    variance: jax.Array = positive(default=1.0)

    def pairs(self, A, B):
        return jnp.broadcast_to(jnp.asarray(self.variance, A.dtype), (A.shape[0], B.shape[0]))

    def diag(self, A):
        return jnp.broadcast_to(jnp.asarray(self.variance, A.dtype), A.shape[:1])
