"""Effects of terms and their pictures: centred terms of dense algebra, names of levels, maps and exceedance."""

import numpy as np
import pytest
from scipy import stats

from sitewise import GPClassifier, GPRegressor, Hyperparameters, MapDisplay, TermsDisplay, kernels
from sitewise.estimators import term_effects
from sitewise.parts import Constant, Levels, Linear, Map, Season, Series

pyplot = pytest.importorskip("matplotlib.pyplot")
HELD = Hyperparameters(fixed="*")


@pytest.fixture(autouse=True)
def _closed():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack(
        [rng.uniform(0, 1, (40, 2)), rng.integers(0, 3, 40), rng.normal(size=40), rng.uniform(0, 24, 40)]
    )


@pytest.fixture(scope="module")
def model(table: np.ndarray) -> GPRegressor:
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.exp(table[:, 0] + 0.3 * table[:, 3] + 0.2 * table[:, 2]))
    parts = [Map((0, 1), neighbours=50), Levels(2, variance=0.5), Linear(3), Season(4, period=12.0, name="hour")]
    return GPRegressor(likelihood="poisson", structure=parts, hyperparameters=HELD).fit(table, counts)


def test_every_term_has_the_picture_of_its_kind(model: GPRegressor) -> None:
    effects = term_effects(model, map_points=5)
    assert [one.kind for one in effects] == ["map", "levels", "coefficients", "curve"]
    assert effects[0].values.shape == (25, 2) and effects[1].values.tolist() == ["0", "1", "2"]
    assert effects[3].name == "hour" and np.ptp(effects[3].values) == pytest.approx(12.0)  # one period
    assert effects[2].columns == ("x3",)


def test_centred_terms_are_those_of_dense_algebra(model: GPRegressor, table: np.ndarray) -> None:
    """F_p(v) = f_p(v) − Σ f_p(x_r)/n has the moments that follow from the joint posterior of the term."""
    levels = term_effects(model)[1]
    rows = np.repeat(table[:1], 3, axis=0)
    rows[:, 2] = [0, 1, 2]
    (q,), _ = model._latents[0].posteriors()
    mean, cov = (np.asarray(a) for a in q.part(1).f_joint(np.concatenate([rows, table])))
    weight = np.concatenate([np.eye(3), np.full((3, 40), -1 / 40)], axis=1)
    np.testing.assert_allclose(levels.mean, weight @ mean, atol=1e-8)
    np.testing.assert_allclose(levels.sd, np.sqrt(np.diag(weight @ cov @ weight.T)), rtol=1e-6)
    assert np.all(levels.low < levels.mean) and levels.level == 0.9


def test_coefficients_are_slopes_of_the_linear_term(model: GPRegressor, table: np.ndarray) -> None:
    (beta,) = term_effects(model)[2].mean
    found = model.predict_terms(table)
    slope = np.polyfit(table[:, 3], found.mean[:, found.names.index("x3")], 1)[0]
    assert beta == pytest.approx(slope, rel=1e-6)


def test_slopes_of_groups_and_curves_of_series() -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(0, 5, 60), np.arange(60) % 8, rng.normal(size=60)])
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    parts = [Series(0, kernel=kernels.Matern32(1.0), by=1), Levels(1, slope=2), Constant()]
    model = GPRegressor(structure=parts, hyperparameters=HELD).fit(X, y)
    curves, slopes = term_effects(model)
    assert curves.series == ("0", "1", "2", "3", "4", "5") and curves.mean.shape == (6, len(curves.values))
    assert curves.note == "x1: 6 of 8"
    assert slopes.name == "slope of x2" and slopes.kind == "levels" and len(slopes.mean) == 8
    shown = TermsDisplay.from_estimator(model)
    assert len(shown.axes_) == 2 and shown.caption.endswith("x1: 6 of 8.")


def test_the_page_of_terms_says_what_it_shows(model: GPRegressor) -> None:
    shown = TermsDisplay.from_estimator(model)
    assert [panel.get_title() for panel in shown.axes_] == ["x0 × x1", "x2", "x3", "hour"]
    assert "log of the mean" in shown.caption and "maps show the mean" in shown.caption
    shown.figure_.canvas.draw()
    box = shown.figure_._supxlabel.get_window_extent()  # four panels are two by two: the caption needs more lines
    assert box.x0 >= 0 and box.x1 <= shown.figure_.bbox.width
    (curve,) = (panel for panel in shown.axes_ if panel.get_title() == "hour")
    assert len(curve.get_lines()[0].get_xdata()) >= 60
    with pytest.raises(ValueError, match="give one per term"):
        shown.plot(pyplot.subplots()[1])


def test_a_map_shows_factors_and_exceedance_probabilities(model: GPRegressor, table: np.ndarray) -> None:
    shown = MapDisplay.from_estimator(model, grid=6, above=2)
    assert shown.factor and shown.columns == ("x0", "x1") and shown.points is not None and len(shown.points) == 40
    np.testing.assert_allclose(shown.exceedance, stats.norm.sf(np.log(2), shown.mean, shown.sd))
    np.testing.assert_allclose(shown.mean, term_effects(model, map_points=6)[0].mean)
    image = shown.axes_[0].collections[0].get_array()
    np.testing.assert_allclose(np.ravel(image), np.exp(shown.mean))
    assert "P(factor > 2)" in [panel.get_title() for panel in shown.axes_]


def test_a_map_of_a_model_without_parts_is_the_whole_function() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (40, 2))
    label = X[:, 0] > 0.5
    model = GPClassifier(kernels.RBF(0.3), hyperparameters=HELD).fit(X, label)
    shown = MapDisplay.from_estimator(model, grid=4, panels=["mean", "exceedance"])
    f = model.predict_latent(shown.places)
    np.testing.assert_allclose(np.diff(shown.mean), np.diff(f), atol=1e-6)
    assert len(shown.axes_) == 2 and shown.exceedance[0] < 0.5 < shown.exceedance[3]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"columns": "x0"}, "must name two columns"),
        ({"columns": ("x0", "x2")}, "two different columns of numbers"),
        ({"above": -1}, "positive factor"),
        ({"panels": ("variance",)}, "panels must be some of"),
        ({"grid": 1}, "grid"),
    ],
)
def test_impossible_maps_are_refused(model: GPRegressor, wrong: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MapDisplay.from_estimator(model, **{"grid": 3, **wrong})
