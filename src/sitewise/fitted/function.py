"""What every fitted latent function has, however it was found: by Gaussian sites, by their average, or by draws."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from sitewise.data import Data
from sitewise.fitted.mixture import Functions, Mixture
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.predict import Posterior


class HyperLaw(NamedTuple):
    """The distribution of the vector v of unconstrained hyperparameters.

    vector    the summary of it that `FittedFunction.model` has
    interval  (factors, level) → standard error of factors @ (v − vector), and the ends of its interval of that level
    """

    trainable: Trainable
    vector: np.ndarray
    interval: Callable[[np.ndarray, float], tuple[float, float, float]]


class FittedFunction(abc.ABC):
    """A latent function, or the several of joint classes, given the training rows.

    model      with the hyperparameters, or with a summary of them where predictions average over several
    data       the distinct training rows
    has_sites  whether it is a Gaussian approximation with one site per row; without sites it is represented by draws
    """

    has_sites: ClassVar[bool]

    if TYPE_CHECKING:  # fields or properties of the classes below

        @property
        def model(self) -> Model: ...

        @property
        def data(self) -> Data: ...

    @abc.abstractmethod
    def at(self, X: np.ndarray) -> Mixture:
        """The marginals of f at new rows."""

    @abc.abstractmethod
    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance matrix of f; for several latent functions, those of each, on a leading axis."""

    @abc.abstractmethod
    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        """Joint draws of f; several latent functions are on the second axis."""

    @abc.abstractmethod
    def posteriors(self) -> tuple[list[Posterior], np.ndarray]:
        """The Gaussian posteriors whose mixture this function is, and the weight of each."""

    @abc.abstractmethod
    def stored(self) -> dict[str, Any]:
        """The arrays, priors and likelihoods that a model file holds of this function, by name."""

    def hyper_law(self, trainable: Callable[[], Trainable]) -> HyperLaw | None:
        """The distribution of the hyperparameters over which predictions average; None where there is one value.

        `trainable` names those that were learned.
        """
        return None

    def rows_uncorrelated(self) -> bool:
        """Whether there are several rows and the prior correlates none with another; False where not examined."""
        return False
