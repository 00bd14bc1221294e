"""Groups, additive effects and their terms in the estimators."""

import numpy as np
import pytest

import sitewise
from sitewise import (
    Data,
    GPClassifier,
    GPRegressor,
    Hyperparameters,
    Sparse,
    TableEncoder,
    kernels,
    likelihoods,
    means,
)
from sitewise.estimators.serialise import decode, encode
from sitewise.structures import Full, Start

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.uniform(-2, 2, size=(60, 2)), RNG.integers(0, 6, size=60)])
F = np.sin(2 * X[:, 0]) + X[:, 0] * X[:, 1] + np.array([0.0, 2, -1, 0.5, -2, 1])[X[:, 2].astype(int)]
Y = F + 0.1 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def model():
    return GPRegressor("additive", groups=2).fit(X, Y)


def test_terms_add_up_to_the_latent_function(model):
    new = X[:7] + np.array([0.1, -0.1, 0])
    found = model.predict_terms(new)
    assert found.names == ("mean", "offset", "x0", "x1", "x0 × x1", "x2")
    np.testing.assert_allclose(found.mean.sum(axis=1), model.predict_latent(new), atol=1e-10)
    assert np.all(found.sd[:, 0] == 0) and np.all(found.sd[:, 1:] > 0)
    levels = model.predict_terms(np.column_stack([np.zeros((6, 2)), np.arange(6)])).mean[:, -1]
    assert np.array_equal(np.argsort(levels), [4, 2, 0, 3, 5, 1])
    far, seen = (model.predict_terms([[0.0, 0.0, level]]) for level in (99.0, 1.0))
    assert far.mean[0, -1] == 0.0 and far.sd[0, -1] > 2 * seen.sd[0, -1]


def test_shares_of_terms(model):
    found = model.term_shares()
    assert found.names == ("x0", "x1", "x0 × x1", "x2")
    assert np.sum(found.share) == pytest.approx(1.0) and np.all(found.error >= 0)
    assert set(np.array(found.names)[found.order[:2]]) == {"x0 × x1", "x2"} and found.share[1] < 0.05
    assert str(found).splitlines()[0].startswith("term")


def test_groups_are_no_input_of_the_kernel():
    shifted = X.copy()
    shifted[:, 2] = np.array([50.0, -3, 7, 8, 1000, 4])[X[:, 2].astype(int)]
    one, two = (GPRegressor(groups=2, hyperparameters=Hyperparameters(fixed="*")).fit(rows, Y) for rows in (X, shifted))
    np.testing.assert_allclose(one.predict(X), two.predict(shifted), rtol=1e-7)
    assert one.kernel_.parts[0].active_dims == (0, 1) and isinstance(one.kernel_.parts[1], kernels.Index)


def test_sparse_and_saved(tmp_path):
    model = GPRegressor(groups=2, hyperparameters=Hyperparameters(fixed="*"), structure=Sparse(12)).fit(X, Y)
    assert set(model.models_[0][0].prior.inducing[:, 2]) <= set(range(6))
    model.save(tmp_path / "m")
    again = sitewise.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_terms(X[:3]).mean, model.predict_terms(X[:3]).mean)


def test_levels_with_a_rank_come_back_from_a_file():
    arrays = []
    kernel = kernels.Index(1, rank=2, levels=3, kappa=[0.1, 0.2, 0.3])
    again = decode(encode(kernel, arrays), arrays)
    assert repr(again) == repr(kernel)


def test_what_cannot_be_is_refused():
    for settings, words in (
        ({"kernel": "effects"}, "'additive', 'main_effects'"),
        ({"groups": 7}, "There is no column 7"),
    ):
        with pytest.raises(ValueError, match=words):
            GPClassifier(**settings).fit(X, Y > 0)


def test_a_table_of_texts_becomes_numbers_of_groups():
    rows = [{"dose": k / 7, "clinic": f"c{k % 3}"} for k in range(12)]
    encoder = TableEncoder(groups="clinic").fit(rows)
    assert encoder.get_feature_names_out().tolist() == ["dose", "clinic"]
    np.testing.assert_array_equal(encoder.transform(rows)[:4, 1], [0, 1, 2, 0])
    new = [{"dose": 1.0, "clinic": name} for name in ("c1", "other", "third", "other")]
    np.testing.assert_array_equal(encoder.transform(new)[:, 1], [1, 3, 4, 3])


def test_the_warning_of_a_large_full_gp_names_the_memory_of_a_matrix():
    """20 000² numbers of 8 bytes are 3.2 GB."""
    data = Data(np.zeros((20_000, 1)), np.zeros(20_000), np.ones(20_000))
    start = Start(kernels.RBF(), kernels.RBF(), likelihoods.Gaussian(), means.Zero(), data, 0)
    with pytest.warns(UserWarning, match="20000 rows takes 3 GB per matrix"):
        Full().model(start)
