"""scikit-learn's own checks, all of them, with no expected failures."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from sitewise import GPClassifier, GPRegressor


@parametrize_with_checks([GPClassifier(), GPRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
