"""Prior structures behind one call: `prior.gram(X).condition(sites)`."""

from sitewise.priors.classes import ClassPrior
from sitewise.priors.full import FullPrior, Marginals
from sitewise.priors.sparse import SparsePrior

__all__ = ["ClassPrior", "FullPrior", "Marginals", "SparsePrior"]
