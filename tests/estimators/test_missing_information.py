"""Observations that do not determine the model: fits warn in the user's words, and other observations do not."""

import warnings

import numpy as np
import pytest

from sitewise import GPRegressor, Hyperparameters, likelihoods
from sitewise.estimators.training import MissingInformation

INF = np.inf
CASES = {
    "lifetimes without an event": (likelihoods.Weibull(censored=True), [[1.0, INF], [2.0, INF]], "contain no event"),
    "only left-censored lifetimes": (likelihoods.LogLogistic(censored=True), [[0.0, 1.0], [0.0, 2.0]], "left-censored"),
    "equal lifetimes": (likelihoods.Weibull(), [2.0, 2.0], "equal to 2"),
    "only censored values": (likelihoods.CensoredGaussian(), [[-INF, 1.0], [0.0, INF]], "All values are censored"),
    "no counts": (likelihoods.Poisson(), [0.0, 0.0], "All counts are 0"),
    "no counts in any exposure": (likelihoods.NegativeBinomial(exposure=True), [[0.0, 2.0], [0.0, 1.0]], "no event"),
    "no amounts": (likelihoods.Tweedie(), [0.0, 0.0], "All amounts are 0"),
    "equal amounts": (likelihoods.HurdleGamma(), [3.0, 3.0], "equal to 3"),
    "equal shares": (likelihoods.Beta(), [0.5, 0.5], "equal to 0.5"),
    "no successes": (likelihoods.Binomial(), [[0.0, 2.0], [0.0, 3.0]], "no event"),
    "no failures": (likelihoods.BetaBinomial(), [[2.0, 2.0], [3.0, 3.0]], "All trials succeeded"),
}
ENOUGH = {
    "one event": (likelihoods.Weibull(censored=True), [[1.0, INF], [2.0, 2.0]]),
    "an interval": (likelihoods.CensoredGaussian(), [[-INF, 1.0], [0.0, 2.0]]),
    "one count": (likelihoods.Poisson(), [0.0, 1.0]),
    "different amounts": (likelihoods.Tweedie(), [0.0, 3.0]),
    "a failure": (likelihoods.Binomial(), [[2.0, 2.0], [2.0, 3.0]]),
    "equal real values": (likelihoods.Gaussian(), [1.0, 1.0]),
}


@pytest.mark.parametrize("case", CASES)
def test_missing_information_is_named(case: str) -> None:
    likelihood, y, words = CASES[case]
    assert words in likelihood.missing_information(np.array(y))


@pytest.mark.parametrize("case", ENOUGH)
def test_enough_information_is_not_doubted(case: str) -> None:
    likelihood, y = ENOUGH[case]
    assert likelihood.missing_information(np.array(y)) == ""


@pytest.mark.filterwarnings("ignore")
def test_fits_warn() -> None:
    X, held = np.arange(8.0)[:, None], {"hyperparameters": Hyperparameters(fixed="*")}
    for name, y, side in (("weibull", X[:, 0] + 1, {"event": np.zeros(8)}), ("poisson", np.zeros(8), {})):
        with pytest.warns(MissingInformation, match="no event"):
            GPRegressor(likelihood=name, **held).fit(X, y, **side)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingInformation)
        GPRegressor(likelihood="poisson", **held).fit(X, np.arange(8) % 3)
