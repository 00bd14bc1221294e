"""sitewise: Gaussian processes with non-Gaussian likelihoods.

Choose inference and evidence independently: sites = inference.solve(model, data), then
evidence(model, data, sites), or train both with a learner.  See the README for a tour.
"""

from typing import TYPE_CHECKING, Any

from sitewise import evidence, hyperpriors, kernels, likelihoods, means, metrics, quadrature
from sitewise.data import Data
from sitewise.inference import EP, VI, Laplace
from sitewise.learning.fit import Fit
from sitewise.learning.minibatch import MiniBatch
from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM
from sitewise.methods import METHODS, resolve
from sitewise.model import Model
from sitewise.predict import Posterior, posterior
from sitewise.priors import inducing
from sitewise.sites import Sites
from sitewise.types import Outcome

if TYPE_CHECKING:
    from sitewise import estimators
    from sitewise.estimators import GPClassifier, GPRegressor, load

__version__ = "0.1.0"

__all__ = [
    "EP",
    "METHODS",
    "VEM",
    "VI",
    "Data",
    "Fit",
    "GPClassifier",
    "GPRegressor",
    "Laplace",
    "MiniBatch",
    "Model",
    "Nested",
    "Outcome",
    "Posterior",
    "Sites",
    "estimators",
    "evidence",
    "hyperpriors",
    "inducing",
    "kernels",
    "likelihoods",
    "load",
    "means",
    "metrics",
    "posterior",
    "quadrature",
    "resolve",
]

# scikit-learn takes a second to import, and brings pandas with it: it waits until an estimator is asked for.
_ESTIMATORS = ("GPClassifier", "GPRegressor", "load")


def __getattr__(name: str) -> Any:
    if name != "estimators" and name not in _ESTIMATORS:
        raise AttributeError(f"module 'sitewise' has no attribute {name!r}")
    import importlib

    estimators = importlib.import_module("sitewise.estimators")
    return estimators if name == "estimators" else getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted([*globals(), "estimators", *_ESTIMATORS])
