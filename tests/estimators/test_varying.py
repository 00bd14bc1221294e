"""GPRegressor(varying=…): noise and zeros that depend on x, predictions in the units of y, refusals, files."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats

from sitewise import GPRegressor, Hyperparameters, Sparse, UserError, Varying, kernels, load, means, parts
from sitewise.app.commands.certify import run

ROWS = 40


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-3, 3, ROWS))[:, None]
    y = 100 + 10 * np.sin(2 * X[:, 0]) + 10 * np.exp(-1.5 + 0.5 * X[:, 0]) * rng.normal(size=ROWS)
    return GPRegressor(varying="scale").fit(X, y), X, y


NEW = np.array([[-2.0], [0.0], [2.0]])


def test_the_scale_is_found_in_the_units_of_y(fitted):
    model, *_ = fitted
    median, low, high = model.predict_parameter(NEW, level=0.99)
    truth = 10 * np.exp(-1.5 + 0.5 * NEW[:, 0])
    assert np.all((low < truth) & (truth < high)) and np.all(np.diff(median) > 0)
    mean, sd = model.predict_latent(NEW, return_std=True)
    np.testing.assert_allclose(median, np.exp(mean[:, 1]))
    assert mean.shape == sd.shape == (3, 2)
    both, cov = model.predict_latent(NEW, return_cov=True)
    np.testing.assert_allclose(both, mean)
    np.testing.assert_allclose(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)).T, sd, rtol=1e-6)


def test_predictions_agree_with_each_other(fitted):
    model, *_ = fitted
    mean, sd = model.predict(NEW, return_std=True)
    low, high = model.predict_interval(NEW, level=0.9)
    np.testing.assert_allclose(model.predict_cdf(NEW, low), 0.05, atol=1e-6)
    np.testing.assert_allclose(model.predict_cdf(NEW, high), 0.95, atol=1e-6)
    grid = np.linspace(mean[1] - 12 * sd[1], mean[1] + 12 * sd[1], 401)
    density = np.exp(model.log_predictive_density(np.repeat(NEW[1:2], 401, axis=0), grid))
    step = grid[1] - grid[0]
    np.testing.assert_allclose(np.sum(density) * step, 1.0, atol=1e-4)
    np.testing.assert_allclose(np.sum(density * grid) * step, mean[1], atol=1e-2)
    drawn = model.sample_y(NEW, 4000, random_state=0)
    np.testing.assert_allclose(drawn.std(axis=1), sd, rtol=0.1)
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 6 * sd / np.sqrt(4000))


def test_leave_one_out_and_evidence(fitted):
    model, *_ = fitted
    loo = model.loo_
    assert np.all(np.isfinite(loo.log_density)) and stats.kstest(loo.probability, "uniform").pvalue > 1e-3
    assert set(model.evidence_) == {"laplace", "elbo", "ep", "loo"}
    np.testing.assert_allclose(model.evidence_["loo"], np.sum(loo.log_density), rtol=1e-6)
    assert np.all(model.influence_ > 0)


def test_effects_of_both_functions(fitted):
    model, *_ = fitted
    grid = [-2.0, 0.0, 2.0]
    on_y = model.effect(0, grid=grid)
    np.testing.assert_allclose(on_y.mean, model.predict(NEW), rtol=1e-6)
    both = model.effect(0, grid=grid, response=False)
    assert both.outputs == ("f", "log scale") and both.mean.shape == (3, 2)
    latent = model.predict_latent(NEW)
    np.testing.assert_allclose(np.diff(both.mean, axis=0), np.diff(latent, axis=0), rtol=1e-6)
    assert "log scale" in str(both)


def test_files_and_pickles_keep_everything(fitted, tmp_path):
    model, *_ = fitted
    model.save(tmp_path / "model.sitewise")
    for again in (load(tmp_path / "model.sitewise"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict(NEW), model.predict(NEW))
        assert np.array_equal(again.predict_parameter(NEW), model.predict_parameter(NEW))
        assert again.get_params()["varying"] == "scale"


def test_inducing_inputs_agree_with_the_full_fit(fitted, tmp_path):
    full, X, y = fitted
    model = GPRegressor(varying="scale", structure=Sparse(25)).fit(X, y)
    assert model.converged_
    np.testing.assert_allclose(model.predict_parameter(NEW)[0], full.predict_parameter(NEW)[0], rtol=0.02)
    np.testing.assert_allclose(model.predict_interval(NEW), full.predict_interval(NEW), atol=0.3)
    densities = model.log_predictive_density(X, y), full.log_predictive_density(X, y)
    np.testing.assert_allclose(np.mean(densities[0]), np.mean(densities[1]), atol=0.02)
    own = Varying("scale", kernels.RBF(1.0))
    assert "RBF" in str(GPRegressor(varying=own, structure=Sparse(5)).fit(X, y).kernel_)
    model.save(tmp_path / "model.sitewise")
    for again in (load(tmp_path / "model.sitewise"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict_parameter(NEW), model.predict_parameter(NEW))


def test_the_second_function_has_its_own_columns():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(30, 2))
    y = X[:, 0] + np.exp(X[:, 1] - 1) * rng.normal(size=30)
    varying = Varying("scale", kernel=kernels.RBF(active_dims=(1,)))
    model = GPRegressor(kernels.RBF(active_dims=(0,)), varying=varying).fit(X, y)
    spread = model.predict_parameter([[0.0, -0.9], [0.9, -0.9], [0.0, 0.9]])[0]
    np.testing.assert_allclose(spread[0], spread[1])
    assert spread[2] > spread[0]
    assert model.kernel_[1].active_dims == (1,)
    # Each function has a column of its own, and no interaction.
    of_mean, of_scale = model.importance(), model.importance(function="log scale")
    np.testing.assert_allclose([of_mean.total, of_mean.alone], [[1, 0], [1, 0]], atol=0.02)
    np.testing.assert_allclose([of_scale.total, of_scale.alone], [[0, 1], [0, 1]], atol=0.02)
    found = model.interaction(0, 1, points=3)
    assert found.outputs == ("f", "log scale") and found.mean.shape == (3, 3, 2)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-8)
    with pytest.raises(ValueError, match="no function 'scale'; choose one of 'f', 'log scale'"):
        model.importance(function="scale")


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"varying": "shape"}, "choose 'scale'"),
        ({"varying": 3}, "names a parameter"),
        ({"method": "mcmc"}, "use 'hybrid', 'ep', 'vi' or 'laplace'"),
        ({"structure": "markov"}, "needs a full or sparse GP"),
        ({"integrate": True}, "integrate is for models with one"),
        ({"kernel": "average"}, "give one kernel"),
        ({"groups": [0]}, "give the kernel of the second"),
        ({"structure": [parts.Linear(0)]}, r"needs the parts of the second: varying=Varying\('scale', structure="),
        ({"varying": Varying("scale", structure=[parts.Linear(0)])}, "need a sum of parts as structure, too"),
        ({"structure": [parts.Linear(0)], "varying": Varying("scale", structure=[])}, "got an empty list"),
    ],
)
def test_refusals_before_the_fit(settings, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(**{"varying": "scale", **settings}).fit([[0.0], [1.0], [2.0]], [0.1, 0.4, -0.2])


def test_refusals_after_the_fit(fitted):
    model, *_ = fitted
    for name in ("lengthscales", "term_shares"):
        with pytest.raises(ValueError, match=f"{name} is for models with one latent function"):
            getattr(model, name)()
    assert not hasattr(model, "feature_importances_") and not hasattr(model, "outliers_")
    with pytest.raises(AttributeError, match="outliers_ is for one latent function and robust noise; fit without"):
        _ = model.outliers_
    with pytest.raises(UserError, match="two, because a parameter varies; fit it again without --varying"):
        run(model, "m.sitewise", 0.002, 256, 0)
    with pytest.raises(ValueError, match="Terms of a kernel"):
        model.effect(0, term=0)
    with pytest.raises(ValueError, match="varying='scale'"):
        GPRegressor(kernels.RBF(3.0)).fit(NEW, [0.1, 0.4, 0.8]).predict_parameter([[0.0]])
    with pytest.raises(ValueError, match="this model has one; leave it out"):
        GPRegressor(kernels.RBF(3.0)).fit(NEW, [0.1, 0.4, 0.8]).importance(function="f")


@pytest.fixture(scope="module")
def sums():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.uniform(0, 10, 150), rng.integers(0, 6, 150)])
    effects = rng.normal(size=6)
    noise = np.exp(-1 + 0.15 * X[:, 0]) * rng.normal(size=150)
    y = 50 + 10 * (np.sin(X[:, 0]) + effects[X[:, 1].astype(int)] + noise)
    varying = Varying("scale", structure=[parts.Linear(0)])
    return GPRegressor(structure=[parts.Series(0), parts.Levels(1)], varying=varying).fit(X, y), X, y


def test_both_functions_are_sums_of_parts(sums, tmp_path):
    model, X, y = sums
    assert model.converged_ and all(np.isfinite(value) for value in model.evidence_.values())
    new = np.array([[0.0, 1.0], [5.0, 7.0], [10.0, 2.0]])  # the linear effect is known at 0, and the level 7 is new
    median, low, high = model.predict_parameter(new, level=0.999)
    truth = 10 * np.exp(-1 + 0.15 * new[:, 0])
    assert np.all((low < truth * 1.2) & (truth / 1.2 < high)) and np.all(np.diff(median) > 0)
    low, high = model.predict_interval(new, level=0.9)
    np.testing.assert_allclose(model.predict_cdf(new, low), 0.05, atol=1e-6)
    one = GPRegressor(structure=[parts.Series(0), parts.Levels(1)]).fit(X, y)
    assert np.sum(model.loo_.log_density) > np.sum(one.loo_.log_density) + 5
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_interval(new), (low, high))
    assert [type(one.parts[0]) for one in model.kernel_] == [parts.Series, parts.Linear]


def test_rows_are_added_at_the_same_hyperparameters(sums):
    model, X, y = sums
    again = pickle.loads(pickle.dumps(model)).update(X[:3] + np.array([0.05, 0.0]), y[:3])
    assert len(again._X) == len(X) + 3 and repr(again.kernel_) == repr(model.kernel_)
    assert np.all(np.isfinite(again.predict(X)))


def test_the_mean_of_the_second_function_may_be_given(sums):
    _, X, y = sums
    varying = Varying("scale", structure=[parts.Constant(variance=1e-8)], mean=means.Constant(-0.5))
    settings = {"structure": [parts.Levels(1)], "hyperparameters": Hyperparameters(fixed="second.mean.*")}
    model = GPRegressor(varying=varying, **settings).fit(X, y)
    np.testing.assert_allclose(model.predict_parameter(X[:2])[0], model.y_scale_ * np.exp(-0.5), rtol=1e-3)


def test_columns_that_only_the_second_function_uses_are_used(sums):
    _, X, y = sums
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPRegressor(structure=[parts.Levels(1)], varying=Varying("scale", structure=parts.Linear(0))).fit(X, y)
    with pytest.warns(UserWarning, match="No part uses column 0"):
        GPRegressor(structure=[parts.Levels(1)], varying=Varying("scale", structure=parts.Levels(1))).fit(X, y)


def test_ep_learns_the_same_scale(fitted):
    model, X, y = fitted
    other = GPRegressor(varying="scale", method="ep").fit(X, y)
    assert other.converged_
    np.testing.assert_allclose(other.predict_parameter(NEW)[0], model.predict_parameter(NEW)[0], rtol=0.1)
