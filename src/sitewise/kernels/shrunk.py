"""Kernel with one lengthscale per column (ARD), shrunk towards a common lengthscale."""

from __future__ import annotations

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import must_be, one_number
from sitewise.hyperpriors import Normal
from sitewise.kernels.base import Kernel, Pull
from sitewise.kernels.stationary import Stationary
from sitewise.types import ArrayField, fixed, module, positive, real, replace


@module
class Shrunk(Kernel):
    """ARD kernel: the stationary kernel `base` with the lengthscales ℓ_j = ℓ s_j exp(τ z_j), z_j ~ N(0, 1).

    ℓ is the lengthscale of `base`, z are the `deviations`, τ is the `spread`, and s are the `units` of the columns,
    which are held fixed.  At τ = 0 the kernel is isotropic in these units.  As τ grows, the lengthscales of the columns
    become free.  The deviations have a standard normal prior by default: a lengthscale moves away from the common
    lengthscale only where the data support it.

    The spread is held fixed unless it is trained by name.  It cannot be estimated by maximising over spread and
    deviations together: a larger spread gives the same kernel with smaller deviations, whose prior density is higher.
    Compare spreads by the evidence with the deviations integrated out (`learning.integration`).

    Parameters
    ----------
    base : Stationary
        The kernel with the common lengthscale ℓ.
    deviations : float or array of shape (n_columns,), default=0.0
        z; learned.
    spread : float, default=0.25
        τ; held fixed unless trained by name.
    units : float or array of shape (n_columns,), default=1.0
        s, usually the standard deviations of the columns; held fixed.
    """

    base: Stationary = fixed()
    deviations: ArrayField = real(default=0.0, prior=Normal(0.0, 1.0))
    spread: ArrayField = positive(default=0.25, train=False)
    units: ArrayField = fixed(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        must_be(self.base, Stationary, "The base of Shrunk", "Matern52(), a stationary kernel of sitewise.kernels")
        one_number(self, "spread")
        seen = self.seen(columns)
        self.base.check(seen)
        if np.ndim(self.base.lengthscale):
            raise ValueError("Shrunk: the base must have one lengthscale, which all columns share; got several.")
        if np.shape(self.deviations) != (seen,) or np.shape(self.units) not in ((), (seen,)):
            raise ValueError(
                f"Shrunk: deviations must have one entry for each of the {seen} columns, and units one number or one "
                f"per column; got the shapes {np.shape(self.deviations)} and {np.shape(self.units)}."
            )

    @property
    def lengthscale(self) -> Array:
        """The lengthscale ℓ_j of every column."""
        xp = namespace(self.deviations, self.base.lengthscale)
        return self.base.lengthscale * self.units * xp.exp(self.spread * self.deviations)

    @property
    def variance(self) -> Array:
        return self.base.variance

    def _plain(self) -> Stationary:
        """Return the base kernel with the lengthscales of all columns."""
        return replace(self.base, lengthscale=self.lengthscale)

    def pairs(self, A: Array, B: Array) -> Array:
        return self._plain().pairs(A, B)

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        plain = self._plain()
        matrix, pull_plain = plain.pairs_with_pull(A, B)

        def pull(bar: np.ndarray) -> Shrunk:
            by_plain = pull_plain(bar)
            by_log = by_plain.lengthscale * plain.lengthscale  # derivatives in log ℓ_j = log ℓ + log s_j + τ z_j
            return replace(
                self,
                base=replace(by_plain, lengthscale=np.sum(by_log) / self.base.lengthscale),
                deviations=self.spread * by_log,
                spread=np.sum(self.deviations * by_log),
                units=by_log / self.units if np.ndim(self.units) else np.sum(by_log) / self.units,
            )

        return matrix, pull

    def pairs_pull_rows(self, A: np.ndarray, B: np.ndarray, bar: np.ndarray) -> np.ndarray:
        return self._plain().pairs_pull_rows(A, B, bar)

    def diag(self, A: Array) -> Array:
        return self.base.diag(A)
