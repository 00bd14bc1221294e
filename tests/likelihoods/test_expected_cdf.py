"""P(Y ≤ y) over f ~ N(mean, var), where it has a formula, against SciPy's distributions on a fine grid of f."""

import numpy as np
import pytest
from scipy import stats

from sitewise import likelihoods, predict

MEAN, VAR = np.array([-1.0, 0.2, 0.9, 3.0]), np.array([1e-4, 0.3, 2.0, 50.0])
SIDE = np.array([1.0, 2.0, 5.0, 12.0])
Z = np.linspace(-9, 9, 40_001)
CASES = {
    "Gaussian": (likelihoods.Gaussian(0.3), lambda y, f: stats.norm.cdf(y, f, 0.3)),
    "LogNormal": (likelihoods.LogNormal(0.3), lambda y, f: stats.lognorm.cdf(y, 0.3, scale=np.exp(f))),
    "LaplaceNoise": (likelihoods.LaplaceNoise(0.3), lambda y, f: stats.laplace.cdf(y, f, 0.3)),
    "StudentT 1": (likelihoods.StudentT(0.3, 1.0), lambda y, f: stats.t.cdf(y, 1, f, 0.3)),
    "StudentT 3": (likelihoods.StudentT(0.3, 3.0), lambda y, f: stats.t.cdf(y, 3, f, 0.3)),
    "StudentT 200": (likelihoods.StudentT(0.3, 200.0), lambda y, f: stats.t.cdf(y, 200, f, 0.3)),
    "Ordinal": (
        likelihoods.Ordinal(-0.5, np.array([1.0, 0.7])),
        lambda y, f: stats.norm.cdf(np.array([-0.5, 0.5, 1.2, np.inf])[int(y)] - f),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("y", [0.0, 1.0, 2.0])
def test_the_formula_is_the_integral(name, y):
    likelihood, cdf = CASES[name]
    weight = stats.norm.pdf(Z) * (Z[1] - Z[0])
    want = [weight @ cdf(y, m + np.sqrt(v) * Z) for m, v in zip(MEAN, VAR, strict=True)]
    np.testing.assert_allclose(predict.y_cdf(likelihood, MEAN, VAR, y), want, atol=2e-8)


@pytest.mark.parametrize(
    ("likelihood", "law"),
    [
        (likelihoods.Poisson(exposure=True), lambda f, side: stats.poisson(side * np.exp(f))),
        (
            likelihoods.NegativeBinomial(shape=2.0, exposure=True),
            lambda f, side: stats.nbinom(2.0, 2.0 / (2.0 + side * np.exp(f))),
        ),
        (likelihoods.Binomial(), lambda f, side: stats.binom(side, 1 / (1 + np.exp(-f)))),
        (likelihoods.HeteroscedasticGaussian(), lambda f, side: stats.norm(f, np.sqrt(side))),
    ],
    ids=["Poisson", "NegativeBinomial", "Binomial", "HeteroscedasticGaussian"],
)
def test_moments_know_the_second_column(likelihood, law):
    """E[y] and Var[y] = E[Var[y|f]] + Var[E[y|f]] with one exposure, number of trials or variance per row."""
    var = np.minimum(VAR, 2.0)
    mean, spread = predict.y_moments(likelihood, MEAN, var, SIDE)
    weight = stats.norm.pdf(Z) / stats.norm.pdf(Z).sum()
    for k in range(len(MEAN)):
        given = law(MEAN[k] + np.sqrt(var[k]) * Z, SIDE[k])
        centre = weight @ given.mean()
        np.testing.assert_allclose(mean[k], centre, rtol=1e-6)
        np.testing.assert_allclose(spread[k], weight @ (given.var() + (given.mean() - centre) ** 2), rtol=1e-5)
