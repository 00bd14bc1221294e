"""Likelihoods p(y | f).

To add a likelihood, write a file with a subclass of `Likelihood` that defines `log_prob` and the class attributes, and
import the subclass here.  `BY_NAME` holds the likelihoods that estimators and commands offer by name.
"""

from sitewise.likelihoods.asymmetric_laplace import AsymmetricLaplace
from sitewise.likelihoods.base import Likelihood
from sitewise.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from sitewise.likelihoods.beta import Beta
from sitewise.likelihoods.beta_binomial import BetaBinomial
from sitewise.likelihoods.binomial import Binomial
from sitewise.likelihoods.censored_gaussian import CensoredGaussian
from sitewise.likelihoods.gamma import Gamma
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.likelihoods.heteroscedastic_gaussian import HeteroscedasticGaussian
from sitewise.likelihoods.hurdle_gamma import HurdleGamma
from sitewise.likelihoods.laplace_noise import LaplaceNoise
from sitewise.likelihoods.log_logistic import LogLogistic
from sitewise.likelihoods.log_normal import LogNormal
from sitewise.likelihoods.negative_binomial import NegativeBinomial
from sitewise.likelihoods.ordinal import Ordinal
from sitewise.likelihoods.poisson import Poisson
from sitewise.likelihoods.softmax import Softmax
from sitewise.likelihoods.student_t import StudentT
from sitewise.likelihoods.switched import Switched
from sitewise.likelihoods.tweedie import Tweedie
from sitewise.likelihoods.two_functions import TwoFunctions
from sitewise.likelihoods.varying_parameter import VaryingParameter
from sitewise.likelihoods.von_mises import VonMises
from sitewise.likelihoods.weibull import Weibull
from sitewise.likelihoods.zero_inflated_negative_binomial import ZeroInflatedNegativeBinomial
from sitewise.likelihoods.zero_inflated_poisson import ZeroInflatedPoisson

__all__ = [
    "AsymmetricLaplace",
    "BernoulliLogit",
    "BernoulliProbit",
    "Beta",
    "BetaBinomial",
    "Binomial",
    "CensoredGaussian",
    "Gamma",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HurdleGamma",
    "LaplaceNoise",
    "Likelihood",
    "LogLogistic",
    "LogNormal",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Softmax",
    "StudentT",
    "Switched",
    "Tweedie",
    "TwoFunctions",
    "VaryingParameter",
    "VonMises",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
]

BY_NAME: dict[str, type[Likelihood]] = {
    kind.name: kind for kind in (globals()[public] for public in __all__) if kind.name
}
