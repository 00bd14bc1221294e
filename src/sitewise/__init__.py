"""sitewise: Gaussian processes with non-Gaussian likelihoods.

Choose inference and evidence independently: sites = inference.solve(model, data), then
evidence(model, data, sites), or train both with a learner.  See the README for a tour.
"""

import importlib as _importlib
import typing as _typing

from sitewise import (
    duels,
    evidence,
    hyperpriors,
    kernels,
    likelihoods,
    means,
    metrics,
    monotone,
    parameters,
    parts,
    priors,
)
from sitewise.data import Data
from sitewise.errors import UserError
from sitewise.hyperparameters import Hyperparameters
from sitewise.inference import EP, VI, Inference, Laplace
from sitewise.kernel_choice import PerColumn, Varying
from sitewise.learning.fit import Fit
from sitewise.learning.gradient import value_and_grad
from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM
from sitewise.methods import METHODS, Method, resolve
from sitewise.model import Model
from sitewise.numerics import quadrature
from sitewise.predict import Posterior, posterior
from sitewise.priors import inducing
from sitewise.sites import Sites
from sitewise.structures import Full, Markov, Series, Sparse
from sitewise.types import Outcome

if _typing.TYPE_CHECKING:
    from sitewise import estimators, formula, mcmc, testing
    from sitewise.estimators import (
        EffectDisplay,
        ForecastDisplay,
        GPClassifier,
        GPOrdinal,
        GPRegressor,
        MapDisplay,
        ReliabilityDisplay,
        SurfaceDisplay,
        TableEncoder,
        TermsDisplay,
        forecast,
    )
    from sitewise.formula import FormulaModel, compare, export, fit, load, save

__version__ = "0.3.0"

__all__ = [
    "EP",
    "METHODS",
    "VEM",
    "VI",
    "Data",
    "EffectDisplay",
    "Fit",
    "ForecastDisplay",
    "FormulaModel",
    "Full",
    "GPClassifier",
    "GPOrdinal",
    "GPRegressor",
    "Hyperparameters",
    "Inference",
    "Laplace",
    "MapDisplay",
    "Markov",
    "Method",
    "Model",
    "Nested",
    "Outcome",
    "PerColumn",
    "Posterior",
    "ReliabilityDisplay",
    "Series",
    "Sites",
    "Sparse",
    "SurfaceDisplay",
    "TableEncoder",
    "TermsDisplay",
    "UserError",
    "Varying",
    "compare",
    "duels",
    "estimators",
    "evidence",
    "export",
    "fit",
    "forecast",
    "formula",
    "hyperpriors",
    "inducing",
    "kernels",
    "likelihoods",
    "load",
    "mcmc",
    "means",
    "metrics",
    "monotone",
    "parameters",
    "parts",
    "posterior",
    "priors",
    "quadrature",
    "resolve",
    "save",
    "testing",
    "value_and_grad",
]

# scikit-learn takes a second to import: it waits until an estimator is asked for.
_MODULES = ("estimators", "formula", "mcmc", "testing")
_DISPLAYS = ("EffectDisplay", "ForecastDisplay", "MapDisplay", "ReliabilityDisplay", "SurfaceDisplay", "TermsDisplay")
_ESTIMATORS = ("GPClassifier", "GPOrdinal", "GPRegressor", "TableEncoder")
_HOME = dict.fromkeys((*_ESTIMATORS, *_DISPLAYS, "forecast"), "estimators")
_HOME |= dict.fromkeys(("FormulaModel", "compare", "export", "fit", "load", "save"), "formula")


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return _importlib.import_module(f"sitewise.{name}")
    if name in _HOME:
        return getattr(_importlib.import_module(f"sitewise.{_HOME[name]}"), name)
    raise AttributeError(f"module 'sitewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
