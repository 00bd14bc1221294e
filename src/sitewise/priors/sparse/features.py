"""Whitened features of a sparse prior: Φ of all rows, in blocks that are stored or recomputed.

With T = L_uu⁻ᵀ, L_uu L_uuᵀ = K_uu, the features are Φ = K_xu T (n×m), and resid_i = κ_ii − |φ_i|² is the variance that
they do not explain.  `priors.sparse.conditioning` uses them.  Every computation with Φ is a sum over rows or a value
per row, and handles one block of rows at a time, whose temporaries fit in the CPU's cache.  Φ is stored, or, where it
is too large, recomputed for each block.

Arrays are NumPy's or JAX's (`arrays.engine`).
"""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array, is_host, namespace, stop_gradient
from sitewise.kernels import Kernel
from sitewise.numerics.dense import blas
from sitewise.numerics.dense.tall_products import row_products, times_upper
from sitewise.process.threads import in_order
from sitewise.types import fixed, module, replace, static

_Result = TypeVar("_Result")  # an array, or a tree of arrays
BLOCK_COUNT_MULTIPLE = 4  # gives several threads equal shares
VARIANCE_BLOCK_ROWS = 4096  # rows per program for prior variances
_Block = tuple[Array, Array | None, tuple[Array, ...]]  # inputs, features if stored, values of the rows


def added(a: _Result, b: _Result) -> _Result:
    """Add two trees of arrays."""
    return jax.tree.map(operator.add, a, b)


@module
class Whitened:
    """The map from inputs to features: x ↦ φ(x) = Tᵀ κ(Z, x)."""

    kernel: Kernel = fixed()
    Z: jax.Array = fixed()
    T: jax.Array = fixed()
    jitter: jax.Array = fixed()  # added by the factorisation to the prior's own jitter

    def rows(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return K_xu and the prior variances of the rows of X."""
        return self.kernel.cross(X, self.Z), self.variances(X)

    def variances(self, X: jax.Array) -> jax.Array:
        """Return the prior variances of the rows of X."""
        if not is_host(X, self.T):
            return self.kernel.variances(X)
        return rowwise.apply(_variances, None, self.kernel, (X.T,), VARIANCE_BLOCK_ROWS)[0][0]

    def pull_variances(self, X: jax.Array, bar: jax.Array) -> Kernel:
        """Return the cotangent of the kernel, given the cotangent of the variances (NumPy arrays)."""
        _, sums = rowwise.apply(_variances_pull, None, self.kernel, (bar, X.T), VARIANCE_BLOCK_ROWS)
        return jax.tree.unflatten(jax.tree.structure(self.kernel), sums)

    def __call__(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return Φ and the prior variances of the rows of X."""
        K, diag = self.rows(X)
        return times_upper(K, self.T), diag


def _variances(_: None, kernel: Kernel, rows: tuple[jax.Array]) -> tuple[tuple[jax.Array], tuple[()]]:
    return (kernel.variances(rows[0].T),), ()


def _variances_pull(
    _: None, kernel: Kernel, rows: tuple[jax.Array, jax.Array]
) -> tuple[tuple[()], tuple[jax.Array, ...]]:
    bar, X = rows
    return (), tuple(jax.tree.leaves(jax.vjp(lambda kernel: kernel.variances(X.T), kernel)[1](bar)[0]))


@module
class Features:
    """Φ of all rows, in blocks.

    Derivatives go to the kernel's parameters, Z and K_uu: T, phi and resid are held constant, and `pull` accounts for
    them.  Block j of J holds the rows j, j + J, j + 2J, …: of a table spread over devices, each device has a part of
    every block.
    """

    whitened: Whitened = fixed()
    K_uu: jax.Array = fixed()  # from which T was computed
    X: jax.Array = fixed()
    phi: jax.Array | None = fixed()  # (blocks, rows per block, m); None if it is recomputed
    resid: jax.Array = fixed()  # κ_ii − |φ_i|², at least 0
    block: int = static()  # maximum of rows per block
    inputs: bool = static(False)  # whether the pullback of NumPy arrays includes Z; the pullback of JAX arrays does

    @classmethod
    def of(
        cls, whitened: Whitened, K_uu: jax.Array, X: jax.Array, block: int, keep: bool, inputs: bool = False
    ) -> Features:
        """Compute the features; `whitened.T` comes from K_uu held constant (`stop_gradient`)."""
        held, rows = stop_gradient((whitened, X))
        found = cls(held, K_uu, rows, None, held.variances(rows), block, inputs)
        if keep:
            found = replace(found, phi=found._stored())
        resid = found.each(lambda phi, diag: diag - row_products(phi, phi), found.resid)
        return replace(found, whitened=whitened, X=X, resid=namespace(resid).maximum(resid, 0.0))

    def like(self, *arrays: jax.Array) -> Features:
        """Return the features, as JAX arrays if any of the given arrays is JAX's."""
        return self if is_host(*arrays) else jax.tree.map(jnp.asarray, self)

    def _stored(self) -> Array:
        """Return Φ of all blocks."""
        if not self._on_host():
            return lax.map(lambda X: self.whitened(X)[0], self._split(self.X, "edge"))
        phi = np.zeros((*self._shape, len(self.whitened.Z)))

        def fill(block: tuple[Any, np.ndarray]) -> None:
            X, place = block
            place = place[: len(X)]
            place[:] = self.whitened.kernel.matrix(X, self.whitened.Z)
            blas.times_upper_in_place(place, np.asarray(self.whitened.T))

        collections.deque(in_order(fill, zip(self._inputs_on_host(), phi, strict=True)), maxlen=0)
        return phi

    @property
    def _shape(self) -> tuple[int, int]:
        """Return the number of blocks and the number of rows per block."""
        rows = self.X.shape[0]
        blocks = -(-rows // self.block)
        if blocks > 1:
            blocks += -blocks % BLOCK_COUNT_MULTIPLE
        return blocks, -(-rows // blocks)

    def _split(self, array: jax.Array, mode: str = "constant") -> jax.Array:
        blocks, size = self._shape
        widths = [(0, blocks * size - array.shape[0])] + [(0, 0)] * (array.ndim - 1)
        return jnp.moveaxis(jnp.pad(array, widths, mode=mode).reshape((size, blocks, *array.shape[1:])), 1, 0)

    def _join(self, values: _Result) -> _Result:
        def whole(a: jax.Array) -> jax.Array:
            return jnp.moveaxis(a, 0, 1).reshape((-1, *a.shape[2:]))[: self.X.shape[0]]

        return jax.tree.map(whole, values)

    def _blocks(self, rows: tuple[jax.Array, ...]) -> _Block:
        return self._split(self.X, "edge"), self.phi, tuple(self._split(r) for r in rows)

    def _on_host(self, *rows: jax.Array) -> bool:
        return is_host(self.X, self.whitened.T, *rows)

    def _inputs_on_host(self) -> list[jax.Array]:
        """Return the inputs of each block, without padding."""
        blocks, _ = self._shape
        return [self.X[j::blocks] for j in range(blocks)]

    def _phi_on_host(self, X: jax.Array) -> jax.Array:
        return times_upper(self.whitened.kernel.matrix(X, self.whitened.Z), self.whitened.T)

    def _blocks_on_host(self, rows: tuple[jax.Array, ...]) -> Iterator[_Block]:
        """Yield the blocks of `_blocks` without padding."""
        inputs = self._inputs_on_host()
        for j, X in enumerate(inputs):
            phi = None if self.phi is None else self.phi[j, : len(X)]
            yield X, phi, tuple(r[j :: len(inputs)] for r in rows)

    def _join_on_host(self, parts: list[_Result]) -> _Result:
        """Return the values of all rows, given the values of each block."""

        def whole(*parts: np.ndarray) -> np.ndarray:
            out = np.empty((self.X.shape[0], *parts[0].shape[1:]))
            for j, part in enumerate(parts):
                out[j :: len(parts)] = part
            return out

        return jax.tree.map(whole, *parts)

    def _on_block(self, function: Callable[..., _Result], block: _Block) -> _Result:
        X, phi, values = block
        if phi is None:
            phi = self._phi_on_host(X) if self._on_host(X) else self.whitened(X)[0]
        return function(phi, *values)

    def total(self, function: Callable[..., _Result], *rows: jax.Array) -> _Result:
        """Return function(Φ, *rows), which must be a sum over rows."""
        part = functools.partial(self._on_block, function)
        if self._on_host(*rows):
            return functools.reduce(added, in_order(part, self._blocks_on_host(rows)))

        def add(sums: _Result, block: _Block) -> tuple[_Result, None]:
            return added(sums, part(block)), None

        blocks = self._blocks(rows)
        shapes = jax.eval_shape(lambda all: part(jax.tree.map(lambda a: a[0], all)), blocks)
        return lax.scan(add, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes), blocks)[0]

    def each(self, function: Callable[..., _Result], *rows: jax.Array) -> _Result:
        """Return function(Φ, *rows), which must be arrays with the rows on their first axis."""
        part = functools.partial(self._on_block, function)
        if self._on_host(*rows):
            return self._join_on_host(list(in_order(part, self._blocks_on_host(rows))))
        return self._join(lax.map(part, self._blocks(rows)))

    def pull(
        self,
        function: Callable[..., tuple[Array, Any]],
        K_uu_bar: jax.Array,
        diag_bar: jax.Array,
        *rows: jax.Array,
    ) -> tuple[Features, Any]:
        """Return the cotangent of the features, and values per row, where function(Φ, *rows) = (K̄_xu, values)."""
        if self._on_host(diag_bar, *rows):
            kernel_bar, Z_bar, values = self._pull_on_host(function, diag_bar, rows)
            return self._cotangent(replace(self._zero(self.whitened), kernel=kernel_bar, Z=Z_bar), K_uu_bar), values

        def add(sums: Whitened, block: _Block) -> tuple[Whitened, Any]:
            X, phi, (diag_bar, *values) = block
            (K, _), back = jax.vjp(lambda whitened: whitened.rows(X), self.whitened)
            K_bar, value = function(times_upper(K, self.whitened.T) if phi is None else phi, *values)
            return added(sums, back((K_bar, diag_bar))[0]), value

        bar, values = lax.scan(add, self._zero(self.whitened), self._blocks((diag_bar, *rows)))
        return self._cotangent(bar, K_uu_bar), self._join(values)

    def _pull_on_host(
        self, function: Callable[..., tuple[Array, Any]], diag_bar: jax.Array, rows: tuple[jax.Array, ...]
    ) -> tuple[Kernel, Array, Any]:
        """Return the cotangents of the kernel and of Z, and the values of the rows."""
        Z: Array = self.whitened.Z
        kernel: Kernel = self.whitened.kernel

        def part(block: _Block) -> tuple[tuple[Kernel, Array], Any]:
            X, phi, values = block
            K, back = kernel.matrix_with_pull(X, Z)
            K_bar, value = function(times_upper(K, self.whitened.T) if phi is None else phi, *values)
            by_rows = kernel.pull_rows(X, Z, K_bar) if self.inputs else np.zeros(Z.shape)
            return (back(K_bar), by_rows), value

        bar, found = (self.whitened.pull_variances(self.X, diag_bar), np.zeros(Z.shape)), []
        for more, value in in_order(part, self._blocks_on_host(rows)):
            bar = added(bar, more)
            found.append(value)
        return *bar, self._join_on_host(found)

    def _zero(self, tree: Any) -> Any:
        xp = namespace(self.X, self.whitened.T)
        return jax.tree.map(lambda a: xp.zeros(xp.shape(a), self.X.dtype), tree)

    def _cotangent(self, whitened_bar: Whitened, K_uu_bar: jax.Array) -> Features:
        return replace(self._zero(self), whitened=whitened_bar, K_uu=K_uu_bar)
