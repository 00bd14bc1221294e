"""The prior of a latent function that is a sum of parts, each with a sparse precision (latent Gaussian model).

f(x) = μ(x) + Σ_p f_p(x): maps, groups, areas, trends, regressors (`sitewise.parts`).  Time and memory depend on the
fill of a sparse Cholesky factor instead of n³ and n².  The structure computes on NumPy arrays.  A traced program uses
the full GP with the same covariance function, which is the same prior unless a map has fewer neighbours than places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from sitewise import means
from sitewise.arrays.engine import Array, is_host
from sitewise.kernels import Kernel, Sum
from sitewise.kernels.units import Units
from sitewise.numerics.sparse.forms import quadratic_forms
from sitewise.parts.base import Part
from sitewise.priors.base import Prior, one_latent
from sitewise.priors.full import FullPrior
from sitewise.priors.kernel_sums import mean_sums, not_negative
from sitewise.priors.posterior import LatentPosterior
from sitewise.priors.precision.assembly import assembly_of
from sitewise.priors.precision.precision_gram import DenseGram, PrecisionGram, Solved
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace, static


@module
class PrecisionPrior(Prior):
    """A sum of parts; `kernel` is the `Sum` of them."""

    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())

    structure: ClassVar[str] = "precision"
    about: ClassVar[str] = "The latent function is a sum of parts, computed by a sparse precision matrix."
    staged: ClassVar[bool] = True
    host: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.kernel.parts if isinstance(self.kernel, Sum) else (self.kernel,)

    @property
    def predicts_sites(self) -> bool:
        """Whether variances of new rows are cheap compared with conditioning: not of crossed groups."""
        return any(part.local for part in self.parts)

    def check(self, columns: int, latents: int) -> None:
        if isinstance(self.kernel, Sum) and self.kernel.active_dims is not None:
            raise ValueError("The sum of parts takes no active_dims; give columns to the parts.")
        for part in self.parts:
            if not isinstance(part, Part):
                raise ValueError(
                    f"Model.latent takes parts such as Map((0, 1)) of sitewise.parts, got {type(part).__name__}."
                )
        one_latent(self, latents)
        super().check(columns, latents)

    def input_units(self, ranges: np.ndarray) -> Units:
        found: Units = {}
        for k, part in enumerate(self.parts):
            found |= part.units(part._active(ranges[None])[0], f"kernel.parts.{k}")
        return found

    def as_full(self, rows: float = np.inf) -> Prior:
        """Return the full GP; this prior if a map has fewer neighbours than other rows."""
        return self if not all(part.exact_for(rows) for part in self.parts) else self._dense()

    def _dense(self) -> FullPrior:
        return FullPrior(self.kernel, self.mean)

    def _traced(self, X: Array) -> FullPrior:
        """Return the full GP for a traced program; ValueError if it would be another prior."""
        if not all(part.exact_for(X.shape[0]) for part in self.parts):
            raise ValueError(
                "A map with fewer neighbours than places is computed on the CPU and outside of jax.jit, grad and vmap; "
                "call it there, or raise neighbours to the number of rows."
            )
        return self._dense()

    def gram(self, X: Array) -> Any:
        if not is_host(X, *jax.tree.leaves(self)):
            full = self._traced(X).gram(X)
            return DenseGram(full.K, full.mean)
        return self.gram_with_pull(X)[0]

    def gram_with_pull(self, X: Array) -> tuple[Any, Callable[[Any], PrecisionPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return super().gram_with_pull(X)
        at, parts = assembly_of(self.parts, X), self.parts
        found = [layout.precision(part) for layout, part in zip(at.layouts, parts, strict=True)]
        log_det = np.asarray(sum(each for _, each in found))
        prior_var = np.asarray(self.kernel.variances(X))
        gram = PrecisionGram(at, at.prior_entries([values for values, _ in found]), log_det, self.mean.at(X), prior_var)

        def pull_entries(bar: PrecisionGram) -> PrecisionPrior:
            each = zip(at.layouts, parts, at.own, strict=True)
            bars = tuple(layout.pull(part, bar.entries[own], float(bar.log_det)) for layout, part, own in each)
            kernel: Any = self.kernel
            return replace(self, kernel=replace(kernel, parts=bars), mean=self.mean.pull(X, bar.mean))

        return gram, pull_entries

    def posterior(self, X: Array, sites: Sites) -> LatentPosterior:
        if not is_host(X, *sites, *jax.tree.leaves(self)):
            return self._traced(X).posterior(X, sites)
        gram = self.gram(X)
        return self.posterior_from(gram, gram.condition_with_factor(sites, None)[1], X, sites)

    def posterior_from(self, gram: Any, factor: Any, X: Array, sites: Sites) -> LatentPosterior:
        return PrecisionPosterior(self, self.mean, Held(gram, factor), tuple(range(len(self.parts))))


class Held:
    """The assembly and the factor of a posterior, which are no arrays of a tree."""

    def __init__(self, gram: PrecisionGram, solved: Solved) -> None:
        self.assembly, self.solved = gram.assembly, solved


@module
class PrecisionPosterior(LatentPosterior):
    """q(f) at new rows, f = μ + A x + e: mean μ + A m, covariance A Σ Aᵀ + cov(e).  `chosen` are numbers of parts."""

    prior: PrecisionPrior = fixed()
    mean: means.Mean = fixed()
    held: Held = static()
    chosen: tuple[int, ...] = static()

    block_rows: ClassVar[int] = 32768  # each call passes through the whole elimination tree

    @property
    def kernel(self) -> Kernel:
        return self.prior.kernel

    def part(self, chosen: tuple[int, ...], mean: means.Mean) -> PrecisionPosterior:
        return replace(self, chosen=tuple(chosen), mean=mean)

    def _loads(self, X_new: np.ndarray, chosen: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return variables and weights of new rows, and the residual variance per row."""
        at, parts = self.held.assembly, self.prior.parts
        index, weight = [np.empty((len(X_new), 0), np.int64)], [np.empty((len(X_new), 0))]
        residual = np.zeros(len(X_new))
        for k in chosen:
            found = at.layouts[k].loads(parts[k], parts[k]._active(X_new))
            index.append(found.variable + at.offsets[k])
            weight.append(found.weight)
            residual += found.residual
        return np.concatenate(index, axis=1), np.concatenate(weight, axis=1), residual

    def _columns(self, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the loads as dense columns, (variables and multipliers, rows)."""
        out = np.zeros((self.held.assembly.analysis.size, len(index)))
        np.add.at(out, (index, np.arange(len(index))[:, None]), weight)
        return out

    def _residuals(self, X_new: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
        at, parts = self.held.assembly, self.prior.parts
        out = np.zeros((len(X_new), len(X_new)))
        for k in chosen:
            out += at.layouts[k].residuals(parts[k], parts[k]._active(X_new))
        return out

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        X_new, solved = np.asarray(X_new), self.held.solved
        index, weight, residual = self._loads(X_new, self.chosen)
        mean = self.mean.at(X_new) + np.sum(weight * solved.m[index], axis=1)
        return mean, quadratic_forms(solved.factor, index, weight) + residual

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        X_new = np.asarray(X_new)
        mean, cov = self._joint(X_new, [self.chosen])
        return self.mean.at(X_new) + mean[0], cov[0, :, 0]

    def parts_joint(self, X_new: Array, parts: Sequence[tuple[int, ...]]) -> tuple[Array, Array]:
        return self._joint(np.asarray(X_new), parts)

    def _joint(self, X_new: np.ndarray, sets: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
        """Return means and covariances of the sums over sets of parts, without the prior mean."""
        solved, count, rows = self.held.solved, len(sets), len(X_new)
        columns = [self._columns(*self._loads(X_new, chosen)[:2]) for chosen in sets]
        a = np.concatenate(columns, axis=1)
        cov = a.T @ solved.factor.solve(a)
        cov = (0.5 * (cov + cov.T)).reshape(count, rows, count, rows)
        for p, chosen in enumerate(sets):
            cov[p, :, p] += self._residuals(X_new, chosen)
        return (a.T @ solved.m).reshape(count, rows), cov

    def effective_parameters(self, X: np.ndarray, prec: np.ndarray, parts: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Return tr(Σ AᵀWA) over the variables of each set: their number minus their constraints and tr(Σ Q)."""
        at, inverse = self.held.assembly, self.held.solved.inverse
        assert inverse is not None

        def used(k: int) -> float:
            layout, own = at.layouts[k], at.own[k]
            entries = layout.precision(self.prior.parts[k])[0]
            return layout.size - len(layout.sums) - float(np.sum(at.twice[own] * entries * inverse[own]))

        return np.array([sum(used(k) for k in chosen) for chosen in parts])

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of weighted sums: each is a vector of loads wᵀA, with the residual variance wᵀcov(e)w."""
        weight, solved = weight[:, 0], self.held.solved
        mean, var = mean_sums(self.mean, X, weight), np.empty(weight.shape[:2])
        for g, rows in enumerate(X):
            index, loads, _ = self._loads(rows, self.chosen)
            a = self._columns(index, loads) @ weight[:, g].T
            rest = np.sum((weight[:, g] @ self._residuals(rows, self.chosen)) * weight[:, g], axis=1)
            mean[:, g] += a.T @ solved.m
            var[:, g] = np.sum(a * solved.factor.solve(a), axis=0) + rest
        return mean, not_negative(var)
