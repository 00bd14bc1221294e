"""The contract of structures: values that build the `Model` of an estimator's fit from its parts."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from sitewise import means
from sitewise.data import Data
from sitewise.kernels import Kernel
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.setting import Setting


class Start(NamedTuple):
    """The parts from which a structure builds a model.

    kernels        the kernel, or one kernel per class for joint classes with class_kernels="own", or per function
    mean           the mean, or one per function
    names          the names of the columns of X, or ()
    fits           the number of latent functions that are fitted one after the other and share the time
    learning_rows  the largest number of rows from which hyperparameters are learned; None for all
    samples        whether the method samples
    """

    kernel: Kernel
    kernels: Kernel | list[Kernel]
    likelihood: Likelihood
    mean: means.Mean | list[means.Mean | None]
    data: Data
    seed: int
    names: Sequence[str] = ()
    fits: int = 1
    learning_rows: int | None = None
    samples: bool = False

    @property
    def one_mean(self) -> means.Mean:
        """The mean of the first function."""
        return self.mean[0] or means.Zero() if isinstance(self.mean, list) else self.mean


class Structure(Setting, abc.ABC):
    """How the prior over functions is computed.

    joint           whether rows may have several latent values, as joint classes have
    sampled         whether method="mcmc" can sample it
    trains_inputs   whether inducing inputs are moved to where the evidence is greatest
    learning_rows   the largest number of rows from which hyperparameters are learned; None for all
    """

    joint: ClassVar[bool] = True
    sampled: ClassVar[bool] = False

    @property
    def trains_inputs(self) -> bool:
        return False

    @property
    def learning_rows(self) -> int | None:
        return None

    def series_column(self, columns: int, names: Sequence[str]) -> int | None:
        """Return the number of the column that names the series; None if there is none."""
        return None

    def is_sparse(self, rows: int, classes: int) -> bool:
        """Return whether a fit of this size has inducing inputs."""
        return False

    def chosen(self, start: Start) -> Structure:
        """Return the structure that is used for this fit."""
        return self

    def own_kernel(self, X: np.ndarray, names: Sequence[str], variance: float) -> Kernel | None:
        """Return the kernel to start from if the structure has one; None if the estimator's `kernel` is used.

        `variance` is a typical variance of the latent function.
        """
        return None

    @abc.abstractmethod
    def model(self, start: Start) -> Model:
        """Return the model from which a fit starts."""

    def sentence(self, model: Model, rows: int) -> str:
        """Return the sentence of a fit report about the choice of the structure; may be empty."""
        return ""

    def replaced_full(self, model: Model, rows: int) -> str:
        """Say that the model is sparse because a full GP would take too long; empty if that is not so."""
        return ""
