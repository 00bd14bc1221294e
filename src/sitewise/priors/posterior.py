"""The posterior process q(f) at new inputs: the last part of the contract of priors.

A structure has to define `marginals` and `joint`.  The other methods have correct defaults that use these two, and may
be replaced by faster ones.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

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

PARAMETER_ROWS = 200  # rows whose covariances are in memory at a time


class Tail(abc.ABC):
    """The last rows of a posterior together with new rows, as a separate problem given all earlier rows.

    gram  the Gram of these rows, which includes the information of the earlier rows
    """

    if TYPE_CHECKING:

        @property
        def gram(self) -> Any: ...

    @abc.abstractmethod
    def moved(self, factor: Any) -> float:
        """Return the largest change at an earlier row, in standard deviations, given the factor of `gram`."""

    @abc.abstractmethod
    def joined(self, sites: Sites, factor: Any) -> LatentPosterior:
        """Return the posterior of all rows, given the sites of these rows and the factor of `gram` at the sites."""


class Expansion(NamedTuple):
    """q(f) as sums over points Z, so that NumPy alone can predict.  With k_c = κ_c(Z, x), for latent functions c and e

        E f_c(x) = μ(x) + α_cᵀ k_c
        cov(f_c(x), f_e(x)) = [c = e] (κ_c(x, x) − Σ_i sign_i (P_c k_c)_i²) + (Q_c k_c)ᵀ Q_e k_e

    `kernels` and `P` have one entry per function, or one for all.  For a sum of parts, `parts` has parts with their
    layouts, and k are the loads of x on their variables, followed by the covariances κ(Z, x) of the other parts if
    there are kernels.  The residual variance of the parts is added to the variance, and P belongs to the points Z.
    """

    kernels: tuple[Kernel, ...]
    mean: means.Mean
    Z: np.ndarray
    alpha: np.ndarray
    P: np.ndarray
    sign: np.ndarray
    Q: np.ndarray
    parts: tuple[tuple[Any, Any], ...] = ()


class LatentPosterior(abc.ABC):
    """The posterior process q(f).

    block_rows   new rows per call of `marginals` that suit time and memory
    """

    block_rows: ClassVar[int] = 2048

    @abc.abstractmethod
    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and variance of f per new row."""

    @abc.abstractmethod
    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and covariance matrix of f at the new rows."""

    def draw(self, key: Array, X_new: Array, samples: int) -> Array:
        """Draw f jointly at the new rows; the result has one row per draw."""
        mean, cov = self.joint(X_new)
        return gaussian_draws(key, mean, cov, samples)

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the weighted sums S_sg = Σ_c Σ_r w_scgr f_c(x_gr), both of shape (S, G).

        `X` is (G, R, columns): R rows per sum.  `weight` is (S, C, G, R): S sets of sums, C latent functions.
        Arrays are NumPy's.  The default computes one covariance matrix per sum.
        """
        mean, var = (np.empty((len(weight), len(X))) for _ in range(2))
        for g, rows in enumerate(X):
            own_mean, cov = (np.asarray(a) for a in self.joint(rows))
            w = weight[:, :, g].reshape(len(weight), -1)
            mean[:, g], var[:, g] = w @ own_mean, np.sum((w @ cov) * w, axis=1)
        return mean, not_negative(var)

    def expansion(self) -> Expansion:
        """Return q(f) as sums over points, for export."""
        raise ValueError(f"{type(self).__name__} is not a sum over points; use model.save.")

    def uncorrelated(self) -> bool:
        """Return whether all rows are uncorrelated a priori, up to rounding, so that nothing can be learned.

        The default, False, means that the structure does not examine this.
        """
        return False

    def appends(self, X: np.ndarray) -> bool:
        """Return whether `tail` can add these rows at a cost that does not depend on the number of earlier rows.

        If not, inference has to run on all rows again.
        """
        return False

    def tail(self, cut: int, X: np.ndarray) -> Tail:
        """Return the training rows from number `cut` on with the new rows X, given earlier rows; needs `appends(X)`.

        Training rows and new rows are in the order of `Prior.order`.
        """
        raise ValueError(f"{type(self).__name__} cannot be continued; run inference on all rows.")

    def function(self, number: int) -> LatentPosterior:
        """Return the posterior of one of two latent functions, which has a kernel and terms of its own."""
        raise ValueError(f"{type(self).__name__} has no posteriors of single functions; use Model.latent.")

    @property
    def kernel(self) -> Kernel:
        """The kernel of f, for its terms."""
        raise ValueError(f"{type(self).__name__} has no kernel whose terms could be separated; use Model.full.")

    def through(self, kernel: Kernel, mean: means.Mean) -> LatentPosterior:
        """Return the posterior of another process, whose covariances with f at the training rows are `kernel.cross`."""
        raise ValueError(f"{type(self).__name__} has no posterior of a process other than f; use Model.full.")

    def part(self, chosen: tuple[int, ...], mean: means.Mean) -> LatentPosterior:
        """Return the posterior of Σ_p f_p over the chosen `kernels.terms`, with its own mean, given the same sites:

        mean(x) + κ_p(x, X) α,   κ_p(x, x') − κ_p(x, X) R κ_p(X, x')     if f has μ + κ(x, X) α and κ − κ R κ
        """
        each = terms(self.kernel)
        return self.through(together([each[i] for i in chosen]), mean)

    def explained(self, X_new: Array) -> tuple[Array, Array, Array]:
        """Return the mean, and arrays U, V: the sites lower the covariances by UᵀV.

        For covariances with another part, V is taken from that part.
        """
        raise ValueError(f"{type(self).__name__} has no covariances between parts; use Model.full.")

    def effective_parameters(self, X: np.ndarray, prec: np.ndarray, parts: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Return Σ_i w_i cov(f_p(x_i), f(x_i)) per set of terms, given the training rows and site precisions w.

        It is the trace of the matrix that takes Gaussian observations to the posterior mean of f_p.
        """
        out = np.zeros(len(parts))
        for at in range(0, len(X), PARAMETER_ROWS):
            rows = slice(at, at + PARAMETER_ROWS)
            cov = np.asarray(self.parts_joint(X[rows], parts)[1])
            out += np.einsum("pnqn,n->p", cov, prec[rows])
        return out

    def parts_joint(self, X_new: Array, parts: Sequence[tuple[int, ...]]) -> tuple[Array, Array]:
        """Return means (P, n) and covariances (P, n, P, n) of disjoint sets of terms, without the prior mean."""
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
    """Draw a normal vector; the result has one row per draw."""
    return mean + jax.random.normal(key, (samples, mean.shape[0]), mean.dtype) @ semidefinite_root(cov).T


@module
class Certain(LatentPosterior):
    """The posterior of a known function: the mean function as a part of f."""

    mean: means.Mean = fixed()

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        mean = self.mean.at(X_new)
        return mean, 0.0 * mean

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        mean = self.mean.at(X_new)
        return mean, namespace(mean).zeros((len(mean), len(mean)))
