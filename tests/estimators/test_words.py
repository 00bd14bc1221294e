"""What the estimators say about themselves: HTML, and counterparts of scikit-learn's kernels."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as theirs
from sklearn.pipeline import Pipeline

from sitewise import GPClassifier, GPOrdinal, GPRegressor, Hyperparameters, TableEncoder, kernels
from sitewise.estimators import sklearn_kernels

KINDS = [GPClassifier, GPOrdinal, GPRegressor]


@pytest.mark.parametrize(
    "model",
    [*(kind(hyperparameters=Hyperparameters(fixed="*")) for kind in KINDS), TableEncoder()],
    ids=lambda m: type(m).__name__,
)
def test_html_without_warnings(model):
    whole = Pipeline([("table", TableEncoder()), ("model", model)])
    rows, y = [{"x": k / 2} for k in range(6)], [0, 1, 0, 1, 2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in ("unfitted", "fitted"):
            assert type(model).__name__ in model._repr_html_() and type(model).__name__ in whole._repr_html_()
            whole.fit(rows, y) if isinstance(model, tuple(KINDS)) else model.fit(rows)


@pytest.mark.parametrize(
    ("kernel", "ours"),
    [
        (theirs.RBF(2.0), "kernels.RBF(2)"),
        (theirs.RBF([1.0, 2.0]), "kernels.RBF([1.0, 2.0])"),
        (theirs.Matern(nu=1.5), "kernels.Matern32(1)"),
        (theirs.ConstantKernel(2.0) * theirs.Matern(nu=2.5), "2 * kernels.Matern52(1)"),
        (theirs.RationalQuadratic(alpha=3.0), "kernels.RationalQuadratic(1, mixture=3)"),
        (theirs.ExpSineSquared(0.5, 4.0), "kernels.Periodic(0.5, 4)"),
        (theirs.DotProduct(2.0) * theirs.RBF(), "(kernels.Linear() + kernels.Constant(4)) * kernels.RBF(1)"),
    ],
)
def test_the_counterpart_of_a_kernel_has_the_same_covariances(kernel, ours):
    X = np.random.default_rng(0).normal(size=(5, 2))
    X = X[:, :1] if "Periodic" in ours else X  # with several columns theirs has one distance, and ours one for each
    with pytest.raises(ValueError, match=r"sitewise\.kernels") as raised:
        GPRegressor(kernel).fit(X, X[:, 0])
    assert f"here it is {ours}." in str(raised.value)
    own = eval(ours, {"kernels": kernels})
    np.testing.assert_allclose(own.pairs(X, X), kernel(X), rtol=1e-6)


def test_white_noise_is_the_likelihoods():
    both = sklearn_kernels.advice(theirs.RBF() + theirs.WhiteKernel())
    assert both == "here it is kernels.RBF(1); WhiteKernel is the noise of the likelihood, which needs no kernel"
    assert sklearn_kernels.advice(theirs.WhiteKernel()).startswith("WhiteKernel is the noise")
    assert sklearn_kernels.advice(theirs.RBF() ** 2) == "" and sklearn_kernels.advice("rbf") == ""
