"""Expectation propagation (EP, Minka 2001) with parallel updates, and power EP."""

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
    """Expectation propagation at a power a in (0, 1].  With the cavity N(m, v) and ℓ(m) = log E_{N(m, v)}[p^a]:

        prec = −ℓ''/(1 + ℓ''v) / a,    nat1 = (ℓ' + a·prec·(m + vℓ')) / a

    m + vℓ' and v + v²ℓ'' are the mean and variance of the tilted distribution; the cavity times the site is a
    Gaussian with these moments.  Where a precision is clipped the mean is still matched.  At a power other than 1 the
    name includes the power, as in "ep(0.5)".
    """

    power: float = 1.0

    name: ClassVar[str] = "ep"
    uses_sites: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.power <= 1:
            raise ValueError(f"power must lie in (0, 1], got {self.power!r}; for power → 0 use VI.")
        if self.power != 1:
            object.__setattr__(self, "name", f"{type(self).name}({self.power:g})")

    def fallbacks(self) -> tuple[EP, ...]:
        """Return the methods to try next: damped steps, then EP at half the power, which converges more easily."""
        return (*super().fallbacks(), dataclasses.replace(self, power=0.5 * self.power))

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        if likelihood.latents > 1:
            raise ValueError(
                f"EP is for likelihoods of one latent function, but {type(likelihood).__name__} has several; use VI or "
                "Laplace (in an estimator: method 'hybrid', 'vi' or 'laplace', or multi_class='one_vs_rest')."
            )
        a = share(data, self.power)
        cav = q.cavity(sites, a)
        var = cav.f_var
        shift, ratio = likelihood.tilted_moments(data.y, cav.mean, var, a)
        slope, curvature = shift / var, (1 - ratio) / var  # ℓ' and −ℓ''
        shrink = jnp.maximum(ratio * cav.var + q.resid, 1e-12 * cav.var) / var  # 1 + ℓ''·cav.var
        prec = jnp.maximum(curvature / shrink, a * self.min_prec)
        return Sites((slope + prec * (cav.mean + cav.var * slope)) / a, prec / a)
