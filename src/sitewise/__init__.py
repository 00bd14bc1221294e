"""sitewise: Gaussian processes with non-Gaussian likelihoods.

Choose inference and evidence independently: sites = inference.solve(model, data), then
evidence(model, data, sites), or train both with a learner.  See the README for a tour.
"""

from importlib.metadata import version

from sitewise import evidence, hyperpriors, kernels, likelihoods, means, metrics, quadrature
from sitewise.data import Data
from sitewise.inference import EP, VI, Laplace
from sitewise.learning.fit import Fit
from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM
from sitewise.methods import METHODS, resolve
from sitewise.model import Model
from sitewise.predict import Posterior, posterior
from sitewise.priors import inducing
from sitewise.sites import Sites
from sitewise.types import Outcome

__version__ = version("sitewise")

__all__ = [
    "EP",
    "METHODS",
    "VEM",
    "VI",
    "Data",
    "Fit",
    "Laplace",
    "Model",
    "Nested",
    "Outcome",
    "Posterior",
    "Sites",
    "evidence",
    "hyperpriors",
    "inducing",
    "kernels",
    "likelihoods",
    "means",
    "metrics",
    "posterior",
    "quadrature",
    "resolve",
]
