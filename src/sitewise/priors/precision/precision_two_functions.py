"""The prior of likelihoods with two latent functions per row, each of which is a sum of parts with a sparse precision.

f and g are independent a priori, x = (x_f, x_g) has the precision Q = diag(Q_f, Q_g), and the full 2 × 2 site of a row
is three scalar sites along f, g and f + g (`numerics.dense.directions`).  One function with three rows of loads per
row of the data is therefore conditioned (`precision_gram`), at the cost of one factor of P = Q + AᵀWA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import numpy as np

from sitewise.arrays.engine import Array, is_host
from sitewise.kernels import Kernel
from sitewise.kernels.units import Units
from sitewise.numerics.dense.directions import along, blocks_of_variances, combined, directions
from sitewise.numerics.sparse.forms import quadratic_forms
from sitewise.priors.base import Prior
from sitewise.priors.posterior import LatentPosterior
from sitewise.priors.precision.assembly import LEAST_VARIANCE, assembly_of, parts_of
from sitewise.priors.precision.precision_gram import BlockPrecisionGram
from sitewise.priors.precision.precision_posterior import Held, PrecisionPosterior, joint_of, sums_of
from sitewise.priors.precision.precision_prior import OfParts, PrecisionPrior, check_parts, units_of_parts
from sitewise.priors.two_function_prior import FunctionPrior, TwoFunctionPrior
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace


@module
class PrecisionTwoFunctionPrior(OfParts, TwoFunctionPrior):
    """Two latent functions per row, each a sum of parts: `kernel` and `second.kernel` are the `Sum`s of them."""

    structure: ClassVar[str] = "precision two functions"
    about: ClassVar[str] = "Both latent functions are sums of parts, computed by a sparse precision matrix."
    dense: ClassVar[bool] = False
    informs: ClassVar[bool] = False
    host: ClassVar[bool] = True

    @property
    def each(self) -> list[PrecisionPrior]:
        """The prior of each function alone."""
        return [PrecisionPrior(one.kernel, one.mean) for one in self.functions]

    def one_function(self) -> PrecisionPrior:  # type: ignore[override]
        return self.each[0]

    def check(self, columns: int, latents: int) -> None:
        for one in self.functions:
            check_parts(one.kernel)
        if self.jitter:
            raise ValueError("Sums of parts take no jitter; leave it at 0.")
        super().check(columns, latents)

    def input_units(self, ranges: np.ndarray) -> Units:
        first, second = (parts_of(one.kernel) for one in self.functions)
        return units_of_parts(first, ranges, "kernel.parts") | units_of_parts(second, ranges, "second.kernel.parts")

    def _dense(self) -> TwoFunctionPrior:
        return TwoFunctionPrior(self.kernel, self.second, self.mean)

    def gram_with_pull(self, X: Any) -> tuple[Any, Callable[[Any], TwoFunctionPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return Prior.gram_with_pull(self, X)
        parts, functions = self.parts, self.functions
        at = assembly_of(parts, X, tuple(k for k, one in enumerate(functions) for _ in parts_of(one.kernel)))
        found = [layout.precision(part) for layout, part in zip(at.layouts, parts, strict=True)]
        mean = along(np.stack([one.mean.at(X) for one in functions]))
        prior_var = directions(len(functions)) ** 2 @ np.stack([one.kernel.variances(X) for one in functions])
        entries, log_det = at.prior_entries([values for values, _ in found]), np.asarray(sum(each for _, each in found))

        def pull(bar: BlockPrecisionGram) -> PrecisionTwoFunctionPrior:
            each = zip(at.layouts, parts, at.own, strict=True)
            bars = [layout.pull(part, bar.entries[own], float(bar.log_det)) for layout, part, own in each]
            moved = []
            for number, (one, by_mean) in enumerate(zip(functions, combined(bar.mean), strict=True)):
                kernel: Any = one.kernel
                own_bars = tuple(part for part, of in zip(bars, at.of, strict=True) if of == number)
                moved.append(FunctionPrior(replace(kernel, parts=own_bars), one.mean.pull(X, by_mean)))
            return replace(self, kernel=moved[0].kernel, mean=moved[0].mean, second=moved[1])

        return BlockPrecisionGram(at, entries, log_det, mean, prior_var), pull

    def posterior_from(self, gram: Any, factor: Any, X: Array, sites: Sites) -> Any:
        each = (
            PrecisionPosterior.of(one.kernel, one.mean, Held(gram.assembly, factor, (X, sites), k))
            for k, one in enumerate(self.functions)
        )
        return PrecisionTwoFunctionPosterior(tuple(each))


@module
class PrecisionTwoFunctionPosterior(LatentPosterior):
    """q of both functions at new rows: one posterior per function, from the factor of both."""

    each: tuple[PrecisionPosterior, ...] = fixed()

    block_rows: ClassVar[int] = PrecisionPosterior.block_rows

    @property
    def kernel(self) -> Kernel:
        raise ValueError("Terms of a kernel are for one latent function; this model has two, see `function`.")

    def function(self, number: int) -> PrecisionPosterior:
        """Return the posterior of the first function (0) or of the second (1)."""
        return self.each[number]

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return means (rows, 2) and covariances (rows, 2, 2) of the functions per new row."""
        X_new, solved = np.asarray(X_new), self.each[0].held.solved
        found = [one.loads(X_new) for one in self.each]
        mean = [
            one.mean.at(X_new) + np.sum(w * solved.m[i], axis=1)
            for one, (i, w, _) in zip(self.each, found, strict=True)
        ]
        index = np.concatenate([i for i, _, _ in found], axis=1)
        var = [
            quadratic_forms(
                solved.factor, index, np.concatenate([c * w for c, (_, w, _) in zip(a, found, strict=True)], axis=1)
            )
            for a in directions(len(found))
        ]
        cov = blocks_of_variances(np.stack(var))
        for k, (_, _, residual) in enumerate(found):
            cov[:, k, k] = np.maximum(cov[:, k, k] + residual, LEAST_VARIANCE)
        return np.stack(mean, axis=1), cov

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and covariance matrix of both functions at the new rows, the first function first."""
        mean, cov = joint_of(self.each, np.asarray(X_new))
        return mean.ravel(), cov.reshape(mean.size, mean.size)

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return sums_of(self.each, X, weight)
