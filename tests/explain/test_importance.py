"""Shares of variance against closed forms; lengthscales and their errors against the learner's; `ard`."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sitewise import Data, GPClassifier, GPRegressor, Hyperparameters, Model, PerColumn, Sparse, kernels, load, resolve
from sitewise.likelihoods import Gaussian


@pytest.fixture(scope="module")
def ard(X, values):
    return GPRegressor("ard").fit(X, values)


def test_shares_of_a_linear_function_are_those_of_its_slopes(X) -> None:
    slopes = np.array([3.0, -1.0, 0.0])
    model = GPRegressor(kernels.Linear(np.ones(3))).fit(X, X @ slopes + 0.01 * X[:, 0] ** 2)
    wanted = slopes**2 * X.var(axis=0)
    found = model.importance()
    np.testing.assert_allclose(found.alone, wanted / wanted.sum(), atol=0.01)
    np.testing.assert_allclose(found.total, wanted / wanted.sum(), atol=0.01)
    assert str(found).split("\n")[1].startswith("x0 ") and found.order[0] == 0
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_shares_of_a_product_are_all_interaction(X) -> None:
    """x₀x₁ with independent columns of mean 0: each explains nothing alone and all of it in total."""
    Z = X - X.mean(axis=0)
    model = GPRegressor(PerColumn(kernels.RBF(3.0))).fit(Z, Z[:, 0] * Z[:, 1])
    found = model.importance()
    np.testing.assert_allclose(found.alone, 0, atol=0.06)
    np.testing.assert_allclose(found.total[:2], 1, atol=0.06)
    assert found.total[2] < 0.05


def test_every_kind_of_model_has_shares_of_one_kernel(X, signal, labels, values) -> None:
    classes = np.digitize(signal, [-0.7, 0.7])
    models = [
        GPClassifier().fit(X, labels),
        GPClassifier().fit(X, classes),
        GPClassifier(multi_class="one_vs_rest").fit(X, classes),
        GPRegressor(structure=Sparse(15)).fit(X, values),
    ]
    for model in models:
        found = model.importance()
        assert np.argmin(found.total) == 2, model
        assert np.all(found.alone <= found.total + 0.03) and found.total.sum() > 0.97


def test_names_come_from_the_table(X, values) -> None:
    pandas = pytest.importorskip("pandas")
    model = GPRegressor("shrunk").fit(pandas.DataFrame(X, columns=["age", "income", "noise"]), values)
    assert model.importance().names == ("age", "income", "noise")
    assert model.effect("income", points=2).column == 1
    assert [one.names for one in model.lengthscales()] == [("age",), ("income",), ("noise",)]


def test_lengthscales_have_the_standard_errors_of_the_learner(X, values) -> None:
    X, y = X[:, :2], values / 20
    found = GPRegressor(kernels.RBF(np.ones(2)), normalize_y=False).fit(X, y).lengthscales(0.8)
    fit = resolve("hybrid").fit(Model.full(kernels.RBF(np.ones(2)), Gaussian()), Data.of(X, y))
    errors = fit.curvature.standard_errors
    low, high = fit.curvature.intervals(0.8)["kernel.lengthscale"]
    for k, one in enumerate(found):
        assert one.names == (f"x{k}",) and one.spreads == pytest.approx(one.value / X[:, k].std())
        assert one.error == pytest.approx(errors[f"kernel.lengthscale[{k}]"], rel=1e-2)
        assert [one.low, one.high] == pytest.approx([low[k], high[k]], rel=2e-2)


def test_a_column_without_effect_leaves_the_other_errors(ard) -> None:
    first, second, useless = ard.lengthscales()
    assert 0 < first.error < 1 and 0 < second.error < 2
    assert useless.spreads > 100 and (np.isnan(useless.error) or useless.error > 3)


def test_lengthscales_of_parts_ties_and_classes(X, signal, values) -> None:
    parts = kernels.RBF(active_dims=[0, 2]) * kernels.Matern32(active_dims=[1]) + kernels.Linear()
    found = (
        GPRegressor(PerColumn(parts), hyperparameters=Hyperparameters(fixed="kernel.parts.0.parts.1.*"))
        .fit(X, values)
        .lengthscales()
    )
    assert [one.names for one in found] == [("x0",), ("x2",), ("x1",)]
    assert np.isnan(found[2].error) and found[0].error > 0
    pair = kernels.RBF(active_dims=[0]) + kernels.RBF(active_dims=[1])
    both = (
        GPRegressor(pair, hyperparameters=Hyperparameters(tied=["kernel.parts.*.lengthscale"]))
        .fit(X, values)
        .lengthscales()
    )
    assert both[0].value == both[1].value and both[0].error == both[1].error > 0
    own = GPClassifier("isotropic", class_kernels="own").fit(X, np.digitize(signal, [-0.7, 0.7])).lengthscales()
    assert [one.output for one in own] == ["0", "1", "2"] and len({one.value for one in own}) == 3


def test_vem_has_no_standard_errors(ard) -> None:
    model = copy.copy(ard).set_params(method="hybrid-vem")
    with pytest.raises(ValueError, match="fit with method='hybrid'"):
        model.lengthscales()


def test_ard_has_a_lengthscale_per_column_and_does_not_depend_on_their_units(X, values, ard) -> None:
    assert ard.kernel_.lengthscale.shape == (3,)
    units = np.array([1024.0, 1 / 64, 1.0])
    other = GPRegressor("ard").fit(X * units, values)
    np.testing.assert_allclose(other.predict(X * units), ard.predict(X), rtol=1e-4)
    np.testing.assert_allclose(other.importance().total, ard.importance().total, atol=1e-2)


def test_ard_is_a_setting_like_others(X, labels, values, ard, tmp_path) -> None:
    assert clone(ard).kernel == "ard" and GPRegressor().get_params()["kernel"] is None
    ard.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.kernel == "ard" and again.kernel_.lengthscale.shape == (3,)
    np.testing.assert_array_equal(again.effect(0, points=3).sd, ard.effect(0, points=3).sd)
    assert [one.value for one in again.lengthscales()] == [one.value for one in ard.lengthscales()]
    grid = {"gpclassifier__kernel": ["ard", "isotropic"], "gpclassifier__kernel__lengthscale": [2.0]}
    pipeline = make_pipeline(StandardScaler(), GPClassifier(method="laplace"))
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, labels)
    shape = search.best_estimator_[-1].kernel_.lengthscale.shape
    assert shape == ((3,) if search.best_params_["gpclassifier__kernel"] == "ard" else ())


def test_ard_with_a_kernel_starts_from_its_lengthscale(X, values) -> None:
    given = kernels.RBF(2.5, active_dims=[0, 2]) + kernels.Matern12(np.array([1.0, 2.0, 3.0]))
    kernel = GPRegressor(PerColumn(given), hyperparameters=Hyperparameters(fixed="*")).fit(X, values).kernel_
    np.testing.assert_array_equal(kernel.parts[0].lengthscale, [2.5, 2.5])
    np.testing.assert_array_equal(kernel.parts[1].lengthscale, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="give the kernel itself"):
        GPRegressor(PerColumn(kernels.Linear())).fit(X, values)


def test_columns_of_a_group_move_and_count_as_one(X, values) -> None:
    """Three 0/1 columns of one text: alone each would also be drawn where no text is, or two."""
    level = np.arange(len(X)) % 3
    table = np.column_stack([X[:, 0], np.eye(3)[level]])
    y = X[:, 0] + np.array([-2.0, 0.0, 2.0])[level]
    model = GPRegressor().fit(table, y)
    found = model.importance(groups={"level": [1, 2, 3]})
    wanted = np.array([X[:, 0].var(), 8 / 3])
    assert found.names == ("x0", "level")
    np.testing.assert_allclose(found.total, wanted / wanted.sum(), atol=0.05)
    for groups, words in (
        ({"level": [1, 9]}, "no column 9"),
        ({"level": []}, "has no columns"),
        ([[1, 2]], "must be given by name"),
        ({"one": [1, 2], "other": [2, 3]}, "in two groups"),
        ({"x0": [1, 2, 3]}, "name of a column outside"),
    ):
        with pytest.raises(ValueError, match=words):
            model.importance(groups=groups)


def test_errors_of_shares_are_those_of_the_slopes(X) -> None:
    """Of f = w·x the share of column j is w_j² Var x_j / Σ: its deviation over the posterior of w is the error."""
    rng = np.random.default_rng(0)
    model = GPRegressor(kernels.Linear(np.ones(3))).fit(X, X @ [1.0, 0.7, 0.2] + 2 * rng.normal(size=len(X)))
    mean, cov = (np.asarray(a) for a in model._latents[0].posterior.f_joint(np.vstack([np.zeros(3), np.eye(3)])))
    f = rng.multivariate_normal(mean, cov, size=4000)
    parts = (f[:, 1:] - f[:, :1]) ** 2 * X.var(axis=0)
    wanted = np.std(parts / parts.sum(axis=1, keepdims=True), axis=0)
    np.testing.assert_allclose(model.importance().total_error, wanted, rtol=0.25, atol=0.01)


def test_shrunk_lengthscales_lie_between_one_and_all_of_their_own(X, values) -> None:
    scaled = X * [1.0, 100.0, 1.0]  # the units of a column do not matter
    models = [GPRegressor("shrunk").fit(table, values) for table in (X, scaled)]
    first, second = (np.asarray(model.kernel_.lengthscale) for model in models)
    np.testing.assert_allclose(second / [1.0, 100.0, 1.0], first, rtol=1e-3)
    free = np.asarray(GPRegressor("ard").fit(X, values).kernel_.lengthscale)
    assert 1.0 < first[2] / first[0] < free[2] / free[0]
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(scaled), rtol=1e-4, atol=1e-3)
    with pytest.raises(ValueError, match="is for stationary kernels"):
        GPRegressor(PerColumn(kernels.Linear(), shrunk=True)).fit(X, values)
