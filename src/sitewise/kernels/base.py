"""What a kernel is: `pairs(A, B)` for two tables of inputs and `diag(A)`; sums and products."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.types import ArrayField, Module, fixed, module, positive, static


@module
class Kernel(Module):
    """A covariance function.  Subclasses define `pairs` and `diag` on the active columns."""

    active_dims: tuple[int, ...] | None = static(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.active_dims is not None:
            object.__setattr__(self, "active_dims", tuple(int(i) for i in self.active_dims))

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        """κ(a_i, b_j) as a matrix; A and B hold the active columns."""
        raise NotImplementedError(f"{type(self).__name__} must define pairs(A, B).")

    def diag(self, A: jax.Array) -> jax.Array:
        """κ(a_i, a_i)."""
        raise NotImplementedError(f"{type(self).__name__} must define diag(A).")

    def _active(self, X: jax.Array) -> jax.Array:
        return X if self.active_dims is None else X[:, np.asarray(self.active_dims)]

    def matrix(self, X: jax.Array, other: jax.Array | None = None) -> jax.Array:
        if other is not None and X.shape[1] != other.shape[1]:
            raise ValueError(
                f"Tables of {X.shape[1]} and of {other.shape[1]} columns were given; give tables with the same columns."
            )
        A = self._active(X)
        return self.pairs(A, A if other is None else self._active(other))

    def variances(self, X: jax.Array) -> jax.Array:
        return self.diag(self._active(X))

    def __add__(self, other: Kernel) -> Sum:
        return Sum(_parts(self, Sum) + _parts(other, Sum))

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(_parts(self, Product) + _parts(other, Product))
        return Scaled(self, np.asarray(other, float))

    __rmul__ = __mul__


def _parts(kernel: Kernel, kind: type[Sum] | type[Product]) -> tuple[Kernel, ...]:
    """The parts of a sum (or product), so that a + b + c has three parts."""
    if isinstance(kernel, kind) and kernel.active_dims is None:
        return kernel.parts
    return (kernel,)


@module
class Sum(Kernel):
    """Σ_k κ_k(x, x')."""

    parts: tuple[Kernel, ...] = ()

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return functools.reduce(operator.add, (k.matrix(A, B) for k in self.parts))

    def diag(self, A: jax.Array) -> jax.Array:
        return functools.reduce(operator.add, (k.variances(A) for k in self.parts))


@module
class Product(Kernel):
    """Π_k κ_k(x, x')."""

    parts: tuple[Kernel, ...] = ()

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        out = jnp.ones((A.shape[0], B.shape[0]), A.dtype)
        for k in self.parts:
            out = out * k.matrix(A, B)
        return out

    def diag(self, A: jax.Array) -> jax.Array:
        out = jnp.ones(A.shape[0], A.dtype)
        for k in self.parts:
            out = out * k.variances(A)
        return out


@module
class Scaled(Kernel):
    """variance · κ(x, x')."""

    base: Kernel = fixed(default=None)
    variance: ArrayField = positive(default=1.0)

    def pairs(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.variance * self.base.matrix(A, B)

    def diag(self, A: jax.Array) -> jax.Array:
        return self.variance * self.base.variances(A)
