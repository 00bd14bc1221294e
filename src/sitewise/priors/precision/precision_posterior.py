"""The posterior of sums of parts at new rows: f = μ + A x + e, with x ~ N(m, Σ) and the residuals e of new rows.

A weighted sum over rows, parts and functions is a vector of loads a, with the mean aᵀm and the variance aᵀΣa.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from sitewise import means
from sitewise.arrays.engine import Array
from sitewise.kernels import Kernel, Sum
from sitewise.numerics.dense.cholesky import covariance_root
from sitewise.numerics.sparse.forms import quadratic_forms
from sitewise.parts.chains import Series
from sitewise.priors.full import FullPrior
from sitewise.priors.kernel_sums import mean_sums, not_negative
from sitewise.priors.posterior import Expansion, LatentPosterior
from sitewise.priors.precision.assembly import Assembly, parts_of
from sitewise.priors.precision.precision_gram import Solved
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace, static

MAX_EXPORTED_VARIABLES = 3000  # and rows of series: an export holds a matrix of their posterior covariances


class Held:
    """The factor of a posterior, and the layouts of the parts of one function; no arrays of a tree.

    given  training rows and sites
    """

    def __init__(self, assembly: Assembly, solved: Solved, given: tuple[np.ndarray, Sites], function: int = 0) -> None:
        places = np.flatnonzero(assembly.of == function)
        self.assembly, self.solved, self.given = assembly, solved, given
        self.layouts = [assembly.layouts[k] for k in places]
        self.offsets = assembly.offsets[places]
        self.own = [assembly.own[k] for k in places]


@module
class PrecisionPosterior(LatentPosterior):
    """q(f) of one function at new rows: mean μ + A m, covariance A Σ Aᵀ + cov(e).  `chosen` are numbers of parts."""

    sum: Kernel = fixed()
    mean: means.Mean = fixed()
    held: Held = static()
    chosen: tuple[int, ...] = static()

    block_rows: ClassVar[int] = 32768  # each call passes through the whole elimination tree

    @staticmethod
    def of(kernel: Any, mean: means.Mean, held: Held) -> PrecisionPosterior:
        """Return the posterior of the sum of all parts of a function."""
        return PrecisionPosterior(kernel, mean, held, tuple(range(len(held.layouts))))

    @property
    def kernel(self) -> Kernel:
        return self.sum

    @property
    def parts(self) -> tuple[Any, ...]:
        """All parts of the function."""
        return parts_of(self.sum)

    def part(self, chosen: tuple[int, ...], mean: means.Mean) -> PrecisionPosterior:
        return replace(self, chosen=tuple(chosen), mean=mean)

    def loads(self, X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return variables and weights of new rows, and the residual variance per row."""
        held, parts = self.held, self.parts
        index, weight = [np.empty((len(X_new), 0), np.int64)], [np.empty((len(X_new), 0))]
        residual = np.zeros(len(X_new))
        for k in self.chosen:
            found = held.layouts[k].loads(parts[k], parts[k].active_columns(X_new))
            index.append(found.variable + held.offsets[k])
            weight.append(found.weight)
            residual += found.residual
        return np.concatenate(index, axis=1), np.concatenate(weight, axis=1), residual

    def columns(self, X_new: np.ndarray) -> np.ndarray:
        """Return the loads of new rows as dense columns, (variables and multipliers, rows)."""
        index, weight, _ = self.loads(X_new)
        out = np.zeros((self.held.assembly.analysis.size, len(index)))
        np.add.at(out, (index, np.arange(len(index))[:, None]), weight)
        return out

    def residuals(self, X_new: np.ndarray) -> np.ndarray:
        """Return the covariance matrix of e."""
        out = np.zeros((len(X_new), len(X_new)))
        for k in self.chosen:
            out += self.held.layouts[k].residuals(self.parts[k], self.parts[k].active_columns(X_new))
        return out

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        X_new, solved = np.asarray(X_new), self.held.solved
        index, weight, residual = self.loads(X_new)
        mean = self.mean.at(X_new) + np.sum(weight * solved.m[index], axis=1)
        return mean, quadratic_forms(solved.factor, index, weight) + residual

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        mean, cov = joint_of([self], np.asarray(X_new))
        return mean[0], cov[0, :, 0]

    def parts_joint(self, X_new: Array, parts: Sequence[tuple[int, ...]]) -> tuple[Array, Array]:
        return joint_of([self.part(chosen, means.Zero()) for chosen in parts], np.asarray(X_new))

    def expansion(self) -> Expansion:
        """Return f = μ + aᵀu + g with the variables u of all parts but series, and g the sum of the series.

        Given the sites (w, n) and u, g is a Gaussian process with R = (K_g + W⁻¹)⁻¹.  With a root of the posterior
        covariances of u, uu = Qᵀ Q, and the loads A of the rows, its covariances with u are −Qᵀ Q AᵀR k:

            α = (m_u, n − w f),     Q (I, −AᵀR),     R = PᵀSP
        """
        (X, sites), solved = self.held.given, self.held.solved
        each = list(zip(self.parts, self.held.layouts, self.held.offsets, strict=True))
        series = tuple(part for part, _, _ in each if isinstance(part, Series))
        others = [(part, layout, offset) for part, layout, offset in each if not isinstance(part, Series)]
        own = [offset + np.arange(layout.size) for _, layout, offset in others]
        u = np.concatenate([np.empty(0, np.int64), *own])
        size = len(u) + len(X) * bool(series)
        if size > MAX_EXPORTED_VARIABLES:
            raise ValueError(
                f"export holds sums of parts of at most {MAX_EXPORTED_VARIABLES} variables, and there are {size}; use "
                "model.save."
            )
        unit = np.zeros((self.held.assembly.analysis.size, len(u)))
        unit[u, np.arange(len(u))] = 1.0
        cov = solved.factor.solve(unit)[u]
        root, pairs = covariance_root(0.5 * (cov + cov.T)).T, tuple((part, layout) for part, layout, _ in others)
        if not series:
            none = np.empty((0, 0))
            return Expansion((), self.mean, none, solved.m[None, u], none[None], np.empty(0), root[None], pairs)
        kernel = Sum(series)
        g = FullPrior(kernel).posterior(X, sites).expansion()
        alpha = np.concatenate([solved.m[u], sites.nat1 - sites.prec * self.marginals(X)[0]])
        A = self.columns(X)[u]
        cross = -((A @ g.P[0].T) * g.sign) @ g.P[0]
        Q = root @ np.concatenate([np.eye(len(u)), cross], axis=1)
        return Expansion((kernel,), self.mean, X, alpha[None], g.P, g.sign, Q[None], pairs)

    def effective_parameters(self, X: np.ndarray, prec: np.ndarray, parts: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Return tr(Σ AᵀWA) over the variables of each set: their number minus their constraints and tr(Σ Q)."""
        held, inverse = self.held, self.held.solved.inverse
        assert inverse is not None

        def used(k: int) -> float:
            layout, own = held.layouts[k], held.own[k]
            entries = layout.precision(self.parts[k])[0]
            return layout.size - len(layout.sums) - float(np.sum(held.assembly.twice[own] * entries * inverse[own]))

        return np.array([sum(used(k) for k in chosen) for chosen in parts])

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return sums_of([self], X, weight)


def joint_of(each: Sequence[PrecisionPosterior], X_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means (P, n) and covariances (P, n, P, n) of several functions or sets of parts of one posterior."""
    solved, count, rows = each[0].held.solved, len(each), len(X_new)
    a = np.concatenate([one.columns(X_new) for one in each], axis=1)
    cov = a.T @ solved.factor.solve(a)
    cov = (0.5 * (cov + cov.T)).reshape(count, rows, count, rows)
    for p, one in enumerate(each):
        cov[p, :, p] += one.residuals(X_new)
    return (a.T @ solved.m).reshape(count, rows) + np.stack([one.mean.at(X_new) for one in each]), cov


def sums_of(each: Sequence[PrecisionPosterior], X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments of weighted sums over functions and rows (`LatentPosterior.sums`).

    A sum is a vector of loads, Σ_l A_lᵀw_l, with the residual variance Σ_l w_lᵀ cov(e_l) w_l.
    """
    solved = each[0].held.solved
    mean = np.sum([mean_sums(one.mean, X, weight[:, k]) for k, one in enumerate(each)], axis=0)
    var = np.empty(mean.shape)
    for g, rows in enumerate(X):
        w = weight[:, :, g]
        a = np.sum([one.columns(rows) @ w[:, k].T for k, one in enumerate(each)], axis=0)
        rest = np.sum([np.sum((w[:, k] @ one.residuals(rows)) * w[:, k], axis=1) for k, one in enumerate(each)], axis=0)
        mean[:, g] += a.T @ solved.m
        var[:, g] = np.sum(a * solved.factor.solve(a), axis=0) + rest
    return mean, not_negative(var)
