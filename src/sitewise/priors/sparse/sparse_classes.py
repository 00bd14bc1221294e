"""The sparse prior of softmax models: one latent function per class, with shared kernel and inducing inputs.

f_c = s_c + e_c, with s_c the projection on u_c = f_c(Z) and the residuals e_c ~ N(0, resid) independent.  Sites act on
s_c − s, where s is the shift that maximises them, as in `priors.classes`; with Z = X the two priors are equal.
Conditioning takes n(Cm)²/2 multiplications and (Cm)² numbers (`priors.sparse.class_features`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np

from sitewise import means
from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.kernels import Kernel
from sitewise.numerics.dense.tall_products import row_products
from sitewise.priors.base import Gram
from sitewise.priors.classes import ClassMarginals, ShiftedCovariance, by_covariance
from sitewise.priors.kernel_sums import cross_sums, not_negative, prior_sums
from sitewise.priors.posterior import Expansion, LatentPosterior
from sitewise.priors.sparse import class_features
from sitewise.priors.sparse.class_features import Factor, Projected, Shift, as_matrices, blocks_of, forms, grams, whole
from sitewise.priors.sparse.features import Features, Whitened
from sitewise.priors.sparse.sparse_prior import SparsePrior, in_blocks
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace


@module
class SparseClassPrior(SparsePrior):
    """Sparse prior for the Softmax likelihood; it has no mean, because a mean common to all classes changes nothing."""

    structure: ClassVar[str] = "sparse classes"

    def _check_latents(self, latents: int) -> None:
        if latents == 1:
            raise ValueError("A sparse prior over classes belongs to the Softmax likelihood; use Model.sparse.")
        if not isinstance(self.mean, means.Zero):
            raise ValueError("A mean common to all classes changes nothing in a softmax; leave mean at Zero().")

    def _gram(self, X: Array, features: Features) -> SparseClassGram:
        return SparseClassGram(features)

    def _pull_mean(self, X: Array, bar: Gram) -> means.Mean:
        return self.mean

    def start(self, X: Array, sites: Sites) -> Sites:
        """Lower the mean of g by r/2, r the residual variance: E e^g = exp(m + (v + r)/2), and r may be hundreds.

        The level of g is free (`likelihoods.softmax`), and r is the same for all classes of a row.
        """
        r = self.gram(X).features.resid
        return Sites(sites.nat1 - 0.5 * sites.prec * r, sites.prec)

    def _given(self, whitened: Whitened, factor: Factor) -> SparseClassPosterior:
        return SparseClassPosterior(whitened, factor.coef, factor.H)


@module
class SparseClassGram(Gram[ClassMarginals]):
    features: Features = fixed()

    newton_is_cheap: ClassVar[bool] = False  # a product with the squared covariance costs as much as a conditioning

    def _marginals(self, out: Projected) -> ClassMarginals:
        features = self.features.like(out.mean)
        xp, zero = namespace(out.mean), 0.0 * out.mean
        prior = features.whitened.variances(features.X)
        # Rounding can make a variance negative if it is tiny compared with the prior variance.
        var = xp.maximum(xp.diagonal(out.cross, axis1=1, axis2=2).T, xp.finfo(out.mean.dtype).eps * prior)
        jitter = xp.maximum(features.whitened.jitter, out.jitter)
        return ClassMarginals(out.mean, var, zero + features.resid, out.log_z, zero, jitter, out.cross, out.noise)

    def condition(self, sites: Sites) -> ClassMarginals:
        if is_host(self.features.X, *sites):
            return self.condition_with_factor(sites, None)[0]
        return traced_condition(self, sites)

    def condition_mean(self, sites: Sites) -> tuple[ClassMarginals, None]:
        return self._marginals(class_features.condition_mean(self.features, sites)), None

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[ClassMarginals, Factor]:
        out, factor = class_features.condition(self.features, sites)
        return self._marginals(out), factor

    def rounding_error(self, sites: Sites, q: ClassMarginals, factor: Factor | None) -> Array:
        """Estimate the relative rounding error of the identity in A, whose diagonal is at most Σ_i w_ci |φ_i|²."""
        xp = namespace(sites.prec, q.var)
        features = self.features.like(sites.prec)
        explained = features.whitened.variances(features.X) - features.resid
        return xp.finfo(q.var.dtype).eps * xp.max(sites.prec @ explained)

    def covariance(self, sites: Sites, factor: Factor) -> SparseClassCovariance:
        return SparseClassCovariance(self.features.like(factor.S), factor.S, factor.shift, factor.cross)

    def pull(self, sites: Sites, factor: Factor, q: ClassMarginals, by_q: ClassMarginals) -> SparseClassGram:
        return SparseClassGram(
            class_features.pull_features(
                self.features, factor, q.var, by_q.mean, by_covariance(by_q), by_q.resid, by_q.log_z
            )
        )


@jax.custom_vjp
def traced_condition(gram: Any, sites: Sites) -> Any:
    """Condition a Gram with derivatives of its own on sites, differentiably."""
    return gram.condition_with_factor(sites, None)[0]


def _forward(gram: Any, sites: Sites) -> tuple[Any, tuple[Any, Sites, Any, Any]]:
    q, factor = gram.condition_with_factor(sites, None)
    return q, (gram, sites, factor, q)


def _backward(kept: tuple[Any, Sites, Any, Any], by_q: Any) -> tuple[Any, Sites]:
    gram, sites, factor, q = kept
    return gram.pull(sites, factor, q, by_q), gram.covariance(sites, factor).pull_to_sites(q, by_q)


traced_condition.defvjp(_forward, _backward)


@module
class SparseClassCovariance(ShiftedCovariance):
    """Products with Cov(h) = Γ S Γᵀ + noise within each row, with γ_ci the row (I − 1pᵀ)_c ⊗ φ_i of Γ."""

    features: Features = fixed()
    S: Array = fixed()
    shift: Shift = fixed()
    cross: Array = fixed()

    @property
    def shift_var(self) -> Array:
        return self.shift.noise

    def times(self, x: Array) -> Array:
        """Return Cov(h) x, in O(nCm) and O((Cm)²)."""
        features, xp = self.features.like(x), namespace(x, self.S)
        t = features.total(lambda phi, y: y.T @ phi, self.shift.pulled(x).T)
        coef = (self.S @ t.ravel()).reshape(t.shape)
        moved = features.each(lambda phi: phi @ coef.T).T
        return self.shift.centred(moved) + self.shift.noise * xp.sum(x, axis=0)

    def cross_times(self, weights: Array) -> Array:
        """Return γᵀ S (Σ_i Γ_iᵀ weights_i Γ_i) S γ plus the contribution of the noise within each row."""
        features, xp = self.features.like(weights), namespace(weights, self.S)
        classes = weights.shape[1]
        first, second = np.triu_indices(classes)
        weights = 0.5 * (weights + xp.swapaxes(weights, 1, 2))
        P = features.total(grams, self.shift.pulled_both(weights)[:, first, second])
        Q = blocks_of(self.S @ whole(P, classes) @ self.S, classes)
        quad = self.shift.centred_both(as_matrices(features.each(lambda phi: forms(phi, Q)), classes))
        within = xp.einsum("ia,iad->di", xp.sum(weights, axis=2), self.cross)
        return xp.diagonal(quad, axis1=1, axis2=2).T + 2 * self.shift.noise * within

    def squared_times(self, x: Array) -> Array:
        eye = namespace(x).eye(len(x), dtype=x.dtype)
        return self.cross_times(eye * x.T[:, :, None])


@module
class SparseClassPosterior(LatentPosterior):
    """q(v) = N(coef, HᵀH), with one row of `coef` per class."""

    whitened: Whitened = fixed()
    coef: Array = fixed()
    H: Array = fixed()

    @property
    def kernel(self) -> Kernel:
        return self.whitened.kernel

    def through(self, kernel: Kernel, mean: means.Mean) -> SparseClassPosterior:
        return replace(self, whitened=replace(self.whitened, kernel=kernel))

    def _rooted(self, phi: Array) -> Array:
        """Return H_c φ per class and row: (Cm, classes · rows)."""
        xp, classes = namespace(phi, self.H), len(self.coef)
        H = self.H.reshape(len(self.H), classes, -1)
        return xp.einsum("acj,ij->aci", H, phi).reshape(len(self.H), -1)

    def explained(self, X_new: Array) -> tuple[Array, Array, Array]:
        phi, _ = self.whitened(X_new)
        xp, classes = namespace(phi), len(self.coef)
        own = xp.einsum("ce,ij->cjei", xp.eye(classes, dtype=phi.dtype), phi).reshape(-1, classes * len(phi))
        rooted = self._rooted(phi)
        return (self.coef @ phi.T).ravel(), xp.concatenate([own, rooted]), xp.concatenate([own, -rooted])

    def expansion(self) -> Expansion:
        T, Z, classes = np.asarray(self.whitened.T), np.asarray(self.whitened.Z), len(self.coef)
        H = np.moveaxis(np.asarray(self.H).reshape(len(self.H), classes, -1), 1, 0)
        return Expansion((self.kernel,), means.Zero(), Z, self.coef @ T.T, T.T[None], np.ones(T.shape[1]), H @ T.T)

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean (rows, classes) and covariance (rows, classes, classes) of the latent functions per new row."""
        S = self.H.T @ self.H
        blocks = blocks_of(S, len(self.coef))
        return in_blocks(lambda X: self._marginals(X, blocks), X_new, len(self.whitened.Z), self)

    def _marginals(self, X_new: Array, blocks: Array) -> tuple[Array, Array]:
        phi, diag = self.whitened(X_new)
        xp, classes = namespace(phi, blocks), len(self.coef)
        cov = as_matrices(forms(phi, blocks), classes)
        left = xp.maximum(diag - row_products(phi, phi), xp.finfo(phi.dtype).eps * diag)
        return phi @ self.coef.T, cov + xp.eye(classes, dtype=phi.dtype) * left[:, None, None]

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and covariance matrix of all latent functions at the new rows, class after class."""
        phi, _ = self.whitened(X_new)
        xp, classes = namespace(phi, self.H), len(self.coef)
        rooted = self._rooted(phi)
        own = self.whitened.kernel.matrix(X_new) - phi @ phi.T
        cov = rooted.T @ rooted + xp.kron(xp.eye(classes, dtype=phi.dtype), own)
        return (self.coef @ phi.T).ravel(), cov

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean Σ_c φ_cgᵀc_c and variance Σ_c (κ_cg − |φ_cg|²) + |Σ_c H_c φ_cg|² (`kernel_sums`)."""
        kernel, classes = self.whitened.kernel, weight.shape[1]
        flat = weight.reshape(-1, *weight.shape[2:])
        phi = cross_sums(kernel, X, flat, np.asarray(self.whitened.Z)) @ self.whitened.T
        left = not_negative(prior_sums(kernel, X, flat) - np.sum(phi**2, axis=-1))
        phi, left = (a.reshape(-1, classes, *a.shape[1:]) for a in (phi, left))
        rooted = np.einsum("acj,scgj->sga", np.reshape(self.H, (len(self.H), classes, -1)), phi)
        return np.einsum("scgj,cj->sg", phi, self.coef), np.sum(left, axis=1) + np.sum(rooted**2, axis=-1)
