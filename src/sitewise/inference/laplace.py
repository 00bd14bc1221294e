"""Laplace's approximation: sites from the second-order expansion of log p at the posterior mode (Newton's method)."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.data import Data
from sitewise.inference.base import Inference
from sitewise.likelihoods import Likelihood, TwoFunctions
from sitewise.likelihoods.base import derivatives
from sitewise.numerics.dense.block_sites import positive_blocks
from sitewise.numerics.dense.directions import precisions_of_blocks
from sitewise.priors import Marginals
from sitewise.rows import Values
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class Laplace(Inference):
    """Laplace's approximation: a Gaussian at the posterior mode, found by Newton's method.

        prec = −∂² log p(y|m),    nat1 = ∂ log p(y|m) + prec·m      (R&W eq. 3.18)

    Where log p is not concave a precision may be negative.  The iteration then uses precisions clipped at 0.  Its fixed
    point has the same mean, the posterior mode, because nat1 − prec·m = ∂ log p(y|m) = K⁻¹(m − μ) for every prec.  At
    the mode the true Hessian is used, and the evidence is R&W eq. 3.32 with W of any sign.  Where K⁻¹ + W is not
    positive definite the point is not a maximum, which the outcome reports.

    With two latent functions per row the curvature is a 2 × 2 block: the true Hessian at the mode, and in the iteration
    the block with its eigenvalues clipped at 0.

    Parameters
    ----------
    min_prec : float, default=-inf
        Site precisions at the mode are kept at or above this.
    """

    min_prec: float = -math.inf

    name: ClassVar[str] = "laplace"
    mean_only: ClassVar[bool] = True

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        if not likelihood.curved:
            raise ValueError(
                f"Laplace's method needs curvature, but {type(likelihood).__name__} has none; use EP or VI "
                "(in an estimator: method 'hybrid', 'ep' or 'vi')."
            )
        if isinstance(likelihood, TwoFunctions):
            return self._blocks(likelihood, data, q)
        d1, d2 = derivatives(lambda f: likelihood.log_prob(data.y, f), q.mean)
        # Rounding must not make a precision of a log-concave likelihood negative.
        prec = jnp.maximum(-d2, max(self.min_prec, 0.0) if likelihood.log_concave else self.min_prec)
        return Sites(d1 + prec * q.mean, prec)

    def _blocks(self, likelihood: TwoFunctions, data: Data, q: Marginals) -> Sites:
        """Return precision blocks −∇² log p; for the iteration, with eigenvalues clipped at 0."""
        slope, hessian = likelihood.derivatives(data.y, q.mean[: likelihood.latents])
        W = positive_blocks(-hessian) if self.min_prec >= 0 else -hessian
        prec = precisions_of_blocks(W)
        padding = jnp.zeros((len(prec) - len(slope), *slope.shape[1:]), slope.dtype)
        return Sites(jnp.concatenate([slope, padding]) + prec * q.mean, prec)

    def assess(
        self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, with_slopes: bool
    ) -> tuple[Values, Values] | None:
        found = likelihood.log_prob_slopes(data.y, q.mean)
        if found is None:
            return None
        value, d1, d2, d3 = found
        least = max(self.min_prec, 0.0) if likelihood.log_concave else self.min_prec
        prec = np.maximum(-d2, least)
        rows: Values = (d1 + prec * q.mean, prec)
        if with_slopes:
            by_mean = np.where(-d2 > least, -d3, 0.0)
            rows += (d2 + prec + q.mean * by_mean, by_mean)
        alpha = data.weight * (sites.nat1 - sites.prec * q.mean)
        merit = data.weight @ np.where(data.mask, value, 0.0) - 0.5 * alpha @ (q.mean - q.prior_mean)
        return tuple(np.where(data.mask, row, 0.0) for row in rows), (merit,)

    def stepping(self, likelihood: Likelihood) -> Laplace:
        """Return the method for the iteration, with precisions clipped at 0 if the likelihood is not log-concave."""
        if likelihood.log_concave or self.min_prec >= 0:
            return self
        return dataclasses.replace(self, min_prec=0.0)

    def merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> jax.Array:
        """Return Ψ(m) = log p(y|m) + log N(m; μ, K), up to a constant.

        log N(m; μ, K) is −½ (m − μ)ᵀ α up to a constant, with α = K⁻¹(m − μ) = nat1 − prec·m.  (It also equals
        log Z_q + log q(m) − Σ log t(m), but log q(m) = −½ log|2πΣ| changes between iterates.)
        """
        alpha = data.weight * (sites.nat1 - sites.prec * q.mean)
        fit = jnp.where(data.mask, likelihood.log_prob(data.y, q.mean), 0.0)
        return jnp.sum(data.weight * fit) - 0.5 * jnp.sum(alpha * (q.mean - q.prior_mean))
