"""The prior of softmax models: one latent function per class, with a shared kernel or one kernel per class.

Sites, means and variances have the classes on their first axis and the rows on their last: (C, n).  Sites act on
f_c − s, where s is the shift that maximises them, because softmax is invariant to a common shift (see
`softmax_sites.condition_on_sites`).  `mean` and `var` of the marginals describe g_c = f_c − s, and `cross` holds the
covariance of g per row, (n, C, C).  With s integrated over instead, h_c = f_c − s has the variance `var` + `noise`.
Conditioning and its pullback take O(C n³) time.  Newton's method and the derivative of variances in the sites need
O((Cn)²) memory and O(C² n³) time.
"""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from sitewise import means
from sitewise.arrays.engine import Array, cond, is_host, namespace
from sitewise.checks import must_be
from sitewise.kernels import Kernel
from sitewise.kernels.units import Units, input_units
from sitewise.numerics.dense import softmax_sites
from sitewise.priors.base import Covariance, Factor, Gram, Prior
from sitewise.priors.kernel_sums import cross_sums, not_negative, prior_sums
from sitewise.priors.posterior import Expansion, LatentPosterior
from sitewise.sites import Cavity, Sites, cavity, expected_log_site
from sitewise.types import fixed, module, replace, static


class ClassMarginals(NamedTuple):
    """Marginals of several latent values per row, with their covariance `cross`.

    `noise` is the variance of the shift s per row, given f: 1/Σ_c prec_c of the weighted sites, or 0 without a site.
    """

    mean: Array
    var: Array
    resid: Array
    log_z: Any  # an array or a number
    prior_mean: Array
    jitter: Any
    cross: Array
    noise: Array

    def rows(self) -> tuple[Array, ...]:
        """Return the fields with one entry per row, the rows on the last axis."""
        cross = namespace(self.cross).moveaxis(self.cross, 0, -1)
        return self.mean, self.var, self.resid, self.prior_mean, cross, self.noise

    @classmethod
    def of_rows(cls, rows: tuple[Array, ...], log_z: ArrayLike, jitter: ArrayLike = 0.0) -> ClassMarginals:
        """Return the marginals with these fields; the inverse of `rows`."""
        mean, var, resid, prior_mean, cross, noise = rows
        return cls(mean, var, resid, log_z, prior_mean, jitter, namespace(cross).moveaxis(cross, -1, 0), noise)

    def cavity(self, sites: Sites, share: ArrayLike) -> Cavity:
        """Return the Gaussian vector per row without the share `share` of its site."""
        b, w = (a.T for a in sites.scaled(share))
        left = softmax_sites.without_site(self.mean.T, self.cross, b, w)
        resid = jnp.eye(len(self.resid), dtype=left.cov.dtype) * self.resid.T[:, :, None]
        return Cavity(left.mean, left.cov, left.cov + resid, left.log_z)

    @property
    def site_var(self) -> Array:
        """The variance of h_c = f_c − s, with s integrated over; for all copies of a row together."""
        return self.var + self.noise

    def site_cavity(self, sites: Sites, share: ArrayLike, weight: ArrayLike) -> Cavity:
        """Return each h_c = f_c − s without the share `share` of its own site, with s integrated over.

        Each copy of a row has a shift of its own, so that the variance of s given f is `weight` times `noise`; a row
        of weight below 1 has one shift.
        """
        copies = namespace(self.noise).maximum(weight, 1.0)
        return cavity(self.mean, self.var + copies * self.noise, self.resid, sites, share)

    def log_shift_width(self, weight: Array) -> Array:
        xp = namespace(self.noise, weight)
        copies = xp.where(self.noise > 0, xp.maximum(weight, 1.0) * self.noise, 1.0)
        return 0.5 * xp.log(2 * xp.pi * copies) / xp.where(weight > 0, xp.minimum(weight, 1.0), 1.0)

    def influence(self, sites: Sites, share: ArrayLike) -> Array:
        """Return KL(q ‖ cavity) = E_q[log t^share] − log E_cavity[t^share] per row."""
        expected = jnp.sum(expected_log_site(sites.scaled(share), self.mean, self.var), axis=0)
        return expected - self.cavity(sites, share).log_site


@module
class ClassPrior(Prior):
    """Prior over the functions of all classes.

    With `own`, each class has its own kernel: every parameter of `kernel` has a leading axis of classes.  The names of
    parameters, for bounds, priors and lists of fixed parameters, do not depend on `own`.
    """

    kernel: Kernel = fixed()
    jitter: float = static(default=0.0)
    own: bool = static(default=False)

    structure: ClassVar[str] = "classes"
    dense: ClassVar[bool] = True
    host: ClassVar[bool] = True
    mean = means.Zero()  # a mean common to all classes changes nothing; without annotation it is no field

    def check(self, columns: int, latents: int) -> None:
        super().check(columns, latents)
        if latents == 1:
            raise ValueError("A prior over classes belongs to the Softmax likelihood; make the model with Model.full.")
        if self.own and len(self._own_kernels()) != latents:
            raise ValueError(f"The prior has {len(self._own_kernels())} kernels; give one per class, {latents}.")

    @staticmethod
    def of(kernel: Kernel | Sequence[Kernel], classes: int, jitter: float = 0.0) -> ClassPrior:
        """Make the prior from one kernel for all classes, or from a list of kernels of the same form, one per class."""
        given = kernel if isinstance(kernel, list | tuple) else [kernel]
        each: list[Kernel] = [must_be(k, Kernel, "The kernel", "RBF(), a kernel of sitewise.kernels") for k in given]
        if isinstance(kernel, Kernel):
            return ClassPrior(kernel, jitter)
        if len(each) != classes:
            raise ValueError(
                f"Got {len(each)} kernels for {classes} classes; give one kernel for all, or one for each."
            )
        if len({(jax.tree.structure(k), *map(np.shape, jax.tree.leaves(k))) for k in each}) > 1:
            raise ValueError(
                "The kernels of the classes may differ in the values of their parameters only; use one form of kernel."
            )
        return ClassPrior(_stacked(each), jitter, own=True)

    @property
    def kernels(self) -> Kernel | list[Kernel]:
        """Return the shared kernel, or the list of kernels, one per class."""
        return self._own_kernels() if self.own else self.kernel

    def input_units(self, ranges: np.ndarray) -> Units:
        return input_units(self._own_kernels()[0] if self.own else self.kernel, ranges)

    def _own_kernels(self) -> list[Kernel]:
        classes = len(jax.tree.leaves(self.kernel)[0])
        return [jax.tree.map(operator.itemgetter(c), self.kernel) for c in range(classes)]

    def of_each(self, function: Callable[[Kernel], Any], *tables: Array) -> Any:
        """Return function(κ), which uses `tables`; stacked on a leading axis if each class has its own kernel."""
        if not self.own:
            return function(self.kernel)
        if is_host(*tables, *jax.tree.leaves(self.kernel)):
            return np.stack([function(kernel) for kernel in self._own_kernels()])
        return lax.map(function, self.kernel)

    def gram(self, X: Array) -> ClassGram:
        return self._gram(self.of_each(lambda kernel: kernel.matrix(X), X))

    def _gram(self, K: Any) -> ClassGram:
        return ClassGram(K + self.jitter * namespace(K).eye(K.shape[-1], dtype=K.dtype) if self.jitter else K)

    def gram_with_pull(self, X: Any) -> tuple[Gram, Callable[[Gram], ClassPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return super().gram_with_pull(X)
        if not self.own:
            K, pull = self.kernel.matrix_with_pull(X)
            return self._gram(K), lambda bar: replace(self, kernel=pull(bar.K))
        each = [kernel.matrix_with_pull(X) for kernel in self._own_kernels()]

        def pull_each(bar: Any) -> ClassPrior:
            return replace(self, kernel=_stacked([pull(one) for (_, pull), one in zip(each, bar.K, strict=True)]))

        return self._gram(np.stack([K for K, _ in each])), pull_each

    def posterior(self, X: Array, sites: Sites) -> ClassPosterior:
        gram = self.gram(X)
        return self.posterior_from(gram, gram.condition_with_factor(sites, None)[1], X, sites)

    def posterior_from(self, gram: Gram, factor: Factor, X: Array, sites: Sites) -> ClassPosterior:
        return ClassPosterior(self, X, factor.alpha, factor.H, factor.T)


def _stacked(kernels: Sequence[Kernel]) -> Kernel:
    """Stack kernels of the same form into one whose parameters have a leading axis."""
    return jax.tree.map(lambda *values: np.stack(values), *kernels)


@module
class ClassGram(Gram[ClassMarginals]):
    """Covariances of the rows; `K` is one matrix, or one per class on a leading axis."""

    K: Array = fixed()

    newton_is_cheap: ClassVar[bool] = False  # the covariance of all rows and classes costs several conditionings

    def condition(self, sites: Sites) -> ClassMarginals:
        return self.condition_with_factor(sites, None)[0]

    def condition_mean(self, sites: Sites) -> tuple[ClassMarginals, None]:
        """Condition at about half the cost of `condition`; `cross` holds variances only."""
        return self._marginals(softmax_sites.mean_on_sites(self.K, sites.nat1, sites.prec)), None

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[ClassMarginals, softmax_sites.Factors]:
        out, factors = softmax_sites.condition_on_sites(self.K, sites.nat1, sites.prec)
        return self._marginals(out), factors

    def _marginals(self, out: softmax_sites.Conditioned) -> ClassMarginals:
        xp = namespace(out.mean)
        # Rounding can make a variance negative if it is tiny compared with the prior variance.
        floor = xp.finfo(self.K.dtype).eps * xp.diagonal(self.K, axis1=-2, axis2=-1)
        var = xp.maximum(xp.diagonal(out.cross, axis1=1, axis2=2).T, floor)
        zero = xp.zeros_like(out.mean)
        return ClassMarginals(out.mean, var, zero, out.log_z, zero, out.jitter, out.cross, out.noise)

    def rounding_error(self, sites: Sites, q: ClassMarginals, factors: softmax_sites.Factors | None) -> Array:
        """Estimate the relative rounding error of the identities in the B_c."""
        xp = namespace(self.K, sites.prec)
        prior = xp.diagonal(self.K, axis1=-2, axis2=-1)
        return xp.finfo(prior.dtype).eps * xp.max(sites.prec * prior)

    def covariance(self, sites: Sites, factors: softmax_sites.Factors) -> ClassCovariance:
        found = ClassCovariance(self.K, sites.prec, factors)
        if not is_host(self.K, sites.prec):
            found.squares  # noqa: B018 — cached here; a value cached inside a traced loop does not exist outside
        return found

    def pull(self, sites: Sites, factors: softmax_sites.Factors, q: ClassMarginals, by_q: ClassMarginals) -> ClassGram:
        bar = softmax_sites.Conditioned(by_q.mean, by_covariance(by_q), by_q.log_z, by_q.jitter, by_q.noise)
        return ClassGram(softmax_sites.pull_prior(self.K, sites.prec, q.var, factors, bar))


def by_covariance(by_q: ClassMarginals) -> Array:
    """Return the derivative in the covariance per row, with the derivative in `var` on its diagonal."""
    eye = namespace(by_q.cross).eye(by_q.var.shape[0], dtype=by_q.var.dtype)
    return by_q.cross + eye * by_q.var.T[:, :, None]


class ShiftedCovariance(Covariance[ClassMarginals]):
    """Derivatives of q in the sites, by the covariance of h = f − s with s integrated out.

    Sites are diagonal in h.  g is h without the noise of variance 1/Σ_c prec_c within each row.
    """

    shift_var: Array  # that variance, 0 at rows without a site

    @abc.abstractmethod
    def cross_times(self, weights: Array) -> Array:
        """Return minus the derivative of Σ_i Σ_ce weights_ice cross_ice in prec."""

    def pull_to_sites(self, q: ClassMarginals, by_q: ClassMarginals) -> Sites:
        xp = namespace(by_q.mean)
        moved = self.times_once(by_q.mean)
        weights = by_covariance(by_q)
        by_cross = cond(xp.any(weights != 0), self.cross_times, lambda _: xp.zeros_like(q.var), weights)
        by_noise = q.noise**2 * by_q.noise
        return Sites(
            moved + by_q.log_z * q.mean,
            -(q.mean * moved + by_cross + by_noise + 0.5 * by_q.log_z * (q.var + q.mean**2)),
        )

    def site_squared_times(self, x: Array, weight: Array) -> Array:
        xp = namespace(x)
        return self.squared_times(x) + xp.maximum(weight, 1.0) * self.shift_var**2 * xp.sum(x, axis=0)


@module
class ClassCovariance(ShiftedCovariance):
    """Covariance of h as a matrix, class after class."""

    K: Array = fixed()
    prec: Array = fixed()
    factors: softmax_sites.Factors = fixed()

    @property
    def shift_var(self) -> Array:
        return self.factors.noise

    @functools.cached_property
    def matrix(self) -> Array:
        return softmax_sites.covariance(self.K, self.prec, self.factors)

    @functools.cached_property
    def squares(self) -> Array:
        return self.matrix * self.matrix

    def times(self, x: Array) -> Array:
        """Return d mean for d nat1 = x."""
        return (self.matrix @ x.ravel()).reshape(x.shape)

    def times_once(self, x: Array) -> Array:
        return softmax_sites.covariance_times(self.K, self.prec, self.factors, x)

    def squared_times(self, x: Array) -> Array:
        """Return −d var for d prec = x: −d var of h minus −d var of the noise, d(1/Σ prec) = −Σ d prec/(Σ prec)²."""
        moved = (self.squares @ x.ravel()).reshape(x.shape)
        return moved - self.factors.noise**2 * namespace(x).sum(x, axis=0)

    def cross_times(self, weights: Array) -> Array:
        xp = namespace(weights)
        n, classes = weights.shape[:2]
        matrix = self.matrix.reshape(classes, n, classes * n)
        spread = xp.einsum("iae,eik->aik", weights, matrix)
        moved = xp.sum(matrix * spread, axis=(0, 1)).reshape(classes, n)
        return moved - self.factors.noise**2 * xp.sum(weights, axis=(1, 2))


@module
class ClassPosterior(LatentPosterior):
    """q(f) of all classes; `alpha` is K⁻¹ times the mean of f, per class."""

    prior: ClassPrior = fixed()
    X: Array = fixed()
    alpha: Array = fixed()
    H: Array = fixed()
    T: Array = fixed()

    @property
    def kernel(self) -> Kernel:
        return self.prior.kernel

    def through(self, kernel: Kernel, mean: means.Mean) -> ClassPosterior:
        return replace(self, prior=replace(self.prior, kernel=kernel))

    def explained(self, X_new: Array) -> tuple[Array, Array, Array]:
        mean, V, G = self._parts(X_new)
        xp = namespace(V)
        classes, rows = mean.shape
        own = xp.einsum("ce,cij->ciej", xp.eye(classes, dtype=V.dtype), V).reshape(-1, classes * rows)
        shifts = xp.moveaxis(G, 0, 1).reshape(-1, classes * rows)
        return mean.ravel(), xp.concatenate([own, shifts]), xp.concatenate([own, -shifts])

    def expansion(self) -> Expansion:
        H = np.asarray(self.H)
        Q = np.asarray(self.T).T @ (np.swapaxes(H, 1, 2) @ H)
        kernels = tuple(self.prior._own_kernels()) if self.prior.own else (self.kernel,)
        ones = np.ones(H.shape[1])
        return Expansion(kernels, means.Zero(), np.asarray(self.X), np.asarray(self.alpha), H, ones, Q)

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean (rows, classes) and covariance (rows, classes, classes) of the latent functions per new row."""
        mean, V, G = self._parts(X_new)
        xp = namespace(V)
        prior = self.prior.of_each(lambda kernel: kernel.variances(X_new), X_new)
        own = xp.maximum(prior - xp.sum(V * V, axis=1), xp.finfo(V.dtype).eps * prior)
        eye = xp.eye(self.H.shape[0], dtype=V.dtype)
        return mean.T, xp.einsum("cji,eji->ice", G, G) + eye * own.T[:, :, None]

    def _parts(self, X_new: Array) -> tuple[Array, Array, Array]:
        """Return the means, and per new row with k = κ_c(X, x): H_c k, which lowers the variance, and Tᵀ E_c k, which
        the unknown shifts of the training rows add to it."""
        # New rows first: distances are centred on the second table, and a prediction must not depend on other new rows.
        cross = self.prior.of_each(lambda kernel: kernel.cross(X_new, self.X), X_new, self.X)
        xp = namespace(cross, self.H)
        cross = xp.swapaxes(cross, -1, -2)
        V = self.H @ cross
        return (self.alpha[:, None] @ cross)[:, 0], V, self.T.T @ (xp.swapaxes(self.H, 1, 2) @ V)

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and covariance matrix of all latent functions at the new rows, class after class."""
        mean, V, G = self._parts(X_new)
        xp = namespace(V)
        classes, rows = mean.shape
        prior = self.prior.of_each(lambda kernel: kernel.matrix(X_new), X_new)
        own = prior - xp.swapaxes(V, 1, 2) @ V
        flat = xp.swapaxes(G, 1, 2).reshape(classes * rows, -1)
        return mean.ravel(), softmax_sites.with_blocks(flat @ flat.T, own)

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean Σ_c k_cgᵀα_c and variance Σ_c (κ_cg − |V_cg|²) + |Σ_c G_cg|² (`kernel_sums`; `_parts`)."""
        kernels, rows, classes = self.prior.kernels, np.asarray(self.X), weight.shape[1]
        if isinstance(kernels, list):
            cross = np.stack([cross_sums(k, X, weight[:, c], rows) for c, k in enumerate(kernels)], axis=1)
            prior = np.stack([prior_sums(k, X, weight[:, c]) for c, k in enumerate(kernels)], axis=1)
        else:
            flat = weight.reshape(-1, *weight.shape[2:])
            found = cross_sums(kernels, X, flat, rows), prior_sums(kernels, X, flat)
            cross, prior = (a.reshape(-1, classes, *a.shape[1:]) for a in found)
        V = self.H @ np.swapaxes(cross, 2, 3)  # (S, C, n, G)
        shifts = np.sum(self.T.T @ (np.swapaxes(self.H, 1, 2) @ V), axis=1)
        own = np.sum(not_negative(prior - np.sum(V * V, axis=2)), axis=1)
        return np.einsum("scgn,cn->sg", cross, self.alpha), own + np.sum(shifts**2, axis=1)

    def uncorrelated(self) -> bool:
        """Return whether H = L⁻¹W½ is diagonal, that is, B = I + W½KW½."""
        H = np.abs(np.asarray(self.H))
        return bool(np.max(np.tril(H, -1)) < 1e-6 * np.max(H))
