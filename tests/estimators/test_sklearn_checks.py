"""scikit-learn's own checks, all of them, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import (
    check_classifiers_classes,
    check_estimators_pickle,
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

from sitewise import GPClassifier, GPRegressor


@parametrize_with_checks([GPClassifier(multi_class="one_vs_rest"), GPRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Joint classes differ in what is done with three classes only; the rest would compile each shape again for nothing.
JOINT = (
    check_classifiers_classes,
    check_estimators_pickle,
    check_sample_weight_equivalence_on_dense_data,
)


@pytest.mark.parametrize("check", JOINT, ids=lambda check: check.__name__)
def test_scikit_learn_checks_of_joint_classes(check):
    check("GPClassifier", GPClassifier(multi_class="joint"))
