"""Whitened features of a sparse prior, stored or recomputed, and conditioning on sites through them.

With T = L_uu⁻ᵀ, L_uu L_uuᵀ = K_uu, the features Φ = K_xu T (n×m) make the inducing variables v ~ N(0, I) and the
projected process s = Φ v, f_i = s_i + N(0, resid_i), resid_i = κ_ii − |φ_i|².  Given sites exp(b_i s_i − ½ w_i s_i²):

    A = I + Φᵀ W Φ,   S = A⁻¹,   c = S Φᵀ b
    mean = Φ c,   var = diag Φ S Φᵀ,   log_z = log ∫ N(v; 0, I) Π sites dv = −½ log|A| + ½ bᵀ Φ c

A has eigenvalues of at least one.  A row with b = w = 0 drops out exactly.  The pullback is analytic:

    p = Φᵀ m̄,  P = Φᵀ diag(v̄) Φ,  r = S p,  ū = r + z̄ c,  Ā = −½(r cᵀ + c rᵀ) − S P S − ½ z̄ (S + c cᵀ)
    b̄ = Φ ū,   w̄ = diag Φ Ā Φᵀ,   Φ̄ = m̄ cᵀ + b ūᵀ + 2 diag(v̄) Φ S + 2 W Φ Ā − 2 diag(r̄esid) Φ

and continues to the kernel matrices without T: K̄_xu = Φ̄ Tᵀ and, because ΦᵀΦ̄ is symmetric,

    K̄_uu = −½ T (ΦᵀΦ̄) Tᵀ = T (Ā + ½ z̄ I + Q) Tᵀ,   Q = Φᵀ diag(r̄esid) Φ

Each sum over rows that is skipped saves n·m² multiplications.  With r̄esid = v̄ − ½ z̄ w + e (e = 0 for the ELBO,
v̄ = 0 at a fixed point of (VI, elbo) and (EP, ep)) one product with Φ and no sum remains where v̄ = e = 0:

    K̄_xu = m̄ (Tc)ᵀ + b (Tū)ᵀ + W Φ (2Ā + z̄I) Tᵀ + 2 diag(v̄) Φ (S − I) Tᵀ − 2 diag(e) Φ Tᵀ
    Q = −½ z̄ (A − I) + P + Φᵀ diag(e) Φ

Everything is a sum over rows or a value per row, and is computed for one block of rows at a time, whose temporaries
fit in the processor's cache.  Φ is stored, or, where it is too large, recomputed with every block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.kernels import Kernel
from sitewise.numerics import cholesky, gaussian_sites, triangular
from sitewise.types import fixed, module, replace, static

_Result = TypeVar("_Result")  # an array, or a tree of arrays
_Block = tuple[jax.Array, jax.Array | None, tuple[jax.Array, ...]]  # inputs, features if stored, values of the rows


@module
class Whitened:
    """The map from inputs to features: x ↦ φ(x) = T ᵀ κ(Z, x)."""

    kernel: Kernel = fixed()
    Z: jax.Array = fixed()
    T: jax.Array = fixed()
    jitter: jax.Array = fixed()  # what the factorisation needed besides the prior's own jitter

    def rows(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """K_xu and the prior variances of the rows of X."""
        return self.kernel.matrix(X, self.Z), self.kernel.variances(X)

    def __call__(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Φ and the prior variances of the rows of X."""
        K, diag = self.rows(X)
        return triangular.times_upper(K, self.T), diag


@module
class Features:
    """Φ of all rows, in blocks.

    Derivatives go to the kernel's parameters, Z and K_uu: T and phi are held constant, and `pull` accounts for them.
    Block j of J holds the rows j, j + J, j + 2J, …, so that a table whose rows are spread over devices has
    a part of every block on each of them.
    """

    whitened: Whitened = fixed()
    K_uu: jax.Array = fixed()  # from which T was computed
    X: jax.Array = fixed()
    phi: jax.Array | None = fixed()  # (blocks, rows of a block, m); None if it is recomputed
    block: int = static()  # rows of a block, at most

    @classmethod
    def of(cls, whitened: Whitened, K_uu: jax.Array, X: jax.Array, block: int, keep: bool) -> Features:
        """`whitened.T` is computed from K_uu held constant (`stop_gradient`)."""
        features = cls(whitened, K_uu, X, None, block)
        if not keep:
            return features
        phi = lax.map(lambda X: whitened(X)[0], features._split(X, "edge"))
        return replace(features, phi=lax.stop_gradient(phi))

    def _split(self, array: jax.Array, mode: str = "constant") -> jax.Array:
        rows = array.shape[0]
        blocks = -(-rows // self.block)
        size = -(-rows // blocks)
        widths = [(0, blocks * size - rows)] + [(0, 0)] * (array.ndim - 1)
        return jnp.moveaxis(jnp.pad(array, widths, mode=mode).reshape((size, blocks, *array.shape[1:])), 1, 0)

    def _join(self, values: _Result) -> _Result:
        def whole(a: jax.Array) -> jax.Array:
            return jnp.moveaxis(a, 0, 1).reshape((-1, *a.shape[2:]))[: self.X.shape[0]]

        return jax.tree.map(whole, values)

    def _blocks(self, rows: tuple[jax.Array, ...]) -> _Block:
        return self._split(self.X, "edge"), self.phi, tuple(self._split(r) for r in rows)

    def _features(self, X: jax.Array, phi: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        return self.whitened(X) if phi is None else (phi, self.whitened.kernel.variances(X))

    def total(self, function: Callable[..., _Result], *rows: jax.Array) -> _Result:
        """function(Φ, diag, *rows), which must be a sum over rows."""

        def part(block: _Block) -> _Result:
            X, phi, values = block
            return function(*self._features(X, phi), *values)

        def add(sums: _Result, block: _Block) -> tuple[_Result, None]:
            return jax.tree.map(jnp.add, sums, part(block)), None

        blocks = self._blocks(rows)
        shapes = jax.eval_shape(lambda all: part(jax.tree.map(lambda a: a[0], all)), blocks)
        return lax.scan(add, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes), blocks)[0]

    def each(self, function: Callable[..., _Result], *rows: jax.Array) -> _Result:
        """function(Φ, diag, *rows), which must be arrays with one entry per row."""

        def values(block: _Block) -> _Result:
            X, phi, values = block
            return function(*self._features(X, phi), *values)

        return self._join(lax.map(values, self._blocks(rows)))

    def pull(
        self, function: Callable[..., tuple[jax.Array, jax.Array]], K_uu_bar: jax.Array, *rows: jax.Array
    ) -> Features:
        """The cotangent of the features where function(Φ, *rows) = (K̄_xu, diag̅)."""

        def add(sums: Whitened, block: _Block) -> tuple[Whitened, None]:
            X, phi, values = block
            (K, _), back = jax.vjp(lambda whitened: whitened.rows(X), self.whitened)
            phi = triangular.times_upper(K, self.whitened.T) if phi is None else phi
            return jax.tree.map(jnp.add, sums, back(function(phi, *values))[0]), None

        def zero(tree: Any) -> Any:
            return jax.tree.map(lambda a: jnp.zeros(jnp.shape(a), self.X.dtype), tree)

        bar = lax.scan(add, zero(self.whitened), self._blocks(rows))[0]
        return Features(bar, K_uu_bar, zero(self.X), zero(self.phi), self.block)


class Projected(NamedTuple):
    """The projected process given sites, without the prior mean."""

    mean: jax.Array
    var: jax.Array
    resid: jax.Array
    log_z: jax.Array
    jitter: jax.Array


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
    gram, u = features.total(lambda phi, diag, b, w: (triangular.weighted_gram(phi, w), phi.T @ b), b, w)
    H, half_log_det, jitter = cholesky.inverse_root(gram + jnp.eye(gram.shape[0], dtype=gram.dtype))
    coef = H.T @ (H @ u)

    def rows(phi: jax.Array, diag: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        C = triangular.times_upper(phi, H.T)
        return phi @ coef, jnp.sum(C * C, axis=1), jnp.maximum(diag - jnp.sum(phi * phi, axis=1), 0.0)

    mean, var, resid = features.each(rows)
    return Projected(mean, var, resid, -half_log_det + 0.5 * u @ coef, jitter), Factor(Inner(coef, H), gram)


_Residuals = tuple[Features, jax.Array, jax.Array, Factor, Projected]
_Cotangents = tuple[Features, jax.Array, jax.Array]  # of features, b and w


@jax.custom_vjp
def project(features: Features, b: jax.Array, w: jax.Array) -> Projected:
    """`condition` for differentiation."""
    return condition(features, b, w)[0]


def _forward(features: Features, b: jax.Array, w: jax.Array) -> tuple[Projected, _Residuals]:
    out, factor = condition(features, b, w)
    return out, (features, b, w, factor, out)


def _steep(slope: jax.Array, out: Projected, z_bar: jax.Array) -> jax.Array:
    """Whether a derivative in variances exceeds the remaining error of an equation that was solved to 1e-8."""
    return jnp.max(jnp.abs(slope) * (out.var + out.resid)) > gaussian_sites.NO_SLOPE * jnp.abs(z_bar)


def pull_features(
    features: Features, b: jax.Array, w: jax.Array, factor: Factor, out: Projected, bar: Projected
) -> _Cotangents:
    """Cotangents of features, b and w, given the cotangent `bar` of `out`, the result of `condition`."""
    coef, H = factor.inner
    mean_bar, var_bar, resid_bar, z_bar, _ = bar
    S, eye = H.T @ H, jnp.eye(H.shape[0], dtype=H.dtype)
    resid_bar = jnp.where(out.resid > 0, resid_bar, 0.0)
    rest = resid_bar - var_bar + 0.5 * z_bar * w  # e
    steep, uneven = _steep(var_bar, out, z_bar), _steep(rest, out, z_bar)

    def sums(
        phi: jax.Array, diag: jax.Array, mean_bar: jax.Array, var_bar: jax.Array, rest: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        def gram_if(needed: jax.Array, weights: jax.Array) -> jax.Array:
            return lax.cond(needed, lambda: triangular.weighted_gram(phi, weights), lambda: jnp.zeros_like(S))

        return phi.T @ mean_bar, gram_if(steep, var_bar), gram_if(uneven, rest)

    p, P, E = features.total(sums, mean_bar, var_bar, rest)
    r = S @ p
    u_bar = r + z_bar * coef
    outer = 0.5 * jnp.outer(r, coef)
    A_bar = -outer - outer.T - S @ P @ S - 0.5 * z_bar * (S + jnp.outer(coef, coef))
    T = features.whitened.T
    K_uu_bar = T @ (A_bar + 0.5 * z_bar * (eye - factor.gram) + P + E) @ T.T
    by_w, by_var, by_rest = (2 * A_bar + z_bar * eye) @ T.T, 2 * (S - eye) @ T.T, -2 * T.T
    by_mean, by_b = T @ coef, T @ u_bar

    def pull(
        phi: jax.Array,
        b: jax.Array,
        w: jax.Array,
        mean_bar: jax.Array,
        var_bar: jax.Array,
        rest: jax.Array,
        resid_bar: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        K_bar = w[:, None] * (phi @ by_w) + mean_bar[:, None] * by_mean + b[:, None] * by_b
        K_bar = lax.cond(steep, lambda K: K + var_bar[:, None] * (phi @ by_var), lambda K: K, K_bar)
        K_bar = lax.cond(uneven, lambda K: K + rest[:, None] * (phi @ by_rest), lambda K: K, K_bar)
        return K_bar, resid_bar

    features_bar = features.pull(pull, K_uu_bar, b, w, mean_bar, var_bar, rest, resid_bar)
    # This is a separate pass over the rows, which is not computed for a caller that does not use b_bar and w_bar.
    b_bar, w_bar = features.each(lambda phi, diag: (phi @ u_bar, jnp.sum((phi @ A_bar) * phi, axis=1)))
    return features_bar, b_bar, w_bar


def _backward(residuals: _Residuals, bar: Projected) -> _Cotangents:
    features, b, w, factor, out = residuals
    return pull_features(features, b, w, factor, out, bar)


project.defvjp(_forward, _backward)
