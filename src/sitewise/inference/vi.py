"""L2. Variational inference in the dual parameterisation (Khan & Lin 2017; the paper's E-step)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from sitewise import evidence
from sitewise.inference.base import Inference, derivatives
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class VI(Inference):
    """With ℓ(m) = E_{N(m, v)}[log p]:  prec = −ℓ''(m),  nat1 = ℓ'(m) + prec·m.

    (ℓ'' = 2 ∂ℓ/∂v, so this is λ = ∇_μ E_q[log p] in expectation parameters; paper, below eq. 12.)
    λ ← (1−ρ)λ + ρ·T(λ) is a natural-gradient step of size ρ on the ELBO.
    """

    name: ClassVar[str] = "vi"

    def propose(self, likelihood, data, q, sites):
        var = q.var + q.resid
        d1, d2 = derivatives(lambda m: likelihood.expected_log_prob(data.y, m, var), q.mean)
        prec = jnp.maximum(-d2, self.min_prec)
        return Sites(d1 + prec * q.mean, prec)

    def merit(self, likelihood, data, q, sites):
        return evidence.elbo.read(likelihood, data, q, sites)
