"""The interface of fitted latent functions: marginals, joint distribution, draws and stored state."""

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

    vector    the values in `FittedFunction.model`
    interval  (factors, level) → standard error of factors @ (v − vector), and the ends of its interval at this level
    """

    trainable: Trainable
    vector: np.ndarray
    interval: Callable[[np.ndarray, float], tuple[float, float, float]]


class FittedFunction(abc.ABC):
    """A latent function, or the latent functions of joint classes, given the training rows.

    model      model with the hyperparameters, or with their summary if predictions average over several values
    data       the distinct training rows
    has_sites  whether this is a Gaussian approximation with one site per row; otherwise it is represented by draws
    """

    has_sites: ClassVar[bool]

    if TYPE_CHECKING:  # fields or properties of the classes below

        @property
        def model(self) -> Model: ...

        @property
        def data(self) -> Data: ...

    @abc.abstractmethod
    def at(self, X: np.ndarray) -> Mixture:
        """Return the marginals of f at new rows."""

    @abc.abstractmethod
    def joint(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance matrix of f; several latent functions are on a leading axis."""

    @abc.abstractmethod
    def draw(self, seed: int, X: np.ndarray, samples: int) -> Functions:
        """Draw f jointly at new rows; several latent functions are on the second axis."""

    @abc.abstractmethod
    def posteriors(self) -> tuple[list[Posterior], np.ndarray]:
        """Return the Gaussian posteriors whose mixture this function is, and their weights."""

    @abc.abstractmethod
    def stored(self) -> dict[str, Any]:
        """Return the arrays, priors and likelihoods for a model file, by name."""

    def hyper_law(self, trainable: Callable[[], Trainable]) -> HyperLaw | None:
        """Return the distribution of the hyperparameters over which predictions average; None for a single value.

        `trainable` returns the learned hyperparameters.
        """
        return None

    def rows_uncorrelated(self) -> bool:
        """Return whether there are several rows, all uncorrelated a priori; False if this is not examined."""
        return False
