"""Prior structures behind one call: `prior.gram(X).condition(sites)`."""

from sitewise.priors.full import FullPrior, Marginals

__all__ = ["FullPrior", "Marginals"]
