"""The posterior process q(f) at new inputs, as every prior structure gives it: the last part of the contract of priors.

A structure has to define `marginals` and `joint`.  The other methods have correct defaults, which use these two, and
may be replaced by faster ones.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from sitewise import means
from sitewise.arrays.engine import Array, namespace, put
from sitewise.kernels import Kernel, terms
from sitewise.kernels.terms import together
from sitewise.numerics.dense.cholesky import semidefinite_root
from sitewise.priors.kernel_sums import not_negative
from sitewise.sites import Sites
from sitewise.types import fixed, module


class Tail(abc.ABC):
    """The last rows of a posterior together with new rows, as a problem of their own, given all rows before.

    gram  of these rows; the rows before are part of it
    """

    if TYPE_CHECKING:

        @property
        def gram(self) -> Any: ...

    @abc.abstractmethod
    def moved(self, factor: Any) -> float:
        """By how many standard deviations the rows before move at most, given the factor of `gram` at some sites."""

    @abc.abstractmethod
    def joined(self, sites: Sites, factor: Any) -> LatentPosterior:
        """The posterior of all rows, where these rows have the sites, and `gram` the factor at them."""


class LatentPosterior(abc.ABC):
    """q(f) as a process."""

    @abc.abstractmethod
    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Mean and variance of f at each new row."""

    @abc.abstractmethod
    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Mean and covariance matrix of f at the new rows."""

    def draw(self, key: Array, X_new: Array, samples: int) -> Array:
        """Joint draws of f at the new rows, one per row of the result."""
        mean, cov = self.joint(X_new)
        return gaussian_draws(key, mean, cov, samples)

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the weighted sums S_sg = Σ_c Σ_r w_scgr f_c(x_gr), both of the shape (S, G).

        `X` is (G, R, columns): the R rows of each sum.  `weight` is (S, C, G, R): S sets of sums, C latent functions.
        Arrays are NumPy's.  The default computes the covariance matrix of the rows of one sum after the other.
        """
        mean, var = (np.empty((len(weight), len(X))) for _ in range(2))
        for g, rows in enumerate(X):
            own_mean, cov = (np.asarray(a) for a in self.joint(rows))
            w = weight[:, :, g].reshape(len(weight), -1)
            mean[:, g], var[:, g] = w @ own_mean, np.sum((w @ cov) * w, axis=1)
        return mean, not_negative(var)

    def uncorrelated(self) -> bool:
        """Whether the prior correlates no row with another, up to rounding, so that nothing can be learned.

        False where a structure does not examine this.
        """
        return False

    def appends(self, X: np.ndarray) -> bool:
        """Whether these rows can be added by `tail`, at a cost that does not depend on the rows before.

        False where inference has to run on all rows again.
        """
        return False

    def tail(self, cut: int, X: np.ndarray) -> Tail:
        """The training rows from number `cut` on and the new rows X, given the rows before `cut`; if `appends(X)`.

        Training rows and new rows are in the order of `Prior.order`.
        """
        raise ValueError(f"{type(self).__name__} cannot be continued; run inference on all rows.")

    @property
    def kernel(self) -> Kernel:
        """The kernel of f, for its terms."""
        raise ValueError(f"{type(self).__name__} does not say of which parts f is the sum; use Model.full.")

    def through(self, kernel: Kernel, mean: means.Mean) -> LatentPosterior:
        """Another process given the same sites: its covariances with f at the training rows are `kernel.cross`."""
        raise ValueError(f"{type(self).__name__} has no posterior of another process than f; use Model.full.")

    def part(self, chosen: tuple[int, ...], mean: means.Mean) -> LatentPosterior:
        """Σ_p f_p over the chosen `kernels.terms`, with a mean of its own, given the same sites:

        mean(x) + κ_p(x, X) α,   κ_p(x, x') − κ_p(x, X) R κ_p(X, x')     where f has μ + κ(x, X) α and κ − κ R κ
        """
        each = terms(self.kernel)
        return self.through(together([each[i] for i in chosen]), mean)

    def explained(self, X_new: Array) -> tuple[Array, Array, Array]:
        """The mean, and arrays U, V so that the sites lower the covariances by UᵀV; those with another part by UᵀV too,
        with the V of that part."""
        raise ValueError(f"{type(self).__name__} has no covariances between parts; use Model.full.")

    def parts_joint(self, X_new: Array, parts: Sequence[tuple[int, ...]]) -> tuple[Array, Array]:
        """Means (P, n) and covariances (P, n, P, n) of disjoint sets of terms, without the prior mean."""
        views = [self.part(chosen, means.Zero()) for chosen in parts]
        found = [view.explained(X_new) for view in views]
        xp = namespace(found[0][0])
        U, V = (xp.concatenate([one[i] for one in found], axis=1) for i in (1, 2))
        count, size = len(views), len(found[0][0])
        cov = -(U.T @ V).reshape(count, size, count, size)
        for p, view in enumerate(views):
            cov = put(cov, (p, slice(None), p), view.joint(X_new)[1])
        return xp.stack([one[0] for one in found]), cov


def gaussian_draws(key: Array, mean: Array, cov: Array, samples: int) -> Array:
    """Draws of a normal vector, one per row of the result."""
    return mean + jax.random.normal(key, (samples, mean.shape[0]), mean.dtype) @ semidefinite_root(cov).T


@module
class Certain(LatentPosterior):
    """A function that is known: the mean function, as a part of f."""

    mean: means.Mean = fixed()

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        mean = self.mean.at(X_new)
        return mean, 0.0 * mean

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        mean = self.mean.at(X_new)
        return mean, namespace(mean).zeros((len(mean), len(mean)))
