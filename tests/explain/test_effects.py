"""Effects and interactions against dense algebra and sampling: moments of averages are exact for every posterior."""

from types import SimpleNamespace

import numpy as np
import pytest

from sitewise import GPClassifier, GPRegressor, Hyperparameters, Method, PerColumn, Series, Sparse, kernels
from sitewise.explain.effects import background

MCMC = {"draws": 15, "warmup": 0, "chains": 2}


@pytest.fixture(scope="module")
def softmax(X, signal):
    """Three classes, each with its own kernel."""
    classes = np.digitize(signal, [-0.7, 0.7])
    return GPClassifier(class_kernels="own").fit(X, classes)


@pytest.fixture(scope="module")
def sampled(X, values):
    return GPRegressor(method=Method("mcmc", **MCMC), random_state=0).fit(X, values)


def moved(X, column, value):
    out = X.copy()
    out[:, column] = value
    return out


def dense_effect(model, X, column, value):
    """Mean and deviation of average f at the value minus average f, from the covariance matrix of all rows at once."""
    rows = np.vstack([moved(X, column, value), X])
    mean, cov = model.predict_latent(rows, return_cov=True)
    weight = np.repeat([1.0, -1.0], len(X)) / len(X)
    return weight @ mean, np.sqrt(weight @ cov @ weight)


@pytest.mark.parametrize("kind", ["full", "sparse", "laplace", "mcmc"])
def test_latent_effects_are_those_of_dense_algebra(kind, X, values, labels, regressor, sampled) -> None:
    if kind == "sparse":
        model = GPRegressor(structure=Sparse(15)).fit(X, values)
    elif kind == "laplace":
        model = GPClassifier(method="laplace").fit(X, labels)
    else:
        model = sampled if kind == "mcmc" else regressor
    found = model.effect(1, response=False, grid=[-1.5, 0.4])
    for k, value in enumerate(found.grid):
        mean, sd = dense_effect(model, X, 1, value)
        np.testing.assert_allclose([found.mean[k], found.sd[k]], [mean, sd], rtol=1e-6)
    np.testing.assert_allclose(found.high - found.mean, 1.6448536 * found.sd, rtol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_sums_over_rows_and_classes_are_those_of_dense_algebra(shared, X, signal, softmax) -> None:
    model = GPClassifier("shrunk").fit(X, np.digitize(signal, [-0.7, 0.7])) if shared else softmax
    (latent,) = model._latents
    (q,), _ = latent.posteriors()
    rng = np.random.default_rng(3)
    rows, weight = rng.normal(size=(2, 4, 3)), rng.normal(size=(5, 3, 2, 4))
    mean, var = q.latent.sums(rows, weight)
    for g in range(2):
        dense_mean, dense_cov = (np.asarray(a) for a in q.latent.joint(rows[g]))
        for s in range(5):
            w = weight[s, :, g].ravel()
            np.testing.assert_allclose([mean[s, g], var[s, g]], [w @ dense_mean, w @ dense_cov @ w], rtol=1e-6)


def test_latent_effects_of_classes_add_up_to_zero(softmax) -> None:
    found = softmax.effect(0, response=False, points=3)
    assert found.mean.shape == (3, 3) and found.outputs == ("0", "1", "2")
    np.testing.assert_allclose(found.mean.sum(axis=1), 0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["classifier", "one_vs_rest", "poisson", "softmax", "mcmc", "regressor"])
def test_a_response_is_the_average_prediction(which, X, signal, request) -> None:
    if which == "one_vs_rest":
        model = GPClassifier(multi_class="one_vs_rest", method="ep").fit(X, np.digitize(signal, [-0.7, 0.7]))
    elif which == "poisson":
        model = GPRegressor(likelihood="poisson").fit(X, np.round(np.exp(signal)))
    else:
        model = request.getfixturevalue({"mcmc": "sampled"}.get(which, which))
    found = model.effect(0, grid=[0.5])
    rows = moved(X, 0, 0.5)
    predicted = model.predict_proba(rows).mean(axis=0) if hasattr(model, "classes_") else [model.predict(rows).mean()]
    wanted = predicted[-1] if found.mean.ndim == 1 else predicted
    # Joint classes have the mean of draws.
    np.testing.assert_allclose(found.mean[0], wanted, **({"atol": 0.02} if which == "softmax" else {"rtol": 1e-6}))
    assert np.all((found.low < found.mean) & (found.mean < found.high) & (found.sd > 0))


def test_the_band_of_a_probability_is_that_of_joint_draws(X, classifier) -> None:
    found = classifier.effect(0, grid=[-1.0, 1.0], level=0.8)
    (latent,) = classifier._latents
    for k, value in enumerate(found.grid):
        average = np.exp(latent.draw(1, moved(X, 0, value), 4000).log_prob(1.0)).mean(axis=1)
        assert abs(found.sd[k] / average.std() - 1) < 0.08
        np.testing.assert_allclose([found.low[k], found.high[k]], np.quantile(average, [0.1, 0.9]), atol=0.01)


def test_the_band_of_joint_classes_is_that_of_joint_draws(X, softmax) -> None:
    found = softmax.effect(1, grid=[0.8], rows=50)
    f = softmax._latents[0].draw(1, moved(X, 1, 0.8), 4000).f
    odds = np.exp(f - f.max(axis=1, keepdims=True))
    average = (odds / odds.sum(axis=1, keepdims=True)).mean(axis=2)
    np.testing.assert_allclose(found.sd[0], average.std(axis=0), rtol=0.08)
    np.testing.assert_allclose(found.mean[0], average.mean(axis=0), atol=0.01)


def test_an_additive_function_has_no_interaction(X, values) -> None:
    parts = kernels.RBF(active_dims=[0]) + kernels.RBF(active_dims=[1]) + kernels.RBF(active_dims=[2])
    additive = GPRegressor(parts).fit(X, values)
    found = additive.interaction(0, 1, points=3)
    assert found.mean.shape == found.sd.shape == (3, 3) and found.names == ("x0", "x1")
    assert np.max(np.abs(found.mean)) < 1e-9 * additive.y_scale_
    # Nor is the posterior uncertain of that.
    assert np.max(found.sd) < 1e-5 * additive.y_scale_
    shares = additive.importance()
    np.testing.assert_allclose(shares.alone, shares.total, atol=0.02)


def test_a_product_has_the_interaction_of_a_product(X) -> None:
    model = GPRegressor(PerColumn(kernels.RBF(2.0))).fit(X, 10 * X[:, 0] * X[:, 1])
    found = model.interaction(points=3)
    assert sorted(found.names) == ["x0", "x1"]
    middle = X[:, list(found.columns)].mean(axis=0)
    wanted = 10 * np.outer(found.grids[0] - middle[0], found.grids[1] - middle[1])
    # F_jk − F_j − F_k + F_0 = (u − ū)(v − v̄) + cov(x_j, x_k) over the rows.
    wanted += 10 * np.cov(X[:, list(found.columns)].T, bias=True)[0, 1]
    np.testing.assert_allclose(found.mean, wanted, atol=0.5)
    assert model.importance().alone[0] < 0.1 < model.importance().total[0]


def test_draws_have_importances_and_lengthscales(sampled) -> None:
    found = sampled.importance()
    assert np.argmin(found.total) == 2 and found.total.sum() > 0.97
    (one,) = sampled.lengthscales()
    assert one.low < one.value < one.high
    assert one.error == pytest.approx(np.std(np.log(sampled.samples_.parameters["kernel.lengthscale"])))


def test_grids_weights_and_rows(X, values) -> None:
    table = np.column_stack([X, np.arange(len(X)) % 3])
    weight = np.where(np.arange(len(X)) < 30, 2.0, 0.0)
    model = GPRegressor().fit(table, values, sample_weight=weight)
    last = model.effect(3)
    assert last.listed and last.grid.tolist() == [0, 1, 2] and last.rows == 30
    first = model.effect(0, points=5)
    assert not first.listed and first.grid[0] >= table[:30, 0].min() and len(first.mean) == 5
    assert model.effect(0, points=5, rows=10).rows == 10
    np.testing.assert_allclose(model.effect(0, table[:30], points=5).mean, first.mean)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("age",), "There is no column 'age'; give one of x0, x1, x2"),
        ((7,), "There is no column 7"),
        ((0, None, {"level": 1.0}), "level must lie between 0 and 1"),
        ((0, None, {"grid": [np.nan]}), "grid must be a list of finite numbers"),
        ((0, None, {"rows": 0}), "rows must be a whole number of at least 1"),
    ],
)
def test_errors_say_what_to_do(arguments, words, regressor) -> None:
    *given, settings = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(ValueError, match=words):
        regressor.effect(*given, **settings)


def test_an_interaction_is_of_two_columns(regressor) -> None:
    with pytest.raises(ValueError, match="given twice"):
        regressor.interaction(1, 1)
    with pytest.raises(ValueError, match="Name both columns"):
        regressor.interaction(1)


def test_a_model_of_one_column_is_sent_to_its_effect(values) -> None:
    model = GPRegressor(structure="markov").fit(np.arange(50.0)[:, None], values)
    with pytest.raises(ValueError, match=r"use effect\('x0'\) instead") as problem:
        model.interaction()
    advised = str(problem.value).split("use ")[1].removesuffix(" instead.")
    assert np.all(np.isfinite(eval(f"model.{advised}").mean))


def test_groups_and_series_are_listed_level_by_level(X, values) -> None:
    """More than ten levels, unevenly numbered: one value per level, never values in between."""
    codes = np.array([3.0, 7.0, 11.0, 12.0, 20.0, 21.0, 22.0, 40.0, 41.0, 55.0, 70.0, 99.0])[np.arange(50) % 12]
    table = np.column_stack([X[:, 0], codes])
    for model in (GPRegressor(groups=1), GPRegressor(kernels.RBF(active_dims=0) * kernels.Index(1))):
        found = model.fit(table, values).effect(1, response=False)
        assert found.listed and found.grid.tolist() == np.unique(codes).tolist()
        assert model.effect(1, grid=[3.0, 1000.0]).grid.tolist() == [3, 1000]  # a new group has the prior
    times = np.column_stack([codes, np.arange(50.0)])
    series = GPRegressor(structure=Series(0)).fit(times, values)
    assert series.effect(0).grid.tolist() == np.unique(codes).tolist()
    assert [one.names for one in series.lengthscales()] == [("x1",)]


TERMS = kernels.RBF(3.0, name="trend") + kernels.Periodic(1.0, 1.0, 0.5, name="season")


@pytest.fixture(scope="module")
def seasonal():
    time = np.sort(np.random.default_rng(0).uniform(10.3, 16.2, 60))[:, None]
    y = np.sin(2 * np.pi * time[:, 0]) + 0.5 * time[:, 0] + 0.05 * np.cos(31 * np.arange(60))
    return GPRegressor(TERMS, hyperparameters=Hyperparameters(fixed="*")).fit(time, y)


@pytest.mark.parametrize("chosen", ["season", "trend", ["season", "trend"], [0, 1]])
def test_effects_of_terms_are_those_of_dense_algebra(chosen, seasonal) -> None:
    found = seasonal.effect(0, term=chosen, grid=[11.0, 12.25])
    (q,), _ = seasonal._latents[0].posteriors()
    part = q.part(chosen)
    assert found.term == {"season": "season", "trend": "trend"}.get(str(chosen), found.term) and not found.response
    for k, value in enumerate(found.grid):
        mean, cov = (np.asarray(a) for a in part.f_joint(np.vstack([[[value]], seasonal._X])))
        weight = np.append(1.0, np.full(60, -1 / 60))
        wanted = seasonal.y_scale_ * np.array([weight @ mean, np.sqrt(weight @ cov @ weight)])
        np.testing.assert_allclose([found.mean[k], found.sd[k]], wanted, rtol=1e-6)


def test_a_season_is_shown_over_one_period_and_its_sum_finely_enough(seasonal) -> None:
    season = seasonal.effect(0, term="season")
    np.testing.assert_allclose(season.grid[[0, -1]], [11.0, 12.0])  # from a multiple of the period
    assert season.mean[0] == pytest.approx(season.mean[-1]) and np.ptp(season.mean) > 1.5
    both, trend = seasonal.effect(0, term=["season", "trend"]), seasonal.effect(0, term="trend")
    assert len(both.grid) >= 12 * 5 and len(trend.grid) == len(both.grid)
    np.testing.assert_allclose(both.mean, seasonal.effect(0, response=False).mean, atol=1e-8)
    assert np.all(np.diff(trend.mean) > 0)


def test_terms_of_a_markov_chain_have_the_effects_of_the_full_gp(seasonal) -> None:
    kernel = kernels.Matern32(3.0, name="trend") + kernels.Cosine(1.0, name="season")
    fixed = Hyperparameters(fixed="*")
    pair = [
        GPRegressor(kernel, structure=kind, hyperparameters=fixed).fit(seasonal._X, seasonal._y)
        for kind in ("full", "markov")
    ]
    one, other = (model.effect(0, term="season", points=5) for model in pair)
    np.testing.assert_allclose(one.grid, other.grid)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.sd, other.sd, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"term": "week"}, "There is no part 'week'; choose from 'trend', 'season'"),
        ({"term": "season", "response": True}, "leave response out"),
        ({"term": []}, "Name at least one part"),
    ],
)
def test_terms_that_do_not_exist_are_refused(settings, words, seasonal) -> None:
    with pytest.raises(ValueError, match=words):
        seasonal.effect(0, **settings)


def test_a_term_of_another_column_is_refused(X, values) -> None:
    parts = kernels.RBF(active_dims=[0]) + kernels.RBF(active_dims=[1], name="second")
    model = GPRegressor(parts, hyperparameters=Hyperparameters(fixed="*")).fit(X, values)
    with pytest.raises(ValueError, match="'second' does not depend on the column 'x0'"):
        model.effect(0, term="second")
    averaged = GPRegressor("average").fit(X, values)
    with pytest.raises(ValueError, match="Kernels that are averaged have no terms in common"):
        averaged.effect(0, term=0)


@pytest.mark.parametrize("rows", [3, 10])
def test_the_weights_of_the_rows_add_up_to_one_and_no_row_of_weight_0_is_used(rows):
    model = SimpleNamespace(_X=np.arange(8.0)[:, None], _weight=np.array([0, 1, 2, 0.5, 3, 1, 1, 0]))
    over = background(model, None, rows)
    assert over.share.sum() == pytest.approx(1.0) and len(over.X) == min(rows, 6)
    assert not {0.0, 7.0} & set(over.X[:, 0])
