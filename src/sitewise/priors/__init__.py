"""Prior structures behind one contract (`priors.base`): `prior.gram(X).condition(sites)`."""

from sitewise.priors.base import Covariance, Gram, LatentPosterior, Marginals, Prior
from sitewise.priors.classes import ClassPrior
from sitewise.priors.full import FullPrior
from sitewise.priors.markov import MarkovPrior
from sitewise.priors.sparse import SparsePrior
from sitewise.priors.sparse_classes import SparseClassPrior

__all__ = [
    "ClassPrior",
    "Covariance",
    "FullPrior",
    "Gram",
    "LatentPosterior",
    "Marginals",
    "MarkovPrior",
    "Prior",
    "SparseClassPrior",
    "SparsePrior",
]
