"""The prior of a latent function that is a sum of parts, each with a sparse precision (latent Gaussian model).

f(x) = μ(x) + Σ_p f_p(x): maps, groups, areas, trends, regressors (`sitewise.parts`).  Time and memory depend on the
fill of a sparse Cholesky factor instead of n³ and n².  The structure computes on NumPy arrays.  A traced program uses
the full GP with the same covariance function, which is the same prior unless a map has fewer neighbours than places.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from sitewise import means
from sitewise.arrays.engine import Array, is_host
from sitewise.kernels import Kernel, Sum
from sitewise.kernels.units import Units
from sitewise.parts.base import Part
from sitewise.priors.base import Prior, one_latent
from sitewise.priors.full import FullPrior
from sitewise.priors.posterior import LatentPosterior
from sitewise.priors.precision.assembly import assembly_of, parts_of
from sitewise.priors.precision.precision_gram import DenseGram, PrecisionGram
from sitewise.priors.precision.precision_posterior import Held, PrecisionPosterior
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace

NOT_TRACED = (
    "A map with fewer neighbours than places is computed on the CPU and outside of jax.jit, grad and vmap; call it "
    "there, or raise neighbours to the number of rows."
)


def check_parts(kernel: Kernel) -> None:
    """Raise ValueError if the kernel is no sum of parts."""
    if isinstance(kernel, Sum) and kernel.active_dims is not None:
        raise ValueError("The sum of parts takes no active_dims; give columns to the parts.")
    for part in parts_of(kernel):
        if not isinstance(part, Part):
            raise ValueError(
                f"Model.latent takes parts such as Map((0, 1)) of sitewise.parts, got {type(part).__name__}."
            )


def units_of_parts(parts: Sequence[Part], ranges: np.ndarray, path: str) -> Units:
    """Return the units of the parameters of all parts (`Prior.input_units`); `path` names the tuple of parts."""
    found: Units = {}
    for k, part in enumerate(parts):
        found |= part.units(part.active_columns(ranges[None])[0], f"{path}.{k}")
    return found


class OfParts(Prior):
    """Base class of the priors of sums of parts: sparse factors on NumPy arrays, the full GP in a traced program."""

    staged: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[Any, ...]:
        """The parts of the first function, then the parts of the second."""
        each = self.kernels if isinstance(self.kernels, list) else [self.kernels]
        return tuple(part for kernel in each for part in parts_of(kernel))

    @property
    def predicts_sites(self) -> bool:
        """Whether variances of new rows are cheap compared with conditioning: not of crossed groups."""
        return any(part.local for part in self.parts)

    @abc.abstractmethod
    def _dense(self) -> Prior:
        """Return the full GP."""

    def as_full(self, rows: float = np.inf) -> Prior:
        """Return the full GP; this prior if a map has fewer neighbours than other rows."""
        return self if not all(part.exact_for(rows) for part in self.parts) else self._dense()

    def _traced(self, X: Array) -> Prior:
        """Return the full GP for a traced program; ValueError if it would be another prior."""
        if not all(part.exact_for(X.shape[0]) for part in self.parts):
            raise ValueError(NOT_TRACED)
        return self._dense()

    def gram(self, X: Array) -> Any:
        if not is_host(X, *jax.tree.leaves(self)):
            return self._traced_gram(X)
        return self.gram_with_pull(X)[0]

    def _traced_gram(self, X: Array) -> Any:
        return self._traced(X).gram(X)

    def posterior(self, X: Array, sites: Sites) -> Any:
        if not is_host(X, *sites, *jax.tree.leaves(self)):
            return self._traced(X).posterior(X, sites)
        gram = self.gram(X)
        return self.posterior_from(gram, gram.condition_with_factor(sites, None)[1], X, sites)


@module
class PrecisionPrior(OfParts):
    """A sum of parts; `kernel` is the `Sum` of them."""

    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())

    structure: ClassVar[str] = "precision"
    about: ClassVar[str] = "The latent function is a sum of parts, computed by a sparse precision matrix."
    host: ClassVar[bool] = True

    def check(self, columns: int, latents: int) -> None:
        check_parts(self.kernel)
        one_latent(self, latents)
        super().check(columns, latents)

    def input_units(self, ranges: np.ndarray) -> Units:
        return units_of_parts(self.parts, ranges, "kernel.parts")

    def _dense(self) -> FullPrior:
        return FullPrior(self.kernel, self.mean)

    def _traced_gram(self, X: Array) -> DenseGram:
        full = super()._traced_gram(X)
        return DenseGram(full.K, full.mean)

    def gram_with_pull(self, X: Array) -> tuple[Any, Callable[[Any], PrecisionPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return super().gram_with_pull(X)
        at, parts = assembly_of(self.parts, X).loaded(self.parts), self.parts
        found = [layout.precision(part) for layout, part in zip(at.layouts, parts, strict=True)]
        log_det = np.asarray(sum(each for _, each in found))
        prior_var = np.asarray(self.kernel.variances(X))
        entries, loads = at.prior_entries([values for values, _ in found]), at.weight if at.moving else None
        gram = PrecisionGram(at, entries, log_det, self.mean.at(X), prior_var, loads)

        def pull_entries(bar: PrecisionGram) -> PrecisionPrior:
            each = zip(at.layouts, parts, at.own, strict=True)
            bars = [layout.pull(part, bar.entries[own], float(bar.log_det)) for layout, part, own in each]
            for k, layout in enumerate(at.layouts):
                if layout.moving and bar.loads is not None:
                    more = layout.pull_weights(parts[k], bar.loads[:, at.loads_of[k]])
                    bars[k] = jax.tree.map(np.add, bars[k], more)
            kernel: Any = self.kernel
            return replace(self, kernel=replace(kernel, parts=tuple(bars)), mean=self.mean.pull(X, bar.mean))

        return gram, pull_entries

    def posterior_from(self, gram: Any, factor: Any, X: Array, sites: Sites) -> LatentPosterior:
        return PrecisionPosterior.of(self.kernel, self.mean, Held(gram.assembly, factor, (X, sites)))
