"""Model: a prior over functions and a likelihood."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from sitewise import means
from sitewise.kernels import Kernel
from sitewise.likelihoods import Likelihood
from sitewise.priors import ClassPrior, FullPrior, Prior, SparsePrior
from sitewise.types import fixed, module

SPARSE_JITTER = 1e-9  # a share of the mean variance of the inducing variables


@module
class Model:
    prior: Prior = fixed()
    likelihood: Likelihood = fixed()

    @property
    def kernels(self) -> Kernel | list[Kernel]:
        """The kernel, or the list of kernels where each class has its own."""
        return self.prior.kernels

    @staticmethod
    def full(
        kernel: Kernel | Sequence[Kernel],
        likelihood: Likelihood,
        mean: means.Mean | None = None,
        jitter: float = 0.0,
    ) -> Model:
        """A full GP: exact covariance between all rows, O(n³).

        Softmax has one latent function per class; `kernel` is one for all, or a list of one for each.
        """
        if likelihood.latents > 1:
            if mean is not None and not isinstance(mean, means.Zero):
                raise ValueError("A mean common to all classes changes nothing in a softmax; leave mean at None.")
            return Model(ClassPrior.of(kernel, likelihood.latents, jitter), likelihood)
        if not isinstance(kernel, Kernel):
            raise ValueError("A list of kernels is for the classes of a Softmax; give one kernel.")
        return Model(FullPrior(kernel, means.Zero() if mean is None else mean, jitter), likelihood)

    @staticmethod
    def sparse(
        kernel: Kernel,
        likelihood: Likelihood,
        Z: ArrayLike,
        mean: means.Mean | None = None,
        jitter: float = SPARSE_JITTER,
        **storage: int,
    ) -> Model:
        """A sparse GP with inducing inputs Z (see `priors.inducing.select`), O(nm²); `storage` as in `SparsePrior`."""
        if likelihood.latents > 1:
            raise ValueError(
                f"{type(likelihood).__name__} has several latent functions per row, for which there is no sparse "
                "prior; use Model.full, or in GPClassifier multi_class='one_vs_rest'."
            )
        return Model(SparsePrior(kernel, Z, means.Zero() if mean is None else mean, jitter, **storage), likelihood)
