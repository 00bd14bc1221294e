"""Expectation propagation (Minka 2001), parallel, at any power (power EP)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from sitewise.data import Data
from sitewise.evidence import share
from sitewise.inference.base import Inference
from sitewise.likelihoods import Likelihood
from sitewise.priors import Marginals
from sitewise.sites import Sites


@dataclasses.dataclass(frozen=True)
class EP(Inference):
    """With the cavity N(m, v) and ℓ(m) = log E_{N(m, v)}[p^a]:

        prec = −ℓ''/(1 + ℓ''v) / a,    nat1 = (ℓ' + a·prec·(m + vℓ')) / a

    m + vℓ' and v + v²ℓ'' are the mean and variance of the tilted distribution; the cavity times the site is a
    Gaussian with those moments.  Where a precision is clipped the mean is still matched.  At another power than 1 the
    name says so, as in "ep(0.5)".
    """

    power: float = 1.0

    name: ClassVar[str] = "ep"
    uses_sites: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.power <= 1:
            raise ValueError(f"power must lie in (0, 1], got {self.power!r}; power → 0 is VI.")
        if self.power != 1:
            object.__setattr__(self, "name", f"{type(self).name}({self.power:g})")

    def fallbacks(self) -> tuple[EP, ...]:
        """Damped steps, then fractional EP: at half the power it is nearer to VI and converges more easily."""
        return (*super().fallbacks(), dataclasses.replace(self, power=0.5 * self.power))

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        if likelihood.latents > 1:
            raise ValueError(
                f"EP is for likelihoods of one latent function, and {type(likelihood).__name__} has several; use VI or "
                "Laplace (in an estimator: method 'hybrid', 'vi' or 'laplace', or multi_class='one_vs_rest')."
            )
        a = share(data, self.power)
        cav = q.cavity(sites, a)
        var = cav.f_var
        shift, ratio = likelihood.tilted_moments(data.y, cav.mean, var, a)
        d1, lost = shift / var, (1 - ratio) / var  # ℓ' and −ℓ''
        shrink = jnp.maximum(ratio * cav.var + q.resid, 1e-12 * cav.var) / var  # 1 + ℓ''·cav.var
        prec = jnp.maximum(lost / shrink, a * self.min_prec)
        return Sites((d1 + prec * (cav.mean + cav.var * d1)) / a, prec / a)
