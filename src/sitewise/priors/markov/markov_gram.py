"""Conditioning of a Markov chain on sites, behind the contract of priors (`priors.base`)."""

from __future__ import annotations

from typing import ClassVar

from sitewise.arrays.engine import Array, cond, namespace, put
from sitewise.numerics.markov import chain_products, chain_pullback, filtering
from sitewise.numerics.markov.filtering import Chain, Smoothed
from sitewise.priors.base import Covariance, Gram, Marginals
from sitewise.priors.full import LARGE_EVIDENCE
from sitewise.sites import Sites
from sitewise.types import fixed, module


@module
class MarkovGram(Gram[Marginals]):
    """The chain with rows in the order of time; `order` holds their numbers in the data, `mean` is in data order.

    `pull` gives no derivative in h, which does not depend on hyperparameters.
    """

    A: Array = fixed()
    Q: Array = fixed()
    h: Array = fixed()
    order: Array = fixed()
    mean: Array = fixed()

    newton_is_cheap: ClassVar[bool] = True  # a product with Σ or Σ∘Σ costs a few percent of the quadrature of an update

    @property
    def chain(self) -> Chain:
        return Chain(self.A, self.Q, self.h)

    def places(self) -> Array:
        """Return the place of each row of the data in the order of time."""
        return unsorted(self.order, namespace(self.order).arange(len(self.order)))

    def sorted_sites(self, sites: Sites) -> tuple[Array, Array]:
        """Return b = nat1 − prec·μ and prec, in the order of time."""
        xp = namespace(self.order, *sites)
        b = xp.asarray(sites.nat1 - sites.prec * self.mean)
        return b[self.order], xp.asarray(sites.prec)[self.order]

    def condition(self, sites: Sites) -> Marginals:
        return self.condition_with_factor(sites, None)[0]

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[Marginals, Smoothed]:
        out = filtering.condition(self.chain, *self.sorted_sites(sites))
        xp, mu = namespace(self.mean, out.mean), self.mean
        shift = xp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        mean, var = unsorted(self.order, out.mean), unsorted(self.order, out.var)
        none = xp.zeros_like(var)
        return Marginals(mu + mean, var, none, shift + out.log_z, mu, xp.zeros((), var.dtype)), out

    def covariance(self, sites: Sites, factor: Smoothed) -> MarkovCovariance:
        return MarkovCovariance(chain_products.Generators.of(factor), self.order)

    def pull(self, sites: Sites, factor: Smoothed, q: Marginals, by_q: Marginals) -> MarkovGram:
        xp = namespace(q.mean, by_q.mean)
        by_mean, by_var = (xp.asarray(a)[self.order] for a in (by_q.mean, by_q.var))
        A, Q = chain_pullback.pull(self.chain, factor, by_mean, by_var, by_q.log_z)
        moved = cond(xp.any(by_q.mean != 0), self.covariance(sites, factor).times, xp.zeros_like, by_q.mean)
        b_bar = moved + by_q.log_z * (q.mean - self.mean)
        at = by_q.log_z * (sites.nat1 - sites.prec * self.mean) - sites.prec * b_bar
        return MarkovGram(A, Q, xp.zeros_like(self.h), self.order, by_q.mean + by_q.prior_mean + at)

    def rounding_error(self, sites: Sites, q: Marginals, factor: Smoothed) -> Array:
        """Estimate the larger of two rounding errors: of a variance, relative, and of log_z, as in `FullGram`.

        log_z refers to sites with a maximum of one.
        """
        b, w = factor.b, factor.w
        xp = namespace(b, w)
        share, nats = filtering.rounding(factor)
        size = xp.abs(factor.log_z - 0.5 * xp.sum(xp.where(w > 0, b**2 / xp.where(w > 0, w, 1.0), 0.0)))
        return xp.maximum(share, nats / (1 + xp.where(xp.isfinite(size), size, 0.0) / LARGE_EVIDENCE))


def unsorted(order: Array, values: Array) -> Array:
    """Reorder values from the order of time to the order of the data."""
    return put(namespace(order, values).zeros_like(values), order, values)


@module
class MarkovCovariance(Covariance[Marginals]):
    """Products with Σ by its generators (`numerics.markov.chain_products`)."""

    generators: chain_products.Generators = fixed()
    order: Array = fixed()

    def times(self, x: Array) -> Array:
        return unsorted(self.order, chain_products.product(self.generators, x[self.order]))

    def squared_times(self, x: Array) -> Array:
        return unsorted(self.order, chain_products.squared_product(self.generators, x[self.order]))
