"""L1. Whitened features of a sparse prior, kept or recomputed, and conditioning on sites through them.

With T = L_uu⁻ᵀ, L_uu L_uuᵀ = K_uu, the features Φ = K_xu T (n×m) make the inducing variables v ~ N(0, I) and the
projected process s = Φ v, f_i = s_i + N(0, resid_i), resid_i = κ_ii − |φ_i|².  Given sites exp(b_i s_i − ½ w_i s_i²):

    A = I + Φᵀ W Φ,   S = A⁻¹,   c = S Φᵀ b
    mean = Φ c,   var = diag Φ S Φᵀ,   log_z = log ∫ N(v; 0, I) Π sites dv = −½ log|A| + ½ bᵀ Φ c

A has eigenvalues of at least one.  A row with b = w = 0 drops out exactly.  The pullback is analytic:

    p = Φᵀ m̄,  P = Φᵀ diag(v̄) Φ,  r = S p,  ū = r + z̄ c,  Ā = −½(r cᵀ + c rᵀ) − S P S − ½ z̄ (S + c cᵀ)
    Φ̄ = m̄ cᵀ + b ūᵀ + 2 diag(v̄) Φ S + 2 W Φ Ā − 2 diag(r̄esid) Φ,   b̄ = Φ ū,   w̄ = diag Φ Ā Φᵀ

Everything is a sum over rows or a value per row, so Φ may be kept (`Stored`) or recomputed block by block (`Blocked`,
memory O(n + block·m)); the algebra below is written once for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sitewise import linalg
from sitewise.kernels import Kernel
from sitewise.types import fixed, module, static


@module
class Whitened:
    """What turns inputs into features: x ↦ φ(x) = T ᵀ κ(Z, x)."""

    kernel: Kernel = fixed()
    Z: jax.Array = fixed()
    T: jax.Array = fixed()
    jitter: jax.Array = fixed()  # needed beyond the prior's own to whiten

    def __call__(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Φ and the prior variances of the rows of X."""
        return self.kernel.matrix(X, self.Z) @ self.T, self.kernel.variances(X)


@module
class Stored:
    """Features of all rows in memory."""

    phi: jax.Array = fixed()
    diag: jax.Array = fixed()

    def total(self, function: Callable, *rows: jax.Array) -> Any:
        """function(Φ, diag, *rows), a sum over rows."""
        return function(self.phi, self.diag, *rows)

    def each(self, function: Callable, *rows: jax.Array) -> Any:
        """function(Φ, diag, *rows), arrays with one entry per row."""
        return function(self.phi, self.diag, *rows)

    def pull(self, function: Callable, *rows: jax.Array) -> tuple[Stored, Any]:
        """Cotangent of the features where function(Φ, diag, *rows) = (Φ̄, diag̅, values per row)."""
        phi_bar, diag_bar, values = function(self.phi, self.diag, *rows)
        return Stored(phi_bar, diag_bar), values


@module
class Blocked:
    """Features recomputed for `block` rows at a time."""

    whitened: Whitened = fixed()
    X: jax.Array = fixed()
    block: int = static(4096)

    def _split(self, array: jax.Array, mode: str = "constant") -> jax.Array:
        count = -(-array.shape[0] // self.block)
        widths = [(0, count * self.block - array.shape[0])] + [(0, 0)] * (array.ndim - 1)
        return jnp.pad(array, widths, mode=mode).reshape((count, self.block, *array.shape[1:]))

    def _blocks(self, rows):
        return self._split(self.X, "edge"), tuple(self._split(r) for r in rows)

    def _join(self, values):
        return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[: self.X.shape[0]], values)

    def total(self, function, *rows):
        X, parts = self._blocks(rows)

        def add(sums, block):
            part = function(*self.whitened(block[0]), *block[1])
            return jax.tree.map(jnp.add, sums, part), None

        first = function(*self.whitened(X[0]), *(p[0] for p in parts))
        return lax.scan(add, first, (X[1:], tuple(p[1:] for p in parts)))[0]

    def each(self, function, *rows):
        X, parts = self._blocks(rows)
        values = lax.map(lambda block: function(*self.whitened(block[0]), *block[1]), (X, parts))
        return self._join(values)

    def pull(self, function, *rows):
        X, parts = self._blocks(rows)

        def add(sums, block):
            (phi, diag), back = jax.vjp(lambda f: f(block[0]), self.whitened)
            phi_bar, diag_bar, values = function(phi, diag, *block[1])
            return jax.tree.map(jnp.add, sums, back((phi_bar, diag_bar))[0]), values

        zero = jax.tree.map(lambda a: jnp.zeros(jnp.shape(a), self.X.dtype), self.whitened)
        bar, values = lax.scan(add, zero, (X, parts))
        return Blocked(bar, jnp.zeros_like(self.X), self.block), self._join(values)


Features = Stored | Blocked


class Projected(NamedTuple):
    """The projected process given sites, without the prior mean."""

    mean: jax.Array
    var: jax.Array
    resid: jax.Array
    log_z: jax.Array
    jitter: jax.Array


class Inner(NamedTuple):
    """q(v) = N(coef, H ᵀH): what predictions and derivatives need."""

    coef: jax.Array
    H: jax.Array


def _gap(phi, diag):
    return diag - jnp.sum(phi * phi, axis=1)


def condition(features: Features, b: jax.Array, w: jax.Array) -> tuple[Projected, Inner]:
    """The formulas at the top of this file."""

    def sums(phi, diag, b, w):
        return phi.T @ (w[:, None] * phi), phi.T @ b

    A, u = features.total(sums, b, w)
    H, half_log_det, jitter = linalg.inverse_root(A + jnp.eye(A.shape[0], dtype=A.dtype))
    coef = H.T @ (H @ u)

    def rows(phi, diag):
        C = phi @ H.T
        return phi @ coef, jnp.sum(C * C, axis=1), jnp.maximum(_gap(phi, diag), 0.0)

    mean, var, resid = features.each(rows)
    return Projected(mean, var, resid, -half_log_det + 0.5 * u @ coef, jitter), Inner(coef, H)


@jax.custom_vjp
def project(features: Features, b: jax.Array, w: jax.Array) -> Projected:
    """`condition` for differentiation."""
    return condition(features, b, w)[0]


def _forward(features, b, w):
    out, inner = condition(features, b, w)
    return out, (features, b, w, inner)


def pull_features(features: Features, b: jax.Array, w: jax.Array, inner: Inner, bar: Projected):
    """Cotangents of features, b and w for the cotangent `bar` of what `condition` gives."""
    coef, H = inner
    mean_bar, var_bar, resid_bar, z_bar, _ = bar
    S = H.T @ H

    def sums(phi, diag, mean_bar, var_bar):
        return phi.T @ (var_bar[:, None] * phi), phi.T @ mean_bar

    P, p = features.total(sums, mean_bar, var_bar)
    r = S @ p
    u_bar = r + z_bar * coef
    outer = 0.5 * jnp.outer(r, coef)
    A_bar = -outer - outer.T - S @ P @ S - 0.5 * z_bar * (S + jnp.outer(coef, coef))

    def pull(phi, diag, b, w, mean_bar, var_bar, resid_bar):
        resid_bar = jnp.where(_gap(phi, diag) > 0, resid_bar, 0.0)
        by_A = phi @ A_bar
        phi_bar = (
            mean_bar[:, None] * coef
            + b[:, None] * u_bar
            + 2 * (var_bar[:, None] * (phi @ S) + w[:, None] * by_A - resid_bar[:, None] * phi)
        )
        return phi_bar, resid_bar, (phi @ u_bar, jnp.sum(by_A * phi, axis=1))

    features_bar, (b_bar, w_bar) = features.pull(pull, b, w, mean_bar, var_bar, resid_bar)
    return features_bar, b_bar, w_bar


def _backward(residuals, bar):
    features, b, w, inner = residuals
    return pull_features(features, b, w, inner, bar)


project.defvjp(_forward, _backward)
