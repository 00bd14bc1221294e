"""Whitened features of a sparse prior, stored or recomputed, and conditioning on sites through them.

With T = L_uu⁻ᵀ, L_uu L_uuᵀ = K_uu, the features Φ = K_xu T (n×m) make the inducing variables v ~ N(0, I) and the
projected process s = Φ v, f_i = s_i + N(0, resid_i), resid_i = κ_ii − |φ_i|².  Given sites exp(b_i s_i − ½ w_i s_i²):

    A = I + Φᵀ W Φ,   S = A⁻¹,   c = S Φᵀ b
    mean = Φ c,   var = diag Φ S Φᵀ,   log_z = log ∫ N(v; 0, I) Π sites dv = −½ log|A| + ½ bᵀ Φ c

With w ≥ 0, A has eigenvalues of at least one.  With precisions of any sign A must be positive definite for the product
to be a Gaussian; all formulas hold, and the result is NaN where it is not.  A row with b = w = 0 drops out exactly.
The pullback is analytic:

    p = Φᵀ m̄,  P = Φᵀ diag(v̄) Φ,  r = S p,  ū = r + z̄ c,  Ā = −½(r cᵀ + c rᵀ) − S P S − ½ z̄ (S + c cᵀ)
    b̄ = Φ ū,   w̄ = diag Φ Ā Φᵀ,   Φ̄ = m̄ cᵀ + b ūᵀ + 2 diag(v̄) Φ S + 2 W Φ Ā − 2 diag(r̄esid) Φ

and continues to the kernel matrices without T: K̄_xu = Φ̄ Tᵀ and, because ΦᵀΦ̄ is symmetric,

    K̄_uu = −½ T (ΦᵀΦ̄) Tᵀ = T (Ā + ½ z̄ I + Q) Tᵀ,   Q = Φᵀ diag(r̄esid) Φ

Each sum over rows that is skipped saves n·m² multiplications.  With r̄esid = v̄ − ½ z̄ w + e (e = 0 for the ELBO,
v̄ = 0 at a fixed point of (VI, elbo) and (EP, ep)) one product with Φ and no sum remains where v̄ = e = 0:

    K̄_xu = m̄ (Tc)ᵀ + b (Tū)ᵀ + [W Φ (2Ā + z̄I) + 2 diag(v̄) Φ (S − I) − 2 diag(e) Φ] Tᵀ
    Q = −½ z̄ (A − I) + P + Φᵀ diag(e) Φ

Everything is a sum over rows or a value per row, and is computed for one block of rows at a time, whose temporaries
fit in the processor's cache.  Φ is stored, or, where it is too large, recomputed with every block.

Arrays are NumPy's or JAX's (`arrays.engine`).
"""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array, cond, is_host, namespace, stop_gradient
from sitewise.kernels import Kernel
from sitewise.numerics.dense import blas, cholesky
from sitewise.numerics.dense.tall_products import (
    plus_product,
    row_forms,
    row_products,
    row_squares,
    times_transposed_upper,
    times_upper,
    weighted_gram,
)
from sitewise.process.threads import in_order
from sitewise.types import fixed, module, replace, static

_Result = TypeVar("_Result")  # an array, or a tree of arrays
_SHARES = 4  # the number of blocks is a multiple of it
_ROWS = 4096  # of a program for prior variances, which cost little
_Block = tuple[Array, Array | None, tuple[Array, ...]]  # inputs, features if stored, values of the rows


def added(a: _Result, b: _Result) -> _Result:
    """The sum of two trees of arrays."""
    return jax.tree.map(operator.add, a, b)


@module
class Whitened:
    """The map from inputs to features: x ↦ φ(x) = T ᵀ κ(Z, x)."""

    kernel: Kernel = fixed()
    Z: jax.Array = fixed()
    T: jax.Array = fixed()
    jitter: jax.Array = fixed()  # what the factorisation needed besides the prior's own jitter

    def rows(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """K_xu and the prior variances of the rows of X."""
        return self.kernel.cross(X, self.Z), self.variances(X)

    def variances(self, X: jax.Array) -> jax.Array:
        """The prior variances of the rows of X."""
        if not is_host(X, self.T):
            return self.kernel.variances(X)
        return rowwise.apply(_variances, None, self.kernel, (X.T,), _ROWS)[0][0]

    def pull_variances(self, X: jax.Array, bar: jax.Array) -> Kernel:
        """The cotangent of the kernel, given that of the variances (NumPy arrays)."""
        _, sums = rowwise.apply(_variances_pull, None, self.kernel, (bar, X.T), _ROWS)
        return jax.tree.unflatten(jax.tree.structure(self.kernel), sums)

    def __call__(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Φ and the prior variances of the rows of X."""
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
    them.  Block j of J holds the rows j, j + J, j + 2J, …, so that a table whose rows are spread over devices has
    a part of every block on each of them.
    """

    whitened: Whitened = fixed()
    K_uu: jax.Array = fixed()  # from which T was computed
    X: jax.Array = fixed()
    phi: jax.Array | None = fixed()  # (blocks, rows of a block, m); None if it is recomputed
    resid: jax.Array = fixed()  # κ_ii − |φ_i|², at least 0
    block: int = static()  # rows of a block, at most
    inputs: bool = static(False)  # whether the pullback of NumPy arrays goes to Z too; that of JAX arrays does

    @classmethod
    def of(
        cls, whitened: Whitened, K_uu: jax.Array, X: jax.Array, block: int, keep: bool, inputs: bool = False
    ) -> Features:
        """`whitened.T` is computed from K_uu held constant (`stop_gradient`)."""
        held, rows = stop_gradient((whitened, X))
        found = cls(held, K_uu, rows, None, held.variances(rows), block, inputs)
        if keep:
            found = replace(found, phi=found._stored())
        resid = found.each(lambda phi, diag: diag - row_products(phi, phi), found.resid)
        return replace(found, whitened=whitened, X=X, resid=namespace(resid).maximum(resid, 0.0))

    def like(self, *arrays: jax.Array) -> Features:
        """The same features as JAX arrays if any of the given arrays is JAX's."""
        return self if is_host(*arrays) else jax.tree.map(jnp.asarray, self)

    def _stored(self) -> Array:
        """Φ of all blocks."""
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
        """The number of blocks, and of the rows of one of them."""
        rows = self.X.shape[0]
        blocks = -(-rows // self.block)
        if blocks > 1:  # several threads have equal shares
            blocks += -blocks % _SHARES
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
        """The inputs of each block, without padding."""
        blocks, _ = self._shape
        return [self.X[j::blocks] for j in range(blocks)]

    def _phi_on_host(self, X: jax.Array) -> jax.Array:
        return times_upper(self.whitened.kernel.matrix(X, self.whitened.Z), self.whitened.T)

    def _blocks_on_host(self, rows: tuple[jax.Array, ...]) -> Iterator[_Block]:
        """As `_blocks`, one after the other and without padding."""
        inputs = self._inputs_on_host()
        for j, X in enumerate(inputs):
            phi = None if self.phi is None else self.phi[j, : len(X)]
            yield X, phi, tuple(r[j :: len(inputs)] for r in rows)

    def _join_on_host(self, parts: list[_Result]) -> _Result:
        """The values of all rows, given those of each block."""

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
        """function(Φ, *rows), which must be a sum over rows."""
        part = functools.partial(self._on_block, function)
        if self._on_host(*rows):
            return functools.reduce(added, in_order(part, self._blocks_on_host(rows)))

        def add(sums: _Result, block: _Block) -> tuple[_Result, None]:
            return added(sums, part(block)), None

        blocks = self._blocks(rows)
        shapes = jax.eval_shape(lambda all: part(jax.tree.map(lambda a: a[0], all)), blocks)
        return lax.scan(add, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes), blocks)[0]

    def each(self, function: Callable[..., _Result], *rows: jax.Array) -> _Result:
        """function(Φ, *rows), which must be arrays with the rows on their first axis."""
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
        """The cotangent of the features where function(Φ, *rows) = (K̄_xu, arrays of rows), and those arrays."""
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
        """The cotangents of the kernel and of Z, and the values of the rows."""
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


class Projected(NamedTuple):
    """The projected process given sites, without the prior mean."""

    mean: jax.Array
    var: jax.Array
    resid: jax.Array
    log_z: ArrayLike
    jitter: ArrayLike


class Inner(NamedTuple):
    """q(v) = N(coef, H ᵀH), which is what predictions need."""

    coef: jax.Array
    H: jax.Array


class Factor(NamedTuple):
    """What derivatives need: q(v), and ΦᵀWΦ = A − I."""

    inner: Inner
    gram: jax.Array


def condition(features: Features, b: jax.Array, w: jax.Array) -> tuple[Projected, Factor]:
    """The formulas at the top of this file; not for differentiation."""
    features = features.like(b, w)
    gram, u = features.total(lambda phi, b, w: (weighted_gram(phi, w), phi.T @ b), b, w)
    xp = namespace(gram)
    eye = xp.eye(gram.shape[0], dtype=gram.dtype)
    H, half_log_det, jitter = cholesky.inverse_root(gram + eye)
    # Jitter makes up for rounding.  Where a precision is negative, A may need it because it is indefinite.
    H = H * xp.where((jitter > 0) & xp.any(w < 0), xp.nan, 1.0)
    coef = H.T @ (H @ u)

    def rows(phi: jax.Array) -> tuple[jax.Array, jax.Array]:
        return phi @ coef, row_squares(phi, H.T)

    mean, var = features.each(rows)
    log_z = -half_log_det + 0.5 * u @ coef
    return Projected(mean, var, features.resid, log_z, jitter), Factor(Inner(coef, H), gram)


_Residuals = tuple[Features, jax.Array, jax.Array, Factor, Projected]
_Cotangents = tuple[Features, jax.Array, jax.Array]  # of features, b and w


@jax.custom_vjp
def project(features: Features, b: jax.Array, w: jax.Array) -> Projected:
    """`condition` for differentiation."""
    return condition(features, b, w)[0]


def _forward(features: Features, b: jax.Array, w: jax.Array) -> tuple[Projected, _Residuals]:
    features = features.like(b, w)
    out, factor = condition(features, b, w)
    return out, (features, b, w, factor, out)


# A derivative in the variances below this, in units of the variances and of z̄, is left out: it is the remaining error
# of settled sites, and changes the gradient, per row, by less than that.
NO_SLOPE = 1e-6


def _steep(slope: jax.Array, out: Projected, z_bar: ArrayLike) -> jax.Array:
    """Whether a derivative in variances exceeds the remaining error of sites."""
    xp = namespace(slope, out.var)
    return xp.max(xp.abs(slope) * (out.var + out.resid)) > NO_SLOPE * xp.abs(z_bar)


class Pulled(NamedTuple):
    """Cotangents of the features and of b, and the matrix Ā of which w̄ = diag Φ Ā Φᵀ."""

    features: Features
    b: jax.Array
    A: jax.Array


def pull_features(
    features: Features, b: jax.Array, w: jax.Array, factor: Factor, out: Projected, bar: Projected
) -> Pulled:
    """The pullback of the cotangent `bar` of `out`, the result of `condition`."""
    features = features.like(b, w, bar.mean)
    coef, H = factor.inner
    xp = namespace(H, bar.mean)
    mean_bar, var_bar, resid_bar, z_bar, _ = bar
    S, eye = H.T @ H, xp.eye(H.shape[0], dtype=H.dtype)
    resid_bar = xp.where(out.resid > 0, resid_bar, 0.0)
    # What is left out of one sum is left out of all: derivatives in κ, φ and S have terms of the size of the prior
    # variance, which may be thousands of times that of q, and cancel.
    steep = _steep(var_bar, out, z_bar)
    var_bar = xp.where(steep, var_bar, 0.0)
    rest = resid_bar - var_bar + 0.5 * z_bar * w  # e
    uneven = _steep(rest, out, z_bar)
    rest = xp.where(uneven, rest, 0.0)
    resid_bar = rest + var_bar - 0.5 * z_bar * w

    def sums(
        phi: jax.Array, mean_bar: jax.Array, var_bar: jax.Array, rest: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        def gram_if(needed: jax.Array, weights: jax.Array) -> jax.Array:
            return cond(needed, lambda: weighted_gram(phi, weights), lambda: xp.zeros_like(S))

        return phi.T @ mean_bar, gram_if(steep, var_bar), gram_if(uneven, rest)

    p, P, E = features.total(sums, mean_bar, var_bar, rest)
    r = S @ p
    u_bar = r + z_bar * coef
    outer = 0.5 * xp.outer(r, coef)
    A_bar = -outer - outer.T - S @ P @ S - 0.5 * z_bar * (S + xp.outer(coef, coef))
    T = features.whitened.T
    K_uu_bar = T @ (A_bar + 0.5 * z_bar * (eye - factor.gram) + P + E) @ T.T
    by_w, by_var = 2 * A_bar + z_bar * eye, 2 * (S - eye)
    by_w_and_T = by_w @ T.T
    by_mean_and_b = xp.stack([T @ coef, T @ u_bar])

    def pull(
        phi: jax.Array, b: jax.Array, w: jax.Array, mean_bar: jax.Array, var_bar: jax.Array, rest: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def whole() -> jax.Array:
            """All terms but those in m̄ and b: Tᵀ is common to them, and a triangular product costs half."""
            K_bar = phi @ by_w
            K_bar *= w[:, None]  # in place, where arrays are NumPy's
            K_bar = cond(steep, lambda K: K + var_bar[:, None] * (phi @ by_var), lambda K: K, K_bar)
            K_bar -= 2 * rest[:, None] * phi
            return times_transposed_upper(K_bar, T)

        def first() -> jax.Array:
            K_bar = phi @ by_w_and_T
            K_bar *= w[:, None]
            return K_bar

        K_bar = cond(steep | uneven, whole, first)
        return plus_product(K_bar, xp.stack([mean_bar, b], axis=1), by_mean_and_b), phi @ u_bar

    features_bar, b_bar = features.pull(pull, K_uu_bar, resid_bar, b, w, mean_bar, var_bar, rest)
    return Pulled(features_bar, b_bar, A_bar)


def _backward(residuals: _Residuals, bar: Projected) -> _Cotangents:
    features, b, w, factor, out = residuals
    found = pull_features(features, b, w, factor, out, bar)
    return found.features, found.b, features.each(lambda phi: row_forms(phi, found.A))


project.defvjp(_forward, _backward)
