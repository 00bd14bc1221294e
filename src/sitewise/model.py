"""L1. Model: a prior over functions and a likelihood."""

from __future__ import annotations

from typing import Any

from sitewise import means
from sitewise.kernels import Kernel
from sitewise.likelihoods import Likelihood
from sitewise.priors import FullPrior, SparsePrior
from sitewise.types import fixed, module

SPARSE_JITTER = 1e-9  # a share of the mean variance of the inducing variables


@module
class Model:
    prior: Any = fixed()
    likelihood: Likelihood = fixed()

    @staticmethod
    def full(kernel: Kernel, likelihood: Likelihood, mean: means.Mean | None = None, jitter: float = 0.0) -> Model:
        """A full GP: exact covariance between all rows, O(n³)."""
        return Model(FullPrior(kernel, means.Zero() if mean is None else mean, jitter), likelihood)

    @staticmethod
    def sparse(
        kernel: Kernel,
        likelihood: Likelihood,
        Z,
        mean: means.Mean | None = None,
        jitter: float = SPARSE_JITTER,
        **storage: int,
    ) -> Model:
        """A sparse GP with inducing inputs Z (see `priors.inducing.select`), O(nm²); `storage` as in `SparsePrior`."""
        return Model(SparsePrior(kernel, Z, means.Zero() if mean is None else mean, jitter, **storage), likelihood)
