"""Expectation propagation (EP, Minka 2001) with parallel updates, and power EP."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.data import Data
from sitewise.evidence import share
from sitewise.inference.base import Inference
from sitewise.inference.update import SiteUpdate
from sitewise.likelihoods import Likelihood, TwoFunctions
from sitewise.numerics.dense.directions import along, precisions_of_blocks
from sitewise.numerics.dense.small_matrices import apply, small_solve, times, transpose
from sitewise.priors import Covariance, Marginals
from sitewise.rows import Values
from sitewise.sites import Sites, cavity_on_host

_MIN_SHRINK = 1e-12  # least ratio of the tilted variance to the variance of the cavity
_POWER_RATIO, _APPROACH_TOL, _NEARLY_SAME_POWER = 5.0, 0.1, 1.5  # see `EP.approach`


@dataclasses.dataclass(frozen=True)
class EP(Inference):
    """Expectation propagation (EP), and power EP at a power a below 1.

    With the cavity N(m, v) and ℓ(m) = log E_{N(m, v)}[p^a]:

        prec = −ℓ''/(1 + ℓ''v) / a,    nat1 = (ℓ' + a·prec·(m + vℓ')) / a

    m + vℓ' and v + v²ℓ'' are the mean and variance of the tilted distribution; the cavity times the site is a
    Gaussian with these moments.  Where a precision is clipped the mean is still matched.  At a power other than 1 the
    name includes the power, as in "ep(0.5)".

    With two latent functions per row the same holds with vectors and 2 × 2 matrices, and no block is clipped:

        W = −(I + HV)⁻¹H / a,    b = (ℓ' + a·W(m + Vℓ')) / a,    H = ∇²ℓ

    On a sparse prior the site acts on s ~ N(m, V), f has the covariance C = V + R, and N(m, C)·p^a has the mean m + Δ
    and the covariance T.  With the gain G = VC⁻¹, ℓ' = C⁻¹Δ and V + VHV = GR + GTGᵀ.

    A softmax row is one site per class on h_c = f_c − s (`likelihoods.softmax`): its cavities are one-dimensional.

    Parameters
    ----------
    power : float, default=1.0
        a, in (0, 1].
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

    def approach(self, other: SiteUpdate) -> tuple[EP, ...]:
        """Return EP at powers between two that are far apart, solved roughly: far below 1 each step is short."""
        powers, power = list[float](), other.power / _POWER_RATIO if isinstance(other, EP) else 0.0
        while power > _NEARLY_SAME_POWER * self.power:
            powers.append(power)
            power /= _POWER_RATIO
        return tuple(dataclasses.replace(self, power=power, tol=_APPROACH_TOL) for power in powers)

    def fallbacks(self) -> tuple[EP, ...]:
        """Return the methods to try next: damped steps, then EP at half the power, which converges more easily."""
        return (*super().fallbacks(), dataclasses.replace(self, power=0.5 * self.power))

    def unit(self, q: Marginals) -> Array:
        return q.site_var

    def change_of_var(self, cov: Covariance, x: Array, weight: Array) -> Array:
        return cov.site_squared_times(x, weight)

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        if isinstance(likelihood, TwoFunctions):
            return self._blocks(likelihood, data, q, sites)
        a = share(data, self.power)
        cav = q.site_cavity(sites, a, data.weight)
        var = cav.f_var
        shift, ratio = likelihood.tilted_moments(data.y, cav.mean, var, a)
        xp = namespace(var)
        slope, curvature = shift / var, (1 - ratio) / var  # ℓ' and −ℓ''
        shrink = xp.maximum(ratio * cav.var + q.resid, _MIN_SHRINK * cav.var) / var  # 1 + ℓ''·cav.var
        prec = xp.maximum(curvature / shrink, a * self.min_prec)
        return Sites((slope + prec * (cav.mean + cav.var * slope)) / a, prec / a)

    def _blocks(self, likelihood: TwoFunctions, data: Data, q: Marginals, sites: Sites) -> Sites:
        """Return full precision blocks; see the formulas of two functions at the class."""
        a = share(data, self.power)
        cav = q.cavity(sites, a)
        shift, tilted = likelihood.tilted_moments(data.y, cav.mean, cav.f_var, a)
        gain = transpose(small_solve(cav.f_var, cav.var))
        slope = small_solve(cav.f_var, shift[..., None])[..., 0]
        lost = times(gain, times(cav.f_var - tilted, transpose(gain)))
        kept = times(gain, cav.f_var - cav.var + times(tilted, transpose(gain)))
        W = small_solve(kept, transpose(small_solve(cav.var, lost)))
        prec = precisions_of_blocks(0.5 * (W + transpose(W)))
        padding = jnp.zeros((len(prec) - slope.shape[-1], len(slope)), slope.dtype)
        by_mean = jnp.concatenate([slope.T, padding])
        return Sites((by_mean + prec * along((cav.mean + apply(gain, shift)).T)) / a, prec / a)

    def assess(
        self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, with_slopes: bool
    ) -> tuple[Values, Values] | None:
        """T(λ) at power 1; its derivatives in the cavity, with ℓ₁, ℓ₂, ℓ₃ those of ℓ and D = 1 + ℓ₂v:

        ∂prec/∂m = −ℓ₃/D²,    ∂prec/∂v = (ℓ₂² − ∂ℓ₂/∂v)/D²
        ∂nat1 = (1 + prec·v) ∂ℓ₁ + ∂prec·(m + vℓ₁) + prec·(∂m + ℓ₁∂v)
        """
        if likelihood.latents > 1:  # for classes elementwise on NumPy arrays as well
            return (
                None
                if with_slopes or likelihood.functions
                else (tuple(self.propose(likelihood, data, q, sites).masked(data.mask)), ())
            )
        left = cavity_on_host(q.mean, q.var, sites) if self.power == 1 else None
        found = None if left is None else likelihood.log_expected_prob_slopes(data.y, left.mean, left.var + q.resid)
        if left is None or found is None:
            return None
        _, first, second, third, first_by_var, second_by_var = found[:6]
        shrink = np.maximum(1 + left.var * second, _MIN_SHRINK)
        prec = np.maximum(-second / shrink, self.min_prec)
        tilted_mean = left.mean + left.var * first
        rows: Values = (first + prec * tilted_mean, prec)
        if with_slopes:
            free = -second / shrink > self.min_prec
            prec_by_mean = np.where(free, -third / shrink**2, 0.0)
            prec_by_var = np.where(free, (second**2 - second_by_var) / shrink**2, 0.0)
            growth = 1 + prec * left.var
            nat1_by_mean = growth * second + prec_by_mean * tilted_mean + prec
            nat1_by_var = growth * first_by_var + prec_by_var * tilted_mean + prec * first
            by_nat1 = left.pull(q, sites, nat1_by_mean, nat1_by_var)
            by_prec = left.pull(q, sites, prec_by_mean, prec_by_var)
            rows += tuple(part for pair in zip(by_nat1, by_prec, strict=True) for part in pair)
        return tuple(np.where(data.mask, row, 0.0) for row in rows), ()
