"""p(y | f).  A new likelihood is one file with `log_prob`."""

from sitewise.likelihoods.base import Likelihood
from sitewise.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.likelihoods.poisson import Poisson
from sitewise.likelihoods.student_t import StudentT

__all__ = ["BernoulliLogit", "BernoulliProbit", "Gaussian", "Likelihood", "Poisson", "StudentT"]
