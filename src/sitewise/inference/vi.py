"""Variational inference (VI) in the dual parameterisation (Khan & Lin 2017; the paper's E-step)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence
from sitewise.data import Data
from sitewise.inference.base import Inference
from sitewise.likelihoods import Likelihood
from sitewise.priors import Marginals
from sitewise.rows import Values
from sitewise.sites import Sites, expected_log_site


@dataclasses.dataclass(frozen=True)
class VI(Inference):
    """Variational inference (VI) by natural gradients, in the dual parameterisation.

    With a(m, v) = E_{N(m, v)}[log p]:

        prec = −2 ∂a/∂v,    nat1 = ∂a/∂m + prec·m

    This is λ = ∇_μ E_q[log p] in expectation parameters (paper, below eq. 12); −2 ∂a/∂v = −E[∂² log p].
    λ ← (1−ρ)λ + ρ·T(λ) is a natural-gradient step of size ρ on the ELBO, also on an ELBO whose
    expectations are computed by a coarse quadrature.  With two latent functions per row, m and v are means and
    variances along the directions of `numerics.dense.directions`, and the same formulas give a full precision block.

    Parameters
    ----------
    tight : bool, default=False
        On a sparse prior, narrow the residual variance of each row by its site, r̃ = r/(1 + r·prec).  The sites then
        maximise `evidence.tight`: T(λ) − λ remains a direction of ascent, because the bound is stationary in r̃ where
        prec = −2 ∂a/∂v, and elsewhere ∂bound/∂prec · (T(λ) − λ) = ½ r̃² (−2 ∂a/∂v − prec)².  The name is "vi(tight)".
    """

    tight: bool = dataclasses.field(default=False, kw_only=True)

    name: ClassVar[str] = "vi"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tight:
            object.__setattr__(self, "name", f"{type(self).name}(tight)")
            object.__setattr__(self, "uses_sites", True)

    def unit(self, q: Marginals) -> jax.Array:
        return q.var + q.resid if self.tight else q.var

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        return self._expectations(likelihood, data, q, sites)[0]

    def merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> jax.Array:
        return (evidence.tight if self.tight else evidence.elbo).read(likelihood, data, q, sites)

    def propose_with_merit(
        self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
    ) -> tuple[Sites, jax.Array]:
        target, expected = self._expectations(likelihood, data, q, sites)
        own = evidence.per_row(likelihood, expected_log_site(sites, q.mean, q.var))
        return target, evidence.elbo.total(data, q, expected - own)

    def assess(
        self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, with_slopes: bool
    ) -> tuple[Values, Values] | None:
        """With h_k = ∂ᵏa/∂mᵏ, and ∂a/∂v = ½ h₂: prec = −h₂, nat1 = h₁ + prec·m, and their derivatives in m and v."""
        found = None if self.tight else likelihood.expected_log_prob_slopes(data.y, q.mean, q.var + q.resid)
        if found is None:
            return None
        expected, h1, h2, h3, h4 = found
        prec = np.maximum(-h2, self.min_prec)
        rows: Values = (h1 + prec * q.mean, prec)
        if with_slopes:
            free = -h2 > self.min_prec
            by_mean, by_var = np.where(free, -h3, 0.0), np.where(free, -0.5 * h4, 0.0)
            rows += (h2 + prec + q.mean * by_mean, by_mean, 0.5 * h3 + q.mean * by_var, by_var)
        merit = evidence.elbo.total(data, q, expected - expected_log_site(sites, q.mean, q.var))
        return tuple(np.where(data.mask, row, 0.0) for row in rows), (merit,)

    def _expectations(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> tuple[Sites, jax.Array]:
        """Return T(λ), and a of each row minus the cost of its narrowed residual."""
        resid, cost = evidence.narrowed(data, q, sites) if self.tight else (q.resid, 0.0)

        def total(mean: jax.Array, var: jax.Array) -> tuple[jax.Array, jax.Array]:
            rows = likelihood.expected_log_prob(data.y, mean, var)
            return jnp.sum(rows), rows

        # One reverse pass: one forward pass per argument would evaluate the likelihood twice.
        (by_mean, by_var), rows = jax.grad(total, argnums=(0, 1), has_aux=True)(q.mean, q.var + resid)
        prec = jnp.maximum(-2 * by_var, self.least_prec(likelihood))
        return Sites(by_mean + prec * q.mean, prec), rows - cost
