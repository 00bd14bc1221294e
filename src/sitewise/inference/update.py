"""What an inference method defines, and what the loop returns.

Inference solves λ = T(λ) for the sites λ.  A method is its update T, `propose`, elementwise in the marginals and the
present sites, and, if it maximises something over λ, that number, `merit`.  `loop` runs the iteration, `linearise`
computes the derivatives of T.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from sitewise.arrays.engine import Array
from sitewise.arrays.spread import whole
from sitewise.checks import at_least
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.priors import Covariance, Marginals
from sitewise.rows import Values
from sitewise.sites import Sites
from sitewise.types import Outcome, precedes

_DAMPED = 0.2  # damping of the first fallback


class Point(NamedTuple):
    """Sites and what follows from them.

    Attributes
    ----------
    sites : Sites
        The sites λ.
    q : Marginals
        Prior × sites at the training rows.
    target : Sites
        T(λ), the sites that the undamped update would set.
    merit : float
        The number that the method maximises; for a method without one, minus the norm of the residual.
    residual : float
        The largest change by the undamped update, in units of the marginal: |Δnat1|·√v and |Δprec|·v.
    """

    sites: Sites
    q: Marginals
    target: Sites
    merit: Array
    residual: Array


class Stats(NamedTuple):
    """Statistics of an iteration.

    Attributes
    ----------
    steps : int
        Conditionings of the prior on sites.
    residual : float
        The residual of the last point.
    clipped : int
        Sites whose precision is at its limit.
    jitter : float
        The share of the diagonal that the last factorisation needed, usually 0.
    """

    steps: Array
    residual: Array
    clipped: Array
    jitter: Array


class Solution(NamedTuple):
    """The result of an inference: sites, outcome and statistics.

    Attributes
    ----------
    sites : Sites
        The sites at the end.
    code : int
        The number of the outcome; `outcome` is the `Outcome`.
    stats : Stats
        Steps, residual, clipped sites and jitter.
    """

    sites: Sites
    code: Array
    stats: Stats

    def __repr__(self) -> str:
        # Under a trace, mapped over models, or rebuilt with placeholders there is no one outcome.
        if isinstance(self.code, jax.core.Tracer) or not hasattr(self.code, "ndim") or self.code.ndim:
            return f"Solution(sites of shape {np.shape(self.sites.nat1)})"
        return (
            f"Solution({self.outcome.name.lower()}, residual {float(self.stats.residual):.1e} after "
            f"{int(self.stats.steps)} steps; sites of shape {np.shape(self.sites.nat1)})"
        )

    @property
    def outcome(self) -> Outcome:
        return Outcome(int(self.code))

    def cut(self, rows: int) -> Solution:
        """The same for the first `rows` rows, where the others are padding; arrays are converted to NumPy arrays."""
        return whole(self._replace(sites=Sites(*(a[..., :rows] for a in self.sites))))


@dataclasses.dataclass(frozen=True)
class SiteUpdate:
    """Settings shared by all inference methods, and the update that each of them defines.

    Parameters
    ----------
    tol : float, default=None
        The iteration has converged when the undamped update changes no site by more than this, in units of the
        marginal: |Δnat1|·√v and |Δprec|·v.  None means 1e-8 in float64 and 1e-3 in float32.
    max_steps : int, default=200
        The largest number of conditionings of the prior.
    min_prec : float, default=0.0
        Site precisions are kept at or above this.
    damping : float, default=1.0
        1: Newton steps, each of which is tested and shortened where needed.  Less: this share of every plain update
        without a test; this is slow, but sometimes converges where the tested steps stall.
    """

    tol: float | None = None
    max_steps: int = 200
    min_prec: float = 0.0
    damping: float = dataclasses.field(default=1.0, kw_only=True)

    name: ClassVar[str] = ""  # in reports; the name of the class unless a class sets it
    # `propose` and `merit` use the mean of q only, and `propose` is itself a Newton step (Laplace).
    mean_only: ClassVar[bool] = False
    # `propose` uses the present sites besides the marginals (EP's cavities).
    uses_sites: ClassVar[bool] = False

    def __post_init__(self) -> None:
        at_least("max_steps", self.max_steps, 1)
        if self.tol is not None and not self.tol > 0:
            raise ValueError(f"tol must be a positive number or None, got {self.tol!r}.")
        if not 0 < self.damping <= 1:
            raise ValueError(f"damping must lie in (0, 1], got {self.damping!r}; 1 is a whole step.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()
        if any(precedes(cls, name, "assess") for name in ("propose", "merit")):
            cls.assess = SiteUpdate.assess  # type: ignore[method-assign] # the inherited one is of another update

    def propose(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Sites:
        """Return T(λ), the sites that this method sets, given the marginals of the present sites.

        It is elementwise and must not use data.X, which may be empty here.
        """
        raise NotImplementedError(f"{type(self).__name__} must define propose(likelihood, data, q, sites).")

    def merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Array:
        """Return the number that the method maximises over λ: a sum over rows, in which q.log_z may count once.

        A method that maximises nothing leaves this undefined.
        """
        raise NotImplementedError(
            f"{type(self).__name__} maximises nothing; use `propose` alone where `has_merit` is false."
        )

    @property
    def has_merit(self) -> bool:
        return type(self).merit is not SiteUpdate.merit

    def propose_with_merit(self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> tuple[Sites, Array]:
        """Return `propose` and `merit` together; override it if the two share work."""
        return self.propose(likelihood, data, q, sites), self.merit(likelihood, data, q, sites)

    def assess(
        self, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites, with_slopes: bool
    ) -> tuple[Values, Values] | None:
        """Return what `loop` needs of the rows, on NumPy arrays and for whole weights; None: by a compiled program.

        The first tuple is T(λ), and with slopes the derivatives listed by `linearise.listed`; the second is the merit,
        empty for a method without one.
        """
        return None

    def unit(self, q: Marginals) -> Array:
        """Return the variance, per row, of the variable on which the site acts: residuals are in its units."""
        return q.var

    def change_of_var(self, cov: Covariance, x: Array, weight: Array) -> Array:
        """Return minus the change of the variances that `propose` uses, for a change x of the weighted precisions."""
        return cov.squared_times(x)

    def least_prec(self, likelihood: Likelihood) -> float:
        """Return the lower limit of site precisions.

        With two latent functions per row the precisions are coordinates of a block that may be indefinite: no limit.
        """
        return -math.inf if likelihood.functions else self.min_prec

    def stepping(self, likelihood: Likelihood) -> Self:
        """Return the update used for the steps, if it differs from the update whose fixed point is wanted.

        The two must have the same posterior mean at their fixed points.
        """
        return self

    def approach(self, other: SiteUpdate) -> tuple[Self, ...]:
        """Return the methods to solve first, one after the other, starting from the sites of another method."""
        return ()

    def fallbacks(self) -> tuple[Self, ...]:
        """The methods to try, one after the other, where this method does not converge."""
        return (dataclasses.replace(self, damping=_DAMPED, max_steps=2 * self.max_steps),)

    def update(self) -> Self:
        """The method without its tolerance and cap, on which `propose` and `merit` must not depend.

        Methods that differ in those only share compiled programs.
        """
        return _update(self)

    def tolerance(self, dtype: DTypeLike) -> float:
        """Return `tol`, or the default of this precision."""
        if self.tol is not None:
            return self.tol
        return 1e-8 if dtype == jnp.float64 else 1e-3


_Method = TypeVar("_Method", bound=SiteUpdate)


@functools.lru_cache(maxsize=64)
def _update(method: _Method) -> _Method:
    return dataclasses.replace(method, tol=None, max_steps=1)
