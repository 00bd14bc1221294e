"""Kernels averaged by their evidence: weights, predictions, files, and the priors that make evidences comparable."""

import threading

import numpy as np
import pytest
import threadpoolctl
from scipy import stats

from sitewise import GPClassifier, GPRegressor, kernels, load, predict
from sitewise.errors import UserError
from sitewise.estimators import averaging
from sitewise.estimators.candidates import candidates
from sitewise.hyperpriors import Gamma, LogNormal, Normal

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 3))
PAIR = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
NEW = RNG.normal(size=(20, 3))


@pytest.fixture(scope="module")
def model():
    return GPClassifier("average").fit(X, PAIR)


def test_weights_follow_the_evidence(model):
    weights = model.kernel_weights_
    assert sum(weights.values()) == pytest.approx(1)
    assert set(weights) == {"shrunk", "pairs", "shrunk of scores", "laplacian of scores"}
    # Labels that depend on the sign of a product: a pair of columns is the whole effect.
    assert weights["pairs"] == max(weights.values())
    assert isinstance(model.kernel_, kernels.Additive)
    assert "Kernels averaged with weights proportional to evidence^0.25: pairs" in model.fit_report_


def test_predictions_are_the_weighted_mixture_and_survive_a_file(model, tmp_path):
    (latent,) = model._latents
    each = np.array([predict.probability(part.model.likelihood, *part.posterior.f(NEW)) for part in latent.parts])
    np.testing.assert_allclose(model.predict_proba(NEW)[:, 1], latent.weight @ each, atol=1e-10)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(NEW), model.predict_proba(NEW))


def test_several_kernels_have_no_lengthscales_in_common(model):
    with pytest.raises(ValueError, match="no lengthscales in common; fit with kernel='shrunk'"):
        model.lengthscales()


def test_a_loaded_average_is_still_an_average(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.kernel_weights_ == model.kernel_weights_
    del loaded.kernel_weights_  # as in a file of version 0.2.0
    for ask in (loaded.lengthscales, loaded.term_shares, lambda: loaded.predict_terms(NEW)):
        with pytest.raises(ValueError, match="in common"):
            ask()


def test_a_second_fit_with_a_single_kernel_is_no_average():
    model = GPClassifier("average", method="laplace").fit(X, PAIR).set_params(kernel="shrunk").fit(X, PAIR)
    assert not hasattr(model, "kernel_weights_") and len(model.lengthscales()) == 3


def test_leave_one_out_is_the_mixture_of_the_kernels(model):
    (latent,) = model._latents
    each = []
    for part in latent.parts:
        left = part.leave_out()
        each.append(predict.probability(part.model.likelihood, left.mean, left.var))
    expected = (latent.weight @ np.array(each))[model._indices[0]]
    np.testing.assert_allclose(model.loo_.probability[:, 1], expected, atol=1e-10)


def test_effects_importances_and_updates_work_on_averages(model):
    assert model.importance().total.shape == (3,) and model.effect(0, points=3).mean.shape[0] == 3
    more = GPClassifier("average").fit(X[:76], PAIR[:76]).update(X[76:], PAIR[76:])
    assert np.mean(np.abs(more.predict_proba(NEW) - model.predict_proba(NEW))) < 0.1


def test_several_kernels_have_no_terms_in_common(model):
    for ask in (model.term_shares, lambda: model.predict_terms(NEW)):
        with pytest.raises(ValueError, match="no terms in common; use kernel='additive'"):
            ask()


def test_the_evidence_of_a_kernel_leaves_its_fit_unchanged(monkeypatch):
    fits = []

    def watched(fit):
        before = np.array(fit.search_end.covariance)
        value = evidence(fit)
        fits.append((before, fit.search_end.covariance))
        return value

    evidence = averaging._evidence
    monkeypatch.setattr(averaging, "_evidence", watched)
    GPClassifier("average", method="laplace").fit(X, PAIR)
    assert len(fits) == 4
    for before, after in fits:
        np.testing.assert_array_equal(before, after)


def test_a_coarse_stage_leaves_out_kernels_that_are_far_behind(monkeypatch):
    monkeypatch.setattr(averaging, "MIN_PRUNED_ROWS", 75)
    monkeypatch.setattr(averaging, "COARSE_ROWS", 70)
    monkeypatch.setattr(averaging, "MAX_COARSE_GAP", 0.5)
    model = GPClassifier("average", method="laplace").fit(X, PAIR)
    assert "pairs" in model.kernel_weights_ and len(model.kernel_weights_) < 4
    assert "After a coarse stage on 70 rows, not fitted to all rows: " in model.fit_report_


def test_a_coarse_stage_survives_kernels_without_a_finite_evidence(monkeypatch):
    monkeypatch.setattr(averaging, "MIN_PRUNED_ROWS", 75)
    monkeypatch.setattr(averaging, "COARSE_ROWS", 70)
    evidence, calls = averaging._evidence, []

    def failing(fit):
        calls.append(fit)
        if len(calls) == 2:
            raise ValueError("The rows are strange.")
        return float("nan") if len(calls) == 1 else evidence(fit)

    monkeypatch.setattr(averaging, "_evidence", failing)
    model = GPClassifier("average", method="laplace").fit(X, PAIR)
    assert set(model.kernel_weights_) == {"shrunk of scores", "laplacian of scores"}
    assert "not fitted to all rows: shrunk." in model.fit_report_
    assert "The kernel 'pairs' was left out: The rows are strange." in model.fit_report_


def test_a_coarse_stage_without_any_finite_evidence_keeps_all_kernels(monkeypatch):
    monkeypatch.setattr(averaging, "MIN_PRUNED_ROWS", 75)
    monkeypatch.setattr(averaging, "COARSE_ROWS", 70)
    evidence, calls = averaging._evidence, []

    def failing(fit):
        calls.append(fit)
        return float("nan") if len(calls) <= 4 else evidence(fit)

    monkeypatch.setattr(averaging, "_evidence", failing)
    assert len(GPClassifier("average", method="laplace").fit(X, PAIR).kernel_weights_) == 4


def test_a_wide_table_has_a_linear_kernel_and_one_column_a_single_kernel():
    names = [one.name for one in candidates("average", RNG.normal(size=(9, 4)), 1.0)]
    assert names == ["shrunk", "pairs", "shrunk of scores", "laplacian of scores", "linear of scores"]
    assert [one.name for one in candidates("average", X[:, :1], 1.0)] == ["default"]


def test_a_list_of_kernels():
    y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)
    model = GPRegressor([kernels.Linear(), kernels.RBF(active_dims=[0])]).fit(X, y)
    assert model.kernel_weights_["2. RBF"] > 0.99 and isinstance(model.kernel_, kernels.RBF)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "mean"}, "or be one of 'isotropic', 'shrunk', .*'average'"),
        ({"kernel": [kernels.RBF()]}, "at least two"),
        ({"kernel": "average", "method": "mcmc"}, "averaged by their evidence"),
        ({"kernel": kernels.RBF(), "groups": [0, 1, 2]}, "no column is left for kernel"),
        ({"kernel": [kernels.RBF(), "linear"]}, "must come from sitewise.kernels"),
    ],
)
def test_what_cannot_be_averaged_is_refused_in_words(settings, words):
    with pytest.raises(ValueError, match=words):
        GPClassifier(**settings).fit(X, PAIR)


def test_a_given_kernel_has_no_weak_priors():
    (given,) = candidates(kernels.RBF(), X, 1.0)
    assert isinstance(given.kernel, kernels.RBF) and not given.weak


def test_weak_priors_move_with_the_units_of_the_inputs():
    small, large = (candidates("isotropic", X * unit, 1.0)[0].weak["kernel.lengthscale"] for unit in (1.0, 100.0))
    assert large.location - small.location == pytest.approx(np.log(100))


def test_shrunk_lengthscales_have_errors_by_their_terms():
    y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=80)
    model = GPRegressor("shrunk").fit(X, y)
    found = model.lengthscales()
    np.testing.assert_allclose([one.value for one in found], model.kernel_.lengthscale)
    assert all(0 < one.error < 3 and one.low < one.value < one.high for one in found)
    assert found[0].value < min(found[1].value, found[2].value)


@pytest.mark.parametrize(
    ("prior", "peer"),
    [
        (LogNormal(0.3, 0.7), stats.lognorm(0.7, scale=np.exp(0.3))),
        (Normal(0.2, 1.3), stats.norm(0.2, 1.3)),
        (Gamma(2.5, 1.7), stats.gamma(2.5, scale=1 / 1.7)),
    ],
)
def test_hyperpriors_are_normalised(prior, peer):
    at = np.array([0.2, 1.0, 3.1])
    np.testing.assert_allclose(prior.log_prob(at), peer.logpdf(at), rtol=1e-5)


def test_nodes_that_would_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setenv("SITEWISE_MEMORY", "8e-4")  # enough for ten matrices of 80 rows, which a fit has
    GPClassifier("shrunk").fit(X, PAIR)
    with pytest.raises(UserError, match="matrices of"):
        GPClassifier("average", integrate="star").fit(X, PAIR)


def test_main_effects_have_no_pairs_and_additive_has():
    """A sum of functions of single columns has no mixed difference over two columns; neither has its covariance."""
    corners = np.array([[0.3, -1.0, 0.2], [0.3, 0.4, 0.2], [1.1, -1.0, 0.2], [1.1, 0.4, 0.2]])
    mixed = {
        name: np.array([1.0, -1.0, -1.0, 1.0]) @ np.asarray(candidates(name, X, 1.0)[0].kernel.matrix(corners, X))
        for name in ("main_effects", "additive")
    }
    np.testing.assert_allclose(mixed["main_effects"], 0.0, atol=1e-12)
    assert np.max(np.abs(mixed["additive"])) > 1e-3


def test_the_shrunk_lengthscale_of_a_constant_column_is_positive():
    """A constant column has no standard deviation: its lengthscale is in units of 1, not of 0."""
    constant = np.column_stack([X[:, 0], np.full(len(X), 7.0)])
    assert np.all(np.asarray(candidates("shrunk", constant, 1.0)[0].kernel.lengthscale) > 0.1)


def test_kernels_are_fitted_in_threads_with_the_same_result(monkeypatch):
    monkeypatch.setattr(averaging, "MIN_THREADED_ROWS", 50)
    own, models, told = threading.get_ident(), [], []
    learned: set[int] = set()
    evidence = averaging._evidence
    monkeypatch.setattr(averaging, "_evidence", lambda fit: learned.add(threading.get_ident()) or evidence(fit))
    for threads in (1, 2):
        learned.clear()
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            model = GPClassifier("average", verbose=lambda doing, share: told.append((share, threading.get_ident())))
            models.append(model.fit(X, PAIR))
        assert (learned == {own}) == (threads == 1)
    assert {ident for _, ident in told} == {own}
    np.testing.assert_array_equal(*(model.predict_proba(NEW) for model in models))
    assert models[0].kernel_weights_ == models[1].kernel_weights_
    assert models[0].fit_report_ == models[1].fit_report_


def test_a_kernel_that_fails_in_a_thread_is_left_out_as_without_threads(monkeypatch):
    monkeypatch.setattr(averaging, "MIN_THREADED_ROWS", 50)
    evidence = averaging._evidence

    def failing(fit):
        if isinstance(fit.model.prior.kernel, kernels.Additive):
            raise ValueError("The rows are strange.")
        return evidence(fit)

    monkeypatch.setattr(averaging, "_evidence", failing)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        model = GPClassifier("average", method="laplace").fit(X, PAIR)
    assert len(model.kernel_weights_) == 3
    assert "The kernel 'pairs' was left out: The rows are strange." in model.fit_report_
