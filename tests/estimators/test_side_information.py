"""Exposure, trials, bounds and error bars as keywords of the estimator: the same model as the library's table of y."""

import warnings

import numpy as np
import pytest
import sklearn
from scipy import stats
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sitewise import Data, GPRegressor, Hyperparameters, likelihoods, load, posterior

ROWS = 40
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 4, size=(ROWS, 1))
NEW = np.array([[0.5], [1.5], [3.0]])
MONTHS = RNG.uniform(1, 24, ROWS)
CLAIMS = RNG.poisson(MONTHS * np.exp(np.sin(X[:, 0]) - 0.5)).astype(float)
HEIGHT = 100 + 20 * np.sin(X[:, 0]) + 4 * RNG.normal(size=ROWS)


@pytest.fixture(scope="module")
def counts():
    """Fitted; tests must not change it."""
    return GPRegressor(likelihood="poisson", integrate=False).fit(X, CLAIMS, exposure=MONTHS)


@pytest.fixture(scope="module")
def measured():
    """Fitted; tests must not change it."""
    return GPRegressor(likelihood="heteroscedastic_gaussian", integrate=False).fit(
        X, HEIGHT, noise=np.linspace(2, 6, ROWS)
    )


def test_a_count_is_expected_in_proportion_to_its_exposure(counts):
    rate, std = counts.predict(NEW, return_std=True)
    many = counts.predict(NEW, exposure=[2.0, 12.0, 24.0])
    np.testing.assert_allclose(many, rate * [2, 12, 24], rtol=1e-10)
    spread = counts.predict(NEW, exposure=2.0, return_std=True)[1]
    # Var = e·E[λ] + e²·Var[λ] for the exposures 1 and 2.
    np.testing.assert_allclose(spread**2, 2 * rate + 4 * (std**2 - rate), rtol=1e-8)


def test_the_estimator_is_the_library_with_a_table(counts):
    (model, data), (latent,) = counts.models_[0], counts._latents
    assert isinstance(model.likelihood, likelihoods.Poisson) and model.likelihood.exposure
    order = np.argsort(X[:, 0])
    np.testing.assert_array_equal(np.asarray(data.y)[: len(X)], np.column_stack([CLAIMS, MONTHS])[order])
    q = posterior(model, Data.of(data.X, data.y, data.weight), latent.sites)
    np.testing.assert_allclose(
        counts.log_predictive_density(NEW, [1, 2, 3], exposure=5.0),
        q.log_density(NEW, np.array([[1, 5], [2, 5], [3, 5.0]])),
        rtol=1e-9,
    )


def test_a_distribution_function_sees_the_exposure(counts):
    (q,) = counts._at(NEW)
    f = q.mean[:, 0] + np.sqrt(q.var[:, 0]) * np.linspace(-8, 8, 2001)[:, None]
    weight = stats.norm.pdf(np.linspace(-8, 8, 2001))
    want = weight @ stats.poisson.cdf(4, 6.0 * np.exp(f)) / weight.sum()
    np.testing.assert_allclose(counts.predict_cdf(NEW, 4, exposure=6.0), want, atol=1e-6)


def test_draws_and_rows_that_come_and_go(counts, tmp_path):
    drawn = counts.sample_y(NEW, 4000, random_state=0, exposure=10.0)
    mean, std = counts.predict(NEW, return_std=True, exposure=10.0)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=5 * np.max(std) / np.sqrt(4000))
    counts.save(tmp_path / "m.sitewise")
    again = load(tmp_path / "m.sitewise")
    assert np.array_equal(again.loo_.log_density, counts.loo_.log_density)
    changed = again.update(NEW[:1], [3], exposure=4.0).forget([ROWS])
    np.testing.assert_allclose(changed.predict(NEW), counts.predict(NEW), rtol=1e-6)
    with pytest.raises(ValueError, match="fitted with exposure=, and update needs it"):
        again.update(NEW[:1], [3])


def test_metadata_routing_passes_side_information_on(measured):
    noise = np.linspace(2, 6, ROWS)
    model = GPRegressor(likelihood="heteroscedastic_gaussian", integrate=False)
    whole = make_pipeline(StandardScaler(), model)
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = check_scoring(whole)
        if hasattr(scoring, "set_score_request"):  # before 1.8 the score of a Pipeline does not ask for it by itself
            scoring.set_score_request(noise=True)
        scores = cross_val_score(whole, X, HEIGHT, params={"noise": noise}, cv=2, error_score="raise", scoring=scoring)
        search = GridSearchCV(model, {"kernel__lengthscale": [0.5]}, cv=2, error_score="raise")
        search.fit(X, HEIGHT, noise=noise)
        piped = whole.fit(X, HEIGHT, noise=noise).predict(X, noise=noise)
        with pytest.raises(ValueError, match=r"check_scoring\(pipeline\).set_score_request\(noise=True\)"):
            whole.score(X, HEIGHT)
    assert np.all(scores > 0.5) and np.corrcoef(piped, measured.predict(X))[0, 1] > 0.99
    np.testing.assert_allclose(search.best_estimator_.predict(X), measured.predict(X), atol=0.1)
    with pytest.raises(ValueError, match=r"fitted with noise=, and score needs it .*enable_metadata_routing"):
        measured.score(X, HEIGHT)


def test_error_bars_are_standard_deviations_in_the_units_of_y(measured):
    mean, std = measured.predict(NEW, return_std=True, noise=[0, 3, 4])
    _, sure = measured.predict_latent(NEW, return_std=True)
    np.testing.assert_allclose(std**2, sure**2 + [0, 9, 16], rtol=1e-8)
    low, high = measured.predict_interval(NEW, 0.9, noise=[0, 3, 4])
    np.testing.assert_allclose(high - mean, stats.norm.ppf(0.95) * std, rtol=1e-7)
    np.testing.assert_allclose(mean - low, stats.norm.ppf(0.95) * std, rtol=1e-7)
    np.testing.assert_allclose(measured.predict(NEW), mean)
    with pytest.raises(ValueError, match="noise=0 predicts the function without measurement error"):
        measured.predict_interval(NEW)


@pytest.mark.slow
def test_all_censored_values_lie_beyond_their_bound():
    """At fixed hyperparameters the evidence is that of the library's table, in the units of y."""
    cut = np.minimum(HEIGHT, 112.0)
    model = GPRegressor(likelihood="censored_gaussian", method="ep", hyperparameters=Hyperparameters(fixed="*")).fit(
        X, cut, upper=112.0
    )
    beyond = cut == 112
    table = np.column_stack([cut, np.where(beyond, np.inf, cut)])
    table = (table - model.y_mean_) / model.y_scale_
    kernel, lik = model.kernel_, model.likelihood_
    own = GPRegressor(
        kernel, likelihood=lik, method="ep", normalize_y=False, hyperparameters=Hyperparameters(fixed="*")
    )
    own.fit(X, table[:, 0], upper=np.where(beyond, table[:, 0], np.inf))
    np.testing.assert_allclose(
        model.evidence_["ep"], own.evidence_["ep"] - np.sum(~beyond) * np.log(model.y_scale_), rtol=1e-8
    )
    above = model.log_predictive_density(X, cut, upper=112.0)[beyond]
    np.testing.assert_allclose(above, np.log1p(-model.predict_cdf(X, 112.0)[beyond]), rtol=1e-6)
    assert model.score(X, cut, upper=112.0) > 0.8
    peak = np.array([[np.pi / 2]])
    assert (
        model.predict(peak)[0]
        > GPRegressor(hyperparameters=Hyperparameters(fixed="*")).fit(X, cut).predict(peak)[0] + 1
    )


def test_trials_are_counted():
    trials = RNG.integers(1, 30, ROWS)
    y = RNG.binomial(trials, stats.norm.cdf(np.sin(X[:, 0])))
    model = GPRegressor(likelihood="binomial", method="laplace").fit(X, y, trials=trials)
    share = model.predict(NEW)
    assert np.all(np.abs(share - stats.norm.cdf(np.sin(NEW[:, 0]))) < 0.15)
    np.testing.assert_allclose(model.predict(NEW, trials=20), 20 * share, rtol=1e-10)
    low, high = model.predict_interval(NEW, 0.9, trials=20)
    assert np.all(low == np.floor(low)) and np.all(high <= 20)
    inside = model.predict_cdf(NEW, high, trials=20) - model.predict_cdf(NEW, low - 1, trials=20) * (low > 0)
    assert np.all(inside >= 0.9)


@pytest.mark.parametrize(
    ("likelihood", "given", "words"),
    [
        ("gaussian", {"exposure": 1.0}, "exposure is for likelihood='negative_binomial' or 'poisson'"),
        ("binomial", {}, "binomial needs trials, as in fit"),
        ("censored_gaussian", {}, "needs lower or upper"),
        ("poisson", {"exposure": np.ones(7)}, "one for each of the 40 rows"),
        ("poisson", {"exposure": 0.0}, "exposure must hold positive numbers; got 0"),
        ("binomial", {"trials": 2.5}, "trials must hold whole numbers"),
        ("heteroscedastic_gaussian", {"noise": "a"}, "noise must hold"),
        ("heteroscedastic_gaussian", {"noise": 0.0}, "positive; got 0"),
        ("censored_gaussian", {"lower": 2.0, "upper": 1.0}, "lower must be less than upper"),
        (likelihoods.Poisson(exposure=True), {}, "poisson needs exposure"),
    ],
)
def test_what_is_wrong_is_said(likelihood, given, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor(likelihood=likelihood).fit(X, CLAIMS, **given)


def test_a_table_of_targets_names_the_keyword(counts):
    with pytest.raises(ValueError, match=r"2 columns; .* keywords, as in fit\(X, y, exposure=e\)"):
        GPRegressor(likelihood="poisson").fit(X, np.column_stack([CLAIMS, MONTHS]))
    with pytest.raises(ValueError, match="fitted without exposure"):
        GPRegressor(likelihood="poisson", method="laplace").fit(X, CLAIMS).predict(NEW, exposure=2.0)


@pytest.mark.parametrize(
    ("keyword", "likelihood"), [("exposure", "poisson"), ("event", "weibull"), ("trials", "binomial")]
)
def test_a_column_that_repeats_side_information_is_warned_of(keyword, likelihood):
    values = np.arange(ROWS) % 2 if keyword == "event" else np.ceil(MONTHS)
    y = np.ones(ROWS) if keyword == "trials" else 1 + CLAIMS
    model = GPRegressor(likelihood=likelihood, method="laplace", hyperparameters=Hyperparameters(fixed="*"))
    with pytest.warns(UserWarning, match=f"Column 1 of X repeats {keyword}, .*; leave this column out of X"):
        model.fit(np.column_stack([X, 3 * values + 1]), y, **{keyword: values})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, **{keyword: values})
        model.fit(np.column_stack([X, values]), np.arange(ROWS) % 2 + (keyword != "trials"), **{keyword: 1})
