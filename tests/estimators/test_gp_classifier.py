import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sitewise import EP, GPClassifier, Hyperparameters, Method, Sparse, kernels, likelihoods, load, resolve
from sitewise.means import Zero


def test_probabilities_labels_and_odds_agree(classifier, X, labels):
    probability = classifier.predict_proba(X)
    assert list(classifier.classes_) == ["no", "yes"]
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(np.log(probability), classifier.predict_log_proba(X), atol=1e-12)
    np.testing.assert_allclose(
        classifier.decision_function(X), np.log(probability[:, 1] / probability[:, 0]), rtol=1e-9
    )
    assert np.array_equal(classifier.predict(X) == "yes", probability[:, 1] > 0.5)
    assert classifier.score(X, labels) > 0.85


def test_probabilities_are_the_latent_ones_through_the_link(classifier, X):
    mean, std = classifier.predict_latent(X, return_std=True)
    np.testing.assert_allclose(classifier.predict_proba(X)[:, 1], norm.cdf(mean / np.sqrt(1 + std**2)), atol=1e-12)


def test_log_predictive_density_is_the_log_probability_of_the_label(classifier, X, labels):
    logs = classifier.predict_log_proba(X)
    chosen = np.where(labels == "yes", logs[:, 1], logs[:, 0])
    assert np.array_equal(classifier.log_predictive_density(X, labels), chosen)


def test_covariance_has_the_variances_on_its_diagonal(classifier, X):
    mean, std = classifier.predict_latent(X[:7], return_std=True)
    same, cov = classifier.predict_latent(X[:7], return_cov=True)
    np.testing.assert_allclose(same, mean, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-7)


def test_samples_are_labels_with_the_right_frequencies(classifier, X):
    draws = classifier.sample_y(X[:5], n_samples=4000, random_state=0)
    assert draws.shape == (5, 4000)
    assert set(np.unique(draws)) <= {"no", "yes"}
    np.testing.assert_allclose((draws == "yes").mean(axis=1), classifier.predict_proba(X[:5])[:, 1], atol=0.03)


def test_a_prediction_does_not_depend_on_its_neighbours(classifier, X):
    far = np.vstack([X, [1e9, -1e9, 1e9]])
    np.testing.assert_allclose(classifier.predict_proba(far)[:-1], classifier.predict_proba(X), rtol=1e-10)
    many = np.tile(X, (50, 1))
    np.testing.assert_allclose(classifier.predict_proba(many)[:50], classifier.predict_proba(X), rtol=1e-10)


@pytest.fixture(scope="module")
def levels(signal):
    return np.array(["low", "middle", "top"])[np.digitize(signal, [-0.5, 0.5])]


@pytest.fixture(scope="module", params=["own", "shared"])
def joint(X, levels, request):
    """Fitted; tests must not change it."""
    return GPClassifier("shrunk", class_kernels=request.param).fit(X, levels)


def test_three_classes_jointly(joint, X, levels):
    assert joint.multi_class_ == "joint"
    assert joint.converged_
    own = joint.class_kernels == "own"
    assert len(joint.kernel_ if own else [joint.kernel_]) == (3 if own else 1)
    logs = joint.predict_log_proba(X)
    probability = joint.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-12)
    assert np.array_equal(joint.predict(X), joint.classes_[np.argmax(probability, axis=1)])
    np.testing.assert_allclose(joint.decision_function(X), logs - np.log1p(-probability), rtol=1e-6)
    assert joint.score(X, levels) > 0.8
    assert joint.loo_.probability.shape == (50, 3)
    assert np.mean(joint.loo_.log_density) > np.log(1 / 3)
    np.testing.assert_allclose(np.sum(joint.loo_.log_density), joint.evidence_["loo"], rtol=1e-3)
    assert np.all(joint.influence_ > 0)
    assert [s.prec.shape for s in joint.sites_] == [(50,)] * 3
    mean, std = joint.predict_latent(X[:4], return_std=True)
    same, cov = joint.predict_latent(X[:4], return_cov=True)
    np.testing.assert_allclose(same, mean, atol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)).T, std, rtol=1e-6)
    draws = joint.sample_y(X[:4], 4000, random_state=0)
    shares = np.stack([(draws == c).mean(axis=1) for c in joint.classes_], axis=1)
    np.testing.assert_allclose(shares, probability[:4], atol=0.03)


def test_the_hybrid_of_joint_classes_learns_and_infers_by_power_ep(joint):
    assert "learned by ep(0.5), sites of ep(0.02)" in joint.fit_report_
    latent = joint._latents[0]
    with jax.enable_x64(True):
        found = EP(power=0.02).solve(latent.model, latent.data)
        np.testing.assert_allclose(latent.sites.prec, np.where(latent.data.mask, found.sites.prec, 0.0), atol=1e-5)
    model = latent.model
    assert resolve("hybrid").final_inference(model).name == "ep(0.02)"
    assert resolve("hybrid", evidence="ep").pair(model).final is None


def test_joint_classes_survive_files_and_changes_of_rows(joint, X, levels, tmp_path):
    joint.save(tmp_path / "model.sitewise")
    again = load(tmp_path / "model.sitewise")
    assert repr(again.kernel_) == repr(joint.kernel_)
    np.testing.assert_allclose(again.predict_proba(X), joint.predict_proba(X), rtol=1e-10)
    again.forget([0]).update(X[:1], levels[:1])
    assert again.converged_
    np.testing.assert_allclose(again.predict_proba(X), joint.predict_proba(X), atol=1e-5)


def test_joint_classes_are_refused_where_they_cannot_be_had(X, levels):
    sparse = {"structure": Sparse(5), "class_kernels": "own"}
    for settings, word in (
        ({"method": "hybrid-vem"}, "method 'laplace' or 'ep' or 'vi' or 'hybrid'"),
        (sparse, "inducing"),
        ({"structure": "markov"}, "other than Markov"),
        ({"mean": Zero()}, "no mean"),
    ):
        with pytest.raises(ValueError, match=word):
            GPClassifier(multi_class="joint", **settings).fit(X, levels)
    with pytest.raises(ValueError, match="multi_class must be"):
        GPClassifier(multi_class="pairs").fit(X, levels)
    with pytest.raises(ValueError, match="class_kernels must be"):
        GPClassifier(class_kernels="each").fit(X, levels)
    assert (
        GPClassifier(method="hybrid-vem", hyperparameters=Hyperparameters(fixed="*")).fit(X, levels).multi_class_
        == "one_vs_rest"
    )


def test_three_classes_one_against_the_rest(X, levels):
    y = levels
    model = GPClassifier(multi_class="one_vs_rest").fit(X, y)
    probability = model.predict_proba(X)
    assert probability.shape == (50, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-14)
    assert np.array_equal(model.predict(X), model.classes_[np.argmax(probability, axis=1)])
    assert len(model.kernel_) == 3
    assert model.score(X, y) > 0.7
    assert model.loo_.probability.shape == (50, 3)
    assert model.influence_.shape == (50,)
    assert model.predict_latent(X[:4], return_std=True)[1].shape == (4, 3)
    assert model.predict_latent(X[:4], return_cov=True)[1].shape == (3, 4, 4)
    assert set(np.unique(model.sample_y(X[:3], 20, random_state=0))) <= set(model.classes_)
    assert np.isfinite(list(model.evidence_.values())).all()


def test_works_in_scikit_learn_tools(X, labels):
    pipe = make_pipeline(StandardScaler(), GPClassifier())
    assert cross_val_score(pipe, X, labels, cv=2, scoring="neg_log_loss").mean() > -0.69
    search = GridSearchCV(GPClassifier(), {"likelihood": ["probit"], "kernel": [None, kernels.Matern52(2.0)]}, cv=2)
    assert search.fit(X, labels).best_score_ > 0.6
    calibrated = CalibratedClassifierCV(GPClassifier(), cv=2).fit(X, labels)
    assert calibrated.predict_proba(X).shape == (50, 2)


def test_data_frames_keep_their_names(X, labels):
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(table, pd.Series(labels))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c"]])
    pipe = (
        make_pipeline(StandardScaler(), GPClassifier(hyperparameters=Hyperparameters(fixed="*")))
        .set_output(transform="pandas")
        .fit(table, labels)
    )
    assert list(pipe[-1].feature_names_in_) == ["a", "b", "c"]


def test_the_given_kernel_is_where_learning_starts(X, labels):
    held = GPClassifier(kernels.Matern52(2.0, 3.0), hyperparameters=Hyperparameters(fixed="*")).fit(X, labels)
    assert held.kernel_.lengthscale == 2.0
    half = GPClassifier(kernels.Matern52(2.0, 3.0), hyperparameters=Hyperparameters(fixed="kernel.variance")).fit(
        X, labels
    )
    assert half.kernel_.variance == 3.0
    assert half.kernel_.lengthscale != 2.0
    assert half.evidence_["ep"] > held.evidence_["ep"]


def test_warm_start_begins_where_the_last_fit_ended(X, labels):
    model = GPClassifier(warm_start=True, method=Method(tol=1e-6), integrate=False).fit(X, labels)
    first = model.kernel_.lengthscale
    model.fit(X, labels)
    assert model.n_iter_ <= 2
    np.testing.assert_allclose(model.kernel_.lengthscale, first, rtol=1e-3)


def test_a_fit_that_stops_early_warns_and_says_so(X, labels):
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        model = GPClassifier(method=Method("hybrid", max_iter=1)).fit(X, labels)
    assert not model.converged_
    assert "Not converged" in model.fit_report_


def test_a_likelihood_object_is_used_as_it_is(X, labels):
    model = GPClassifier(likelihood=likelihoods.BernoulliLogit(), hyperparameters=Hyperparameters(fixed="*")).fit(
        X, labels
    )
    assert isinstance(model.likelihood_, likelihoods.BernoulliLogit)
    assert np.array_equal(
        model.predict_proba(X),
        GPClassifier(likelihood="logit", hyperparameters=Hyperparameters(fixed="*")).fit(X, labels).predict_proba(X),
    )


def test_verbose_shows_progress(X, labels, capsys):
    GPClassifier(verbose=True, hyperparameters=Hyperparameters(fixed="*")).fit(X, labels)
    assert "objective" in capsys.readouterr().err


def test_progress_is_told_to_a_function(X, labels):
    """The share never falls, and ends short of 1 until the fit is there; three problems share it."""
    told = []
    GPClassifier(verbose=lambda doing, share: told.append((doing, share))).fit(X, labels)
    shares = [share for _, share in told]
    assert len(told) > 3 and shares == sorted(shares) and 0.5 < shares[-1] <= 1
    assert all("objective" in doing for doing, _ in told)
    told.clear()
    classes = np.where(X[:, 2] > 0.5, "high", labels)
    settings = {"multi_class": "one_vs_rest", "hyperparameters": Hyperparameters(fixed="*")}
    GPClassifier(verbose=lambda doing, share: told.append((doing, share)), **settings).fit(X, classes)
    told = [(doing, share) for doing, share in told if "objective" in doing]
    assert [doing[-8:] for doing, _ in told] == ["(1 of 3)", "(2 of 3)", "(3 of 3)"]
    assert told[0][1] < 1 / 3 <= told[1][1] < 2 / 3 <= told[2][1]


def test_the_kernels_values_are_parameters(X, labels):
    """kernel__lengthscale in a grid; the default kernel counts, too."""
    search = GridSearchCV(
        GPClassifier(hyperparameters=Hyperparameters(fixed="*")), {"kernel__lengthscale": [1e-3, 1.0]}, cv=2
    ).fit(X, labels)
    assert search.best_params_ == {"kernel__lengthscale": 1.0}
    assert search.best_estimator_.kernel_.lengthscale == 1.0
    kernel = kernels.RBF(lengthscale=[1.0, 2.0, 3.0]) + kernels.Linear()
    model = GPClassifier(kernel).set_params(**{"kernel__parts.0.variance": 4.0})
    assert model.get_params()["kernel__parts.0.variance"] == 4.0 and kernel.parts[0].variance == 1.0
    assert np.array_equal(model.get_params()["kernel__parts.0.lengthscale"], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="kernel Matern52 has kernel__lengthscale, kernel__variance"):
        GPClassifier().set_params(kernel__width=1.0)
    with pytest.raises(ValueError, match="positive"):
        GPClassifier().set_params(kernel__lengthscale=-1.0)


def test_a_joint_laplace_fit_that_contradicts_itself_is_flagged(X, signal):
    """A wide prior and classes without noise: the mode says little about the posterior, and log loss shows it."""
    y = np.digitize(signal, [-1.0, 1.0])
    wide, narrow = kernels.Matern52(3.0, 1e3), kernels.Matern52(3.0, 1.0)
    with pytest.warns(UserWarning, match="far from the posterior.*method='hybrid' or 'vi'"):
        bad = GPClassifier(wide, method="laplace", hyperparameters=Hyperparameters(fixed="*")).fit(X, y)
    assert "Laplace's Gaussian is far from the posterior" in bad.fit_report_
    assert bad.evidence_["laplace"] - bad.evidence_["elbo"] > len(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = GPClassifier(wide, method="hybrid", hyperparameters=Hyperparameters(fixed="*")).fit(X, y)
        GPClassifier(narrow, method="laplace", hyperparameters=Hyperparameters(fixed="*")).fit(X, y)
    assert good.loo_.log_density.mean() > bad.loo_.log_density.mean() + 0.1
