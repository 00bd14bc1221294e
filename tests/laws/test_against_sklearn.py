"""Laplace with the logit link equals scikit-learn's GaussianProcessClassifier at the same θ."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from cases import problem
from sitewise import Data, Laplace, Model, evidence, kernels, likelihoods, posterior


@pytest.mark.parametrize(("lengthscale", "variance"), [(0.7, 1.0), (1.5, 9.0), (0.3, 0.2)])
def test_evidence_and_latent_mean(lengthscale, variance):
    X, y = problem("logit", 40)
    theirs = GaussianProcessClassifier(ConstantKernel(variance) * RBF(lengthscale), optimizer=None).fit(X, y)
    model = Model.full(kernels.RBF(lengthscale, variance), likelihoods.BernoulliLogit())
    data = Data.of(X, y)
    sites = Laplace().solve(model, data).sites
    assert float(evidence.laplace(model, data, sites)) == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-6)
    fitted = theirs.base_estimator_
    cross = fitted.kernel_(X[:7] + 0.05, X)
    expected = cross @ (fitted.y_train_ - fitted.pi_)
    np.testing.assert_allclose(posterior(model, data, sites).f(X[:7] + 0.05)[0], expected, atol=1e-5)
