"""Laplace: sites are the second-order expansion of log p at the posterior mean (Newton's method)."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp

from sitewise.data import Data
from sitewise.inference.base import Inference
from sitewise.likelihoods import Likelihood
from sitewise.likelihoods.base import derivatives
from sitewise.priors import Marginals
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class Laplace(Inference):
    """prec = −∂² log p(y|m),  nat1 = ∂ log p(y|m) + prec·m   (R&W eq. 3.18).

    Where log p is not concave a precision may be negative.  The loop then steps with precisions kept at 0 or above:
    its fixed point has the same mean, the mode of the posterior, because nat1 − prec·m = ∂ log p(y|m) = K⁻¹(m − μ)
    for every prec.  At the mode the true Hessian is used, so that the evidence is R&W eq. 3.32 with W of any sign.
    Where K⁻¹ + W is not positive definite the point is no maximum, and the outcome says so.
    """

    min_prec: float = -math.inf

    name: ClassVar[str] = "laplace"
    mean_only: ClassVar[bool] = True

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        if not likelihood.curved:
            raise ValueError(
                f"Laplace's method needs curvature, and {type(likelihood).__name__} has none; use EP or VI "
                "(in an estimator: method 'hybrid', 'ep' or 'vi')."
            )
        d1, d2 = derivatives(lambda f: likelihood.log_prob(data.y, f), q.mean)
        # Rounding must not make a precision of a log-concave likelihood negative.
        prec = jnp.maximum(-d2, max(self.min_prec, 0.0) if likelihood.log_concave else self.min_prec)
        return Sites(d1 + prec * q.mean, prec)

    def stepping(self, likelihood: Likelihood) -> Laplace:
        if likelihood.log_concave or self.min_prec >= 0:
            return self
        return dataclasses.replace(self, min_prec=0.0)

    def merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> jax.Array:
        """Ψ(m) = log p(y|m) + log N(m; μ, K), up to a constant.

        log N(m; μ, K) = log Z_q + log q(m) − Σ log t(m), and log q(m) = −½ log|2πΣ| does not depend on m.
        But Σ changes between iterates, so the quadratic form is computed directly: with α = K⁻¹(m − μ) =
        nat1 − prec·m, it is −½ (m − μ)ᵀ α.
        """
        alpha = data.weight * (sites.nat1 - sites.prec * q.mean)
        fit = jnp.where(data.mask, likelihood.log_prob(data.y, q.mean), 0.0)
        return jnp.sum(data.weight * fit) - 0.5 * jnp.sum(alpha * (q.mean - q.prior_mean))
