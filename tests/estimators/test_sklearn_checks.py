"""scikit-learn's own checks, all of them, with no expected failures."""

import functools

import pytest
from sklearn.utils.estimator_checks import (
    check_classifiers_classes,
    check_estimators_pickle,
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
)

from sitewise import GPClassifier, GPRegressor

# Fits of several seconds, of classes or of what other checks fit too.
SLOW = ("check_class_weight_classifiers", "check_classifiers_train(readonly_memmap=True")


def cases():
    """Return all checks of both estimators, with their names and marks."""
    for estimator in (GPClassifier(multi_class="one_vs_rest"), GPRegressor()):
        for tested, check in estimator_checks_generator(estimator):
            plain = check.func if isinstance(check, functools.partial) else check
            settings = ",".join(f"{key}={value}" for key, value in getattr(check, "keywords", {}).items())
            name = f"{plain.__name__}({settings})" if settings else plain.__name__
            marks = [pytest.mark.slow] if name.startswith(SLOW) else []
            yield pytest.param(tested, check, id=f"{type(tested).__name__}-{name}", marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(cases()))
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
