"""Prior structures behind one contract (`priors.base`): `prior.gram(X).condition(sites)`."""

from sitewise.priors.base import Covariance, Gram, Marginals, Prior
from sitewise.priors.classes import ClassPrior
from sitewise.priors.full import FullPrior
from sitewise.priors.markov.markov_prior import MarkovPrior
from sitewise.priors.posterior import LatentPosterior
from sitewise.priors.precision.precision_prior import PrecisionPrior
from sitewise.priors.precision.precision_two_functions import PrecisionTwoFunctionPrior
from sitewise.priors.sparse.sparse_classes import SparseClassPrior
from sitewise.priors.sparse.sparse_prior import SparsePrior
from sitewise.priors.sparse.sparse_two_functions import SparseTwoFunctionPrior
from sitewise.priors.two_function_prior import FunctionPrior, TwoFunctionPrior

__all__ = [
    "ClassPrior",
    "Covariance",
    "FullPrior",
    "FunctionPrior",
    "Gram",
    "LatentPosterior",
    "Marginals",
    "MarkovPrior",
    "PrecisionPrior",
    "PrecisionTwoFunctionPrior",
    "Prior",
    "SparseClassPrior",
    "SparsePrior",
    "SparseTwoFunctionPrior",
    "TwoFunctionPrior",
]
