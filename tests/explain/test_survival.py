"""Lifetimes by event= and until=, counts by pieces of time, points on a grid."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sitewise import GPClassifier, GPRegressor, Hyperparameters, TableEncoder, load, save
from sitewise.estimators import gridded_points, piecewise_exponential, survival_curve

N = 150


@pytest.fixture(scope="module")
def lifetimes():
    """Weibull lifetimes of shape 2 and scale 1 or e, two fifths of them right-censored."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, N).astype(float)
    time = np.exp(x) * rng.weibull(2.0, N)
    stop = rng.uniform(0.3, 4.0, N)
    return x[:, None], np.minimum(time, stop), (time <= stop).astype(float)


@pytest.fixture(scope="module")
def weibull(lifetimes):
    X, time, event = lifetimes
    return GPRegressor(likelihood="weibull").fit(X, time, event=event)


def test_the_shape_and_the_curve_come_back(weibull, lifetimes):
    """At each of two places the curve is that of the most likely scale, (Σ tᵏ / events)^(1/k)."""
    X, time, event = lifetimes
    shape = float(weibull.likelihood_.shape)
    assert weibull.converged_ and shape == pytest.approx(2.0, rel=0.2)
    times = np.array([0.5, 1.0, 2.0, 4.0])
    found = survival_curve(weibull, [[0.0], [1.0]], times)
    for k, place in enumerate((0.0, 1.0)):
        here = X[:, 0] == place
        scale = (np.sum(time[here] ** shape) / np.sum(event[here])) ** (1 / shape)
        np.testing.assert_allclose(found.mean[k], np.exp(-((times / scale) ** shape)), atol=0.03)
    assert np.all(found.low <= found.mean) and np.all(found.mean <= found.high)
    # The mean over draws of f is the integral over f.
    np.testing.assert_allclose(found.mean[0], 1 - weibull.predict_cdf(np.zeros((4, 1)), times), atol=0.01)


def test_censoring_that_is_ignored_makes_lifetimes_short(weibull, lifetimes):
    X, time, _ = lifetimes
    naive = GPRegressor(likelihood="weibull").fit(X, time)
    assert np.all(naive.predict([[0.0], [1.0]]) < 0.96 * weibull.predict([[0.0], [1.0]]))


def test_three_ways_to_tell_the_same_rows(weibull, lifetimes):
    """event, bounds and until; a density of an observed row, a probability of a censored one."""
    X, time, event = lifetimes
    by_until = GPRegressor(likelihood="weibull").fit(X, time, until=np.where(event == 1, time, np.inf))
    by_bound = GPRegressor(likelihood="weibull").fit(X, time, upper=np.where(event == 1, np.inf, time))
    for other in (by_until, by_bound):
        np.testing.assert_allclose(other.predict(X[:3]), weibull.predict(X[:3]), rtol=1e-9)
    found = weibull.log_predictive_density([[0.0]], [1.2], event=0)
    np.testing.assert_allclose(found, np.log1p(-weibull.predict_cdf([[0.0]], 1.2)), rtol=1e-6)


def test_an_interval_has_the_probability_of_its_ends(weibull):
    by_until = GPRegressor(
        weibull.kernel_, mean=weibull.mean_, likelihood=weibull.likelihood_, hyperparameters=Hyperparameters(fixed="*")
    )
    by_until.fit([[0.0], [1.0], [0.0]], [0.5, 1.0, 0.0], until=[1.5, 1.0, 2.0])  # between, seen, before
    both = by_until.predict_cdf([[0.0], [0.0]], [0.5, 1.5])
    found = by_until.log_predictive_density([[0.0]], [0.5], until=1.5)
    np.testing.assert_allclose(found, np.log(both[1] - both[0]), rtol=1e-6)


def test_files_hold_censored_lifetimes(weibull, tmp_path):
    save(weibull, tmp_path / "model.sitewise")
    again = load(tmp_path / "model.sitewise")
    np.testing.assert_array_equal(again.predict([[0.5]]), weibull.predict([[0.5]]))


def test_wrong_rows_are_refused_in_words(lifetimes):
    X, time, event = lifetimes
    model = GPRegressor(likelihood="weibull")
    with pytest.raises(ValueError, match="lifetimes must be positive"):
        model.fit(X, time - 1)
    with pytest.raises(ValueError, match="give only one of bounds, event or until"):
        model.fit(X, time, event=event, upper=2.0)
    with pytest.raises(ValueError, match="event must hold 1"):
        model.fit(X, time, event=2 * event)
    with pytest.raises(ValueError, match="event is for likelihood='censored_gaussian' or "):
        GPRegressor().fit(X, time, event=event)
    for name, bad in (("tweedie", "amounts"), ("zero_inflated_poisson", "counts"), ("von_mises", "radians")):
        with pytest.raises(ValueError, match=bad):
            GPRegressor(likelihood=name).fit(X, 10 * time - 5)


def test_pieces_of_time_hold_every_event_and_all_time_at_risk(lifetimes):
    X, time, event = lifetimes
    cuts = np.array([0.0, 0.5, 1.0, 2.0, 5.0])
    rows = piecewise_exponential(X, time, event, cuts)
    assert rows.counts.sum() == event.sum()
    np.testing.assert_allclose(np.bincount(rows.subject, rows.exposure), time)
    assert np.all(rows.X[:, 0] == X[rows.subject, 0]) and set(rows.X[:, 1]) <= {0.25, 0.75, 1.5, 3.5}
    with pytest.raises(ValueError, match="increasing"):
        piecewise_exponential(X, time, event, [1.0, 0.5])


def test_the_curve_of_pieces_is_that_of_its_hazard(lifetimes):
    """With f held at the prior's mean, log ½, S(t) = e^(−t/2) at and between the cuts."""
    from sitewise import kernels, means

    cuts = [0.0, 1.0, 3.0]
    rows = piecewise_exponential(*lifetimes, cuts)
    flat = GPRegressor(
        kernels.Matern52(1.0, 1e-12),
        mean=means.Constant(np.log(0.5)),
        likelihood="poisson",
        hyperparameters=Hyperparameters(fixed="*"),
    ).fit(rows.X, rows.counts, exposure=rows.exposure)
    found = survival_curve(flat, [[0.0]], [0.4, 1.0, 2.5], cuts=cuts, n_samples=20)
    np.testing.assert_allclose(found.mean, np.exp([[-0.2, -0.5, -1.25]]), atol=1e-4)
    with pytest.raises(ValueError, match="between the first and the last cut, 0 and 3"):
        survival_curve(flat, [[0.0]], [4.0], cuts=cuts)
    with pytest.raises(ValueError, match="A survival curve needs a model of lifetimes"):
        survival_curve(flat, [[0.0]], [1.0])


def test_cells_hold_every_point_and_the_whole_area():
    rng = np.random.default_rng(0)
    points = rng.uniform([0, -1], [2, 1], (70, 2))
    cells = gridded_points(points, (5, 4), [(0, 2), (-1, 1)])
    assert cells.counts.sum() == 70 and cells.exposure.sum() == pytest.approx(4.0) and len(cells.X) == 20
    first = np.sum(np.all((points >= [0, -1]) & (points < [0.4, -0.5]), axis=1))
    assert cells.counts[0] == first and np.allclose(cells.X[0], [0.2, -0.75])
    with pytest.raises(ValueError, match="outside of the extent"):
        gridded_points(points, 3, [(0, 1), (-1, 1)])


@pytest.fixture(scope="module")
def pieces():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 1))
    time = np.minimum(rng.exponential(size=40), 2.0)
    return X, piecewise_exponential(X, time, (time < 2).astype(float), [0, 0.5, 1, 2])


@pytest.mark.parametrize("likelihood", ["negative_binomial", "zero_inflated_poisson", "gaussian", "gamma"])
def test_a_likelihood_that_is_no_lifetime_has_no_curve(likelihood, pieces) -> None:
    """Of the counts, only Poisson's are the likelihood of a hazard."""
    X, rows = pieces
    counts = likelihood in ("negative_binomial", "zero_inflated_poisson")
    side = {"exposure": rows.exposure} if counts else {}
    model = GPRegressor(likelihood=likelihood, hyperparameters=Hyperparameters(fixed="*"))
    model.fit(rows.X, rows.counts if counts else rows.counts + 0.5, **side)
    with pytest.raises(ValueError, match="A survival curve needs a model of lifetimes, likelihood='weibull'"):
        survival_curve(model, X[:2], [1.0], cuts=[0, 0.5, 1, 2])


def test_counts_that_are_no_pieces_have_no_curve(pieces, weibull) -> None:
    X, rows = pieces
    poisson = GPRegressor(likelihood="poisson", hyperparameters=Hyperparameters(fixed="*"))
    for model in (
        clone(poisson).fit(rows.X, rows.counts),
        clone(poisson).fit(rows.X, 3 * rows.counts, exposure=rows.exposure),
    ):
        with pytest.raises(ValueError, match="which are 0 or 1 and have an exposure"):
            survival_curve(model, X[:2], [1.0], cuts=[0, 0.5, 1, 2])
    right = clone(poisson).fit(rows.X, rows.counts, exposure=rows.exposure)
    with pytest.raises(ValueError, match="cuts must be the cuts that piecewise_exponential had"):
        survival_curve(right, X[:2], [1.0], cuts=[0, 1, 2])
    with pytest.raises(ValueError, match="with its cuts"):
        survival_curve(right, X[:2], [1.0])
    with pytest.raises(ValueError, match="leave them out"):
        survival_curve(weibull, [[0.0]], [1.0], cuts=[0, 1])
    classifier = GPClassifier(method="laplace").fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="A survival curve needs a model of lifetimes"):
        survival_curve(classifier, X[:2], [1.0])
    with pytest.raises(ValueError, match="a Pipeline that ends in one; got str"):
        survival_curve("model", X[:2], [1.0])
    assert np.all(np.diff(survival_curve(right, X[:2], [0.2, 0.5, 1.9], cuts=[0, 0.5, 1, 2]).mean) < 0)


def test_pieces_of_a_data_frame_and_a_pipeline_have_the_curve_of_the_array(pieces) -> None:
    pandas = pytest.importorskip("pandas")
    X, _ = pieces
    cuts, group = [0, 0.5, 1, 2], np.where(np.arange(40) % 2 == 0, "old", "new")
    time = np.random.default_rng(3).exponential(size=40)
    frame = pandas.DataFrame({"age": X[:, 0], "drug": group})
    table = np.column_stack([X, group == "old"])
    framed, plain = (piecewise_exponential(one, time, np.ones(40), cuts) for one in (frame, table))
    assert list(framed.X) == ["age", "drug", "interval_centre"]
    np.testing.assert_array_equal(framed.counts, plain.counts)
    gp = GPRegressor(likelihood="poisson", kernel="isotropic")
    by_name = make_pipeline(TableEncoder(), clone(gp)).fit(
        framed.X, framed.counts, gpregressor__exposure=framed.exposure
    )
    by_number = make_pipeline(StandardScaler(), clone(gp)).fit(
        plain.X, plain.counts, gpregressor__exposure=plain.exposure
    )
    found = survival_curve(by_name, frame[:2], [0.5, 1.5], cuts=cuts)
    assert found.mean.shape == (2, 2) and np.all(np.diff(found.mean) < 0)
    inside = survival_curve(by_number, table[:2], [0.5, 1.5], cuts=cuts)
    np.testing.assert_allclose(inside.mean, found.mean, atol=0.1)
    with pytest.raises(ValueError, match="cuts must be the cuts"):
        survival_curve(by_name, frame[:2], [0.5], cuts=[0, 1, 2])
    with pytest.raises(ValueError, match="rename it"):
        piecewise_exponential(framed.X, np.ones(len(framed.X)), np.ones(len(framed.X)), cuts)


def test_one_cell_counts_every_point():
    cells = gridded_points([[0.1, 0.2], [0.9, 0.8], [0.8, 0.9]], 1, [(0, 2), (-1, 1)])
    assert (cells.X.tolist(), cells.counts.tolist(), cells.exposure.tolist()) == ([[1.0, 0.0]], [3.0], [4.0])
