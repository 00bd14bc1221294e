"""What every fitted latent function has, however it was found: by Gaussian sites, by their average, or by draws."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sitewise.data import Data
from sitewise.fitted.mixture import Functions, Mixture
from sitewise.model import Model
from sitewise.predict import Posterior


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

    def rows_uncorrelated(self) -> bool:
        """Whether there are several rows and the prior correlates none with another; False where not examined."""
        return False
