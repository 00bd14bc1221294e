"""Conditioning of a Gaussian with a sparse precision on sites, behind the contract of priors (`priors.base`).

x ~ N(0, Q⁻¹), f = μ + A x, and sites (nat1, prec) = (n, w) on f.  With b = n − w μ, h = Aᵀb and P = Q + AᵀWA:

    x | sites ~ N(m, Σ),  Σ = P⁻¹,  m = Σ h,     log_z = ½ log|Q| − ½ log|P| + ½ hᵀm + μᵀ(n − ½ w μ)
    mean = μ + A m,    var_i = a_iᵀ Σ a_i

Derivatives, with r, v, l the cotangents of mean, var and log_z, u = Σ Aᵀ r and M = Aᵀ diag(v) A:

    Q̄ = −½ l (Σ + m mᵀ) − ½ (u mᵀ + m uᵀ) − Σ M Σ,     l/2 for log|Q|,     (Σ_f ∘ Σ_f) x = a_iᵀ Σ (Aᵀ diag(x) A) Σ a_i

Loads that depend on θ have the cotangents, at the variables on which row i loads, with f̃_i = a_iᵀ m and g_i = a_iᵀ u,

    ā_i = ((2 v_i − l w_i) Σ − 2 w_i Σ M Σ) a_i + (l (b_i − w_i f̃_i) + r_i − w_i g_i) m + (b_i − w_i f̃_i) u

Only entries on the pattern of P are needed, from `numerics.sparse.selected`.

Two functions per row have three scalar sites, along f, g and f + g (`priors.precision.assembly`): the same formulas
hold with three rows of A per row of the data.  Single precisions may then be negative, and blocks indefinite; only P
has to be positive definite.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.numerics.dense.directions import blocks_of_precisions, blocks_of_variances, variances_of_blocks
from sitewise.numerics.dense.small_systems import any_indefinite, given_blocks
from sitewise.numerics.sparse.factor import Factor, factorise
from sitewise.numerics.sparse.selected import inverse_on_pattern, product_on_pattern
from sitewise.priors.base import Covariance, Gram, Marginals
from sitewise.priors.full import LARGE_EVIDENCE, FullGram
from sitewise.priors.precision.assembly import Assembly
from sitewise.priors.two_function_prior import BlockMarginals
from sitewise.sites import Sites
from sitewise.types import fixed, module, static

# Nats: the derivative through variances is left out below this sum of |v_i| var_i.  It costs as much as three
# factorisations, and is zero on the sites of EP and VI with their own evidences, up to the tolerance of the sites.
NEGLIGIBLE_SLOPE = 1e-7


class Solved(NamedTuple):
    """The factor of P, m, and the entries of P and of Σ on the pattern; `inverse` is None if it was not computed."""

    factor: Factor
    m: np.ndarray
    entries: np.ndarray
    inverse: np.ndarray | None


@module
class PrecisionGram(Gram[Marginals]):
    """Entries of Q on the pattern of P, log|Q|, and the prior mean and variance per row; NumPy arrays.

    `loads` has the loads of the rows if they depend on hyperparameters; otherwise it is None.
    """

    assembly: Assembly = static()
    entries: Array = fixed()
    log_det: Array = fixed()
    mean: Array = fixed()
    prior_var: Array = fixed()
    loads: Array | None = fixed(default=None)

    marginals: ClassVar[type[Marginals]] = Marginals

    def condition(self, sites: Sites) -> Marginals:
        return self.condition_with_factor(sites, None)[0]

    def condition_mean(self, sites: Sites) -> tuple[Marginals, Solved]:
        """Condition without variances, with 1 / (1/prior variance + w) in their place.

        This is the variance given the row's own site.  It is an upper bound if no precision is negative, and finite
        for a flat prior of linear effects, so that the residual of the sites does not grow with that prior.
        """
        return self._solved(sites, self._has_negative(sites.prec))

    def _has_negative(self, prec: np.ndarray) -> bool:
        """Return whether the sites of a row raise variances."""
        return bool(np.any(prec < 0))

    def _given_own_site(self, prec: np.ndarray) -> np.ndarray:
        """Return an upper bound of the posterior variances: given the own site of each row."""
        return _given_own_site(self.prior_var, prec)

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[Marginals, Solved]:
        return self._solved(sites, True)

    def _solved(self, sites: Sites, with_var: bool) -> tuple[Marginals, Solved]:
        at, mu = self.assembly, self.mean
        b = sites.nat1 - sites.prec * mu
        entries = self.entries + at.site_entries(sites.prec)
        factor = factorise(at.analysis, entries)
        if not factor.ok:
            nothing = np.full_like(mu, np.nan)
            q = self.marginals(nothing, nothing, np.zeros_like(mu), np.array(np.nan), mu, np.zeros(()))
            return q, Solved(factor, np.full(at.analysis.size, np.nan), entries, None)
        h = at.transposed_times(b)
        m = factor.solve(h)
        shift = np.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        log_z = np.asarray(0.5 * (self.log_det - factor.log_det) + 0.5 * h @ m + shift)
        inverse = inverse_on_pattern(factor) if with_var else None
        var = self._given_own_site(sites.prec) if inverse is None else at.forms(inverse)
        var = at.floored(var)
        q = self.marginals(mu + at.times(m), var, np.zeros_like(mu), log_z, mu, np.zeros(()))
        return q, Solved(factor, m, entries, inverse)

    def rounding_error(self, sites: Sites, q: Marginals, factor: Solved) -> Array:
        """Estimate the larger of two rounding errors of log_z: of the determinant, and of hᵀm.

        P_ii Σ_ii is the factor by which elimination amplifies a relative error of P_ii.
        """
        if factor.inverse is None or not factor.factor.ok:
            return np.asarray(0.0 if factor.factor.ok else np.nan)
        at = self.assembly
        amplified = factor.entries[at.diagonal] * factor.inverse[at.diagonal]
        h = at.transposed_times(sites.nat1 - sites.prec * self.mean)
        nats = 0.5 * np.abs(factor.m @ (h - at.matrix_times(factor.entries, factor.m)))
        size = np.abs(q.log_z)
        largest = np.finfo(float).eps * np.max(amplified, initial=0.0)
        return np.asarray(max(largest, nats / (1 + size / LARGE_EVIDENCE)))

    def covariance(self, sites: Sites, factor: Solved) -> PrecisionCovariance:
        return PrecisionCovariance(self.assembly, factor)

    def pull(self, sites: Sites, factor: Solved, q: Marginals, by_q: Marginals) -> PrecisionGram:
        at, m, inverse = self.assembly, factor.m, factor.inverse
        if not factor.factor.ok:  # the evidence is NaN, and a search tries other hyperparameters
            nothing = (None if a is None else np.full_like(a, np.nan) for a in (self.mean, self.prior_var, self.loads))
            return type(self)(at, np.full_like(self.entries, np.nan), np.array(np.nan), *nothing)
        assert inverse is not None
        i, j = at.analysis.i, at.analysis.j
        weight = float(np.asarray(by_q.log_z))
        bar = -0.5 * weight * (inverse + m[i] * m[j])
        b_bar, u, moved = weight * (q.mean - self.mean), None, None
        if np.any(by_q.mean):
            u = factor.factor.solve(at.transposed_times(by_q.mean))
            bar -= 0.5 * (u[i] * m[j] + m[i] * u[j])
            b_bar = b_bar + at.times(u)
        if np.sum(np.abs(by_q.var) * q.var) > NEGLIGIBLE_SLOPE:
            moved = product_on_pattern(factor.factor, at.site_entries(by_q.var))
            bar -= moved
        b = sites.nat1 - sites.prec * self.mean
        mean_bar = by_q.mean + by_q.prior_mean + weight * b - sites.prec * b_bar
        zeros = np.zeros_like(self.prior_var)
        loads_bar = None
        if self.loads is not None:
            loads_bar = -weight * sites.prec[:, None] * at.products(inverse)
            loads_bar += (weight * b - sites.prec * b_bar + by_q.mean)[:, None] * m[at.index]
            if u is not None:
                loads_bar += (b - sites.prec * (q.mean - self.mean))[:, None] * u[at.index]
            if moved is not None:
                by_var = 2 * by_q.var[:, None] * at.products(inverse)
                loads_bar += by_var - 2 * sites.prec[:, None] * at.products(moved)
        return type(self)(at, at.twice * bar, np.asarray(0.5 * weight), mean_bar, zeros, loads_bar)


@module
class BlockPrecisionGram(PrecisionGram):
    """The same with two functions per row: prior means and variances along the directions, (3, n)."""

    marginals: ClassVar[type[Marginals]] = BlockMarginals

    def _has_negative(self, prec: np.ndarray) -> bool:
        return any_indefinite(blocks_of_precisions(prec))

    def _given_own_site(self, prec: np.ndarray) -> np.ndarray:
        return variances_of_blocks(given_blocks(blocks_of_variances(self.prior_var), blocks_of_precisions(prec)))


@module
class DenseGram(FullGram):
    """The covariance matrix of all rows, for traced programs; variances of all rows, as `PrecisionGram` has them."""

    def condition_mean(self, sites: Sites) -> tuple[Marginals, Any]:
        q, factor = super().condition_mean(sites)
        return q._replace(var=_given_own_site(namespace(self.K).diagonal(self.K), sites.prec)), factor

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[Marginals, Any]:
        return super().condition_with_factor(sites, None)

    def pull(self, sites: Sites, factors: Any, q: Marginals, by_q: Marginals) -> DenseGram:
        found = super().pull(sites, factors, q, by_q)
        return DenseGram(found.K, found.mean)


class PrecisionCovariance(Covariance[Marginals]):
    """Products with the covariance A Σ Aᵀ of the rows, for derivatives of q."""

    def __init__(self, assembly: Assembly, solved: Solved) -> None:
        self._at, self._factor = assembly, solved.factor

    def times(self, x: Array) -> Array:
        return self._at.times(self._factor.solve(self._at.transposed_times(np.asarray(x))))

    def squared_times(self, x: Array) -> Array:
        return self._at.forms(product_on_pattern(self._factor, self._at.site_entries(np.asarray(x))))


def _given_own_site(prior_var: Array, prec: Array) -> Array:
    """Return the variance of f per row given its own site, an upper bound of the posterior variance."""
    return prior_var / (1 + namespace(prior_var).maximum(prec, 0.0) * prior_var)
