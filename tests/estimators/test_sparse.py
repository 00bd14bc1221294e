"""Estimators with inducing inputs."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import sitewise
from sitewise import GPClassifier, GPRegressor, Hyperparameters, Method, Sparse, evidence, kernels, structures
from sitewise.estimators.training import FitWarning
from sitewise.priors.inducing import how_many


@pytest.fixture(scope="module")
def sparse(X, labels):
    return GPClassifier(random_state=0, structure=Sparse(12)).fit(X, labels)


@pytest.mark.parametrize("inducing", ["kmeans", "greedy"])
def test_as_many_inducing_inputs_as_rows_give_the_full_gp(inducing, X, labels):
    kernel = kernels.Matern52(1.5, 2.0)
    full = GPClassifier(kernel, method="ep", hyperparameters=Hyperparameters(fixed="*")).fit(X, labels)
    model = GPClassifier(kernel, hyperparameters=Hyperparameters(fixed="*"), structure=Sparse(50, inputs=inducing)).fit(
        X, labels
    )
    np.testing.assert_allclose(model.predict_proba(X + 0.1), full.predict_proba(X + 0.1), atol=1e-6)
    np.testing.assert_allclose(model.loo_.log_density, full.loo_.log_density, atol=1e-5)
    for name, value in full.evidence_.items():
        np.testing.assert_allclose(model.evidence_[name], value, atol=1e-5)
    assert "collapsed" not in model.evidence_
    latent = model._latents[0]
    collapsed = evidence.collapsed(latent.model, latent.data, latent.sites)
    np.testing.assert_allclose(collapsed, full.evidence_["ep"], atol=1e-5)


def test_few_inducing_inputs_learn(sparse, classifier, X, labels):
    assert sparse.converged_
    assert sparse._latents[0].model.prior.inducing.shape == (12, 3)
    assert sparse.score(X, labels) >= 0.9
    assert sparse.evidence_["elbo"] < classifier.evidence_["elbo"]
    assert sparse.evidence_["elbo"] <= sparse.evidence_["tight"] < 0
    assert np.all(np.isfinite(sparse.influence_))
    assert sparse.sample_y(X[:3], 5, random_state=0).shape == (3, 5)


def test_saved_and_pickled_models_keep_their_inducing_inputs(sparse, X, tmp_path):
    sparse.save(tmp_path / "model")
    for again in (sitewise.load(tmp_path / "model"), pickle.loads(pickle.dumps(sparse))):
        np.testing.assert_array_equal(again.predict_proba(X), sparse.predict_proba(X))
        assert again.structure == Sparse(12) and again.get_params()["structure__m"] == 12


def test_rows_can_be_added_and_removed(X, labels):
    kernel, Z = kernels.Matern52(1.5, 2.0), X[:15]
    model = GPClassifier(kernel, hyperparameters=Hyperparameters(fixed="*"), structure=Sparse(inputs=Z)).fit(
        X[:40], labels[:40]
    )
    model.update(X[40:], labels[40:])
    whole = GPClassifier(kernel, hyperparameters=Hyperparameters(fixed="*"), structure=Sparse(inputs=Z)).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_trained_inducing_inputs_raise_the_bound(X, values):
    settings = {"kernel": "isotropic", "method": Method("vi", max_iter=30), "structure": Sparse(inputs=X[:4])}
    held = GPRegressor(**settings).fit(X, values)
    with pytest.warns(ConvergenceWarning, match="cap on rounds"):
        moved = GPRegressor(**settings, hyperparameters=Hyperparameters(train="inducing")).fit(X, values)
    assert moved.evidence_["elbo"] > held.evidence_["elbo"] + 1


def test_inducing_inputs_have_the_columns_of_X(X, labels):
    with pytest.raises(ValueError, match="a table with 3 columns"):
        GPClassifier(structure=Sparse(inputs=np.zeros((5, 2)))).fit(X, labels)


def test_the_number_of_inducing_inputs_by_a_rule():
    """n·m² = 2·10⁹ for 15 s, rows after the first 20 000 counted as an eighth; shares of several fits; joint classes,
    which learn with all rows; the full GP where n³ takes no longer; five rows per inducing input."""
    assert how_many(20_000) == 316 and how_many(20_000, 60.0) == 632
    assert how_many(20_000, fits=4) == 158 and how_many(20_000, classes=4) == 79
    assert how_many(10**6) == 250 and how_many(10**6, learning_rows=None) == 100 and how_many(10**6, classes=10) == 50
    assert how_many(10**5) == 258 and how_many(10**5, learning_rows=None) == 141
    assert how_many(1_000) is None and how_many(1_001) == 200 and how_many(2_000) == 400
    assert how_many(1_587, 60.0) is None and how_many(1_588, 60.0) == 317 and how_many(800, fits=2) == 160


def test_auto_is_a_number_that_the_report_explains(X, labels):
    model = GPClassifier("isotropic", structure=Sparse("auto")).fit(X, labels)
    assert "the full GP was used, which takes no longer for 50 rows" in model.fit_report_
    many = np.random.default_rng(0).normal(size=(120, 3))
    model = GPClassifier(kernels.RBF(), hyperparameters=Hyperparameters(fixed="*"), structure=Sparse("0.000001s")).fit(
        many, many[:, 0] > 0
    )
    assert "100 inducing inputs for 120 rows" in model.fit_report_
    assert model.models_[0][0].prior.inducing.shape == (100, 3)


def test_for_a_time_some_of_many_rows_teach_the_hyperparameters(monkeypatch):
    """The lengthscale is less well known than from all rows, the function is not."""
    monkeypatch.setattr(structures, "LEARNING_ROWS", 100)
    rng = np.random.default_rng(2)
    many = rng.uniform(-3, 3, size=(400, 1))
    y = np.sin(2 * many[:, 0]) + 0.3 * rng.normal(size=400)
    limited, usual = (GPRegressor(random_state=0, structure=Sparse(m)).fit(many, y) for m in ("0.000001s", 100))
    assert "hyperparameters from 100 of the 400 rows, sites of all rows" in limited.fit_report_
    assert "of the 400 rows" not in usual.fit_report_
    means, deviations = zip(*(one.predict(many, return_std=True) for one in (limited, usual)), strict=True)
    assert np.mean(np.abs(means[0] - means[1])) < 0.02
    assert np.mean(deviations[0]) == pytest.approx(np.mean(deviations[1]), rel=0.1)
    errors = [limited.lengthscales()[0].error]
    monkeypatch.setattr(structures, "LEARNING_ROWS", 400)
    errors.append(limited.lengthscales()[0].error)
    assert errors[0] > 1.02 * errors[1]  # of the rows that taught; all would make it smaller


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"method": Method("hybrid-vem", max_iter=1)},
        {"integrate": True},
        {"multi_class": "joint"},
        {"kernel": "average"},
    ],
)
def test_all_rows_teach_where_some_would_not_do(how, monkeypatch):
    monkeypatch.setattr(structures, "LEARNING_ROWS", 60)
    rng = np.random.default_rng(2)
    many = rng.uniform(-3, 3, size=(150, 2))
    y = np.digitize(many[:, 0], [-1, 1] if "multi_class" in how else [0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = GPClassifier(random_state=0, **how, structure=Sparse("0.000001s")).fit(many, y)
    assert "of the 150 rows, sites" not in model.fit_report_
    assert all(part.data.rows == 150 for part in model._latents)


@pytest.mark.parametrize(("method", "evidence"), [("hybrid", "ep"), ("vi", "elbo")])
def test_trained_inputs_have_more_evidence(method, evidence):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 2)) * [1.0, 100.0]  # columns of different units
    y = np.sin(3 * X[:, 0]) + 0.8 * rng.normal(size=400) > 0
    held = Hyperparameters(bounds={"*variance": (0.01, 100.0)})
    settings = {"method": method, "hyperparameters": held, "random_state": 0}
    first = GPClassifier(**settings, structure=Sparse(8)).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # EP's evidence leads the variance to its bound here
        moved = GPClassifier(**settings, structure=Sparse(8, inputs="trained")).fit(X, y)
    assert moved.evidence_[evidence] > first.evidence_[evidence] + 3
    if method == "vi":  # whose evidence is a bound
        new = rng.normal(size=(1000, 2)) * [1.0, 100.0]
        truth = np.where(np.sin(3 * new[:, 0]) + 0.8 * rng.normal(size=1000) > 0, 1, 0)
        before, after = (one.predict_proba(new)[np.arange(1000), truth] for one in (first, moved))
        assert np.mean(np.log(after)) > np.mean(np.log(before))


def test_too_many_inputs_are_not_trained():
    X = np.random.default_rng(0).normal(size=(700, 20))
    with pytest.raises(ValueError, match="more than the 5000 that can be trained"):
        GPClassifier(structure=Sparse(300, inputs="trained")).fit(X, X[:, 0] > 0)


def test_trained_inputs_are_no_request_where_the_full_gp_is_chosen(X, labels):
    model = GPClassifier(structure=Sparse("auto", inputs="trained")).fit(X, labels)
    assert model.models_[0][0].prior.inputs is None and model.converged_
