"""Displays: what is drawn is what was computed, words say what it is, and errors say what to do."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sitewise import (
    EffectDisplay,
    GPClassifier,
    GPRegressor,
    Hyperparameters,
    PerColumn,
    ReliabilityDisplay,
    Sparse,
    SurfaceDisplay,
    TableEncoder,
    kernels,
    means,
)

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def test_effects_are_drawn_by_importance_with_words(classifier) -> None:
    shown = EffectDisplay.from_estimator(classifier, points=4)
    shares = classifier.importance()
    assert [one.column for one in shown.effects] == shares.order.tolist()
    assert len(shown.axes_) == 3 and shown.figure_ is shown.axes_[0].figure
    line = shown.axes_[0].get_lines()[-2]  # the last one has the deciles
    np.testing.assert_allclose(line.get_ydata(), classifier.effect(shown.effects[0].column, points=4).mean)
    assert shown.axes_[0].get_ylabel() == "average probability of yes"
    assert "50 rows" in shown.caption and "90 %" in shown.caption


def test_effects_of_a_pipeline_are_in_the_units_of_its_table(X, values) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(100 + 10 * X, columns=["age", "income", "noise"])
    model = make_pipeline(StandardScaler(), GPRegressor()).fit(table, values)
    shown = EffectDisplay.from_estimator(model, table[:40], features=["income"], points=3)
    (one,) = shown.effects
    assert one.name == shown.axes_[0].get_xlabel() == "income" and one.rows == 40
    np.testing.assert_allclose(one.grid, np.linspace(*np.quantile(table["income"], [0.02, 0.98]), 3))
    rows = table[:40].copy()
    rows["income"] = one.grid[0]
    assert one.mean[0] == pytest.approx(model.predict(rows).mean(), rel=1e-6)


def test_effects_after_a_table_encoder_are_in_the_units_of_the_table(X, values) -> None:
    paid = 100 + 10 * X[:, 0]
    table = {"paid": [f"${p:.4f}" for p in paid], "shop": np.where(X[:, 1] > 0, "north", "south")}
    model = make_pipeline(TableEncoder(), GPRegressor()).fit(table, values)
    one, other = EffectDisplay.from_estimator(model, features=["paid", "shop"], points=3).effects
    np.testing.assert_allclose(one.grid, np.linspace(*np.quantile(paid, [0.02, 0.98]), 3), rtol=1e-5)
    assert other.grid.tolist() == ["north", "south"]
    moved = {**table, "paid": [f"${one.grid[0]:.4f}"] * len(values)}
    assert one.mean[0] == pytest.approx(model.predict(moved).mean(), rel=1e-4)


def test_levels_are_points_with_bars_and_many_groups_are_cut(X, values) -> None:
    group = np.arange(50) % 23
    model = GPRegressor(groups=1).fit(np.column_stack([X[:, 0], 10.0 * group]), values)
    shown = EffectDisplay.from_estimator(model, features=[1])
    (one,) = shown.effects
    assert one.listed and one.grid.tolist() == (10.0 * np.arange(20)).tolist()  # of the most frequent, the first
    assert [text.get_text() for text in shown.axes_[0].get_xticklabels()] == [f"{10 * k}" for k in range(20)]
    assert not len(shown.ticks[0]) and "deciles" not in shown.caption
    assert shown.caption.endswith("x1: the 20 most frequent of 23 levels.")
    assert len(model.effect(1).grid) == 23


def test_a_season_a_trend_and_their_sum_have_panels() -> None:
    time = np.linspace(0, 6, 80)[:, None]
    kernel = kernels.RBF(3.0, name="trend") + kernels.Periodic(1.0, 1.0, name="season")
    y = np.sin(2 * np.pi * time[:, 0]) + 0.5 * time[:, 0] + 0.05 * np.cos(31 * np.arange(80))
    model = GPRegressor(kernel, hyperparameters=Hyperparameters(fixed="kernel*")).fit(time, y)
    shown = EffectDisplay.from_estimator(model, features=[(0, "season"), (0, "trend"), (0, ["season", "trend"]), 0])
    assert [one.term for one in shown.effects] == ["season", "trend", "season + trend", ""]
    assert [a.get_title() for a in shown.axes_[:2]] == ["x0: season", "x0: trend"]
    assert [len(ticks) for ticks in shown.ticks] == [0, 9, 9, 9]
    assert not any(one.response for one in shown.effects) and shown.axes_[0].get_ylabel() == "average effect on y"
    np.testing.assert_allclose(shown.effects[2].mean, shown.effects[3].mean, atol=1e-6)


@pytest.mark.slow
def test_effects_go_to_given_axes_and_classes_have_lines(X, signal) -> None:
    model = GPClassifier(multi_class="one_vs_rest").fit(X, np.digitize(signal, [-0.7, 0.7]))
    figure, axes = pyplot.subplots(1, 2)
    shown = EffectDisplay.from_estimator(model, features=[0, "x1"], ax=axes, points=3)
    assert shown.figure_ is figure and len(axes[0].get_legend().get_texts()) == 3
    assert len({line.get_linestyle() for line in axes[0].get_lines()[:9]}) == 4  # three classes, and ends of bands
    with pytest.raises(ValueError, match="give one per column"):
        shown.plot(axes[0])
    with pytest.raises(ValueError, match="a Pipeline that ends in one; got LogisticRegression"):
        EffectDisplay.from_estimator(LogisticRegression())


def test_reliability_has_bins_of_equal_mass_and_binomial_intervals() -> None:
    p = np.linspace(0.01, 0.99, 200)
    hit = np.random.default_rng(0).uniform(size=200) < p
    shown = ReliabilityDisplay(p, hit, "yes", "new rows", bins=5).plot()
    assert shown.count.tolist() == [40] * 5 and "40 per point" in shown.caption
    np.testing.assert_allclose(shown.observed, [hit[k * 40 : k * 40 + 40].mean() for k in range(5)])
    k, n, z = hit[:40].sum(), 40, stats.norm.ppf(0.95)
    centre, reach = (k + z**2 / 2) / (n + z**2), z * np.sqrt(k * (n - k) / n + z**2 / 4) / (n + z**2)
    np.testing.assert_allclose([shown.low[0], shown.high[0]], [centre - reach, centre + reach])
    assert shown.ax_.get_xlabel() == "predicted probability of yes"
    # Equal probabilities are one point.
    assert ReliabilityDisplay(np.repeat([0.2, 0.9], 10), np.repeat([False, True], 10), "", "").count.tolist() == [
        10,
        10,
    ]


def test_reliability_of_estimators(X, labels, classifier) -> None:
    left_out = ReliabilityDisplay.from_estimator(classifier, bins=4)
    np.testing.assert_array_equal(left_out.probability, classifier.loo_.probability[:, 1])
    np.testing.assert_array_equal(left_out.hit, labels == "yes")
    other = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, labels)
    no = ReliabilityDisplay.from_estimator(other, X, labels, positive="no")
    np.testing.assert_array_equal(no.hit, labels == "no")
    np.testing.assert_allclose(no.probability, other.predict_proba(X)[:, 0])
    with pytest.raises(ValueError, match="give X and y of new rows"):
        ReliabilityDisplay.from_estimator(other)
    with pytest.raises(ValueError, match="positive must be one of the classes 'no', 'yes'"):
        ReliabilityDisplay.from_estimator(classifier, positive="maybe")


@pytest.mark.parametrize("ard", [False, True])
def test_the_top_of_a_surface_is_the_fit(ard, X, labels) -> None:
    model = GPClassifier(PerColumn(kernels.RBF()) if ard else kernels.RBF()).fit(X[:, :2], labels)
    shown = SurfaceDisplay.from_estimator(model, points=5, reach=0.6)
    assert np.unravel_index(np.argmax(shown.evidence), (5, 5)) == (2, 2)
    assert shown.evidence[2, 2] == pytest.approx(model.evidence_["ep"], abs=1e-4)
    assert shown.ax_.get_xlabel() == ("factor of all lengthscales" if ard else "lengthscale")


def test_a_surface_has_shrunk_lengthscales_and_a_constant_mean(X, labels, signal) -> None:
    """A shrunk kernel has a lengthscale per column: the axis is a common factor, and the centre is the fit."""
    for model in (
        make_pipeline(StandardScaler(), GPClassifier("shrunk")).fit(X, labels),
        GPRegressor("shrunk", likelihood="poisson").fit(X, np.round(np.exp(signal))),
    ):
        shown = SurfaceDisplay.from_estimator(model, points=3, reach=0.3)
        fitted = model[-1] if hasattr(model, "steps") else model
        name = shown.name
        assert shown.evidence[1, 1] == pytest.approx(fitted.evidence_[name], abs=1e-3)
        assert shown.ax_.get_xlabel() == "factor of all lengthscales" and "Ratios of the lengthscales" in shown.caption


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"structure": Sparse(10)}, "fit with structure='full'"),
        ({"mean": means.Linear(np.ones(3))}, "no axis for the mean"),
        ({"kernel": kernels.RBF() + kernels.Linear()}, "not Sum"),
    ],
)
def test_what_a_surface_cannot_show_is_said(settings, words, X, values) -> None:
    with pytest.raises(ValueError, match=words):
        SurfaceDisplay.from_estimator(
            GPRegressor(**settings, hyperparameters=Hyperparameters(fixed="*")).fit(X, values)
        )


def test_a_hundred_rows_are_ten_points_of_ten_rows_by_default(X, labels):
    model = LogisticRegression().fit(X, labels)
    rng = np.random.default_rng(0)
    shown = ReliabilityDisplay.from_estimator(model, rng.normal(size=(100, 3)), rng.permutation(np.tile(labels, 2)))
    assert shown.count.tolist() == [10] * 10
