"""Pickled latent functions: the posterior is computed at the first use, in any thread."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sitewise import GPClassifier
from sitewise.fitted.latent import Latent

X = np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(scope="module", params=["average", "shrunk"])
def model(request):
    settings = {"average": {}, "shrunk": {"kernel": "shrunk", "integrate": False}}[request.param]
    return GPClassifier(**settings).fit(X, X[:, 0] + 0.3 * X[:, 1] > 0)


def test_unpickling_and_copying_compute_nothing(model, monkeypatch):
    expected = model.predict_proba(X)
    with monkeypatch.context() as patch:
        patch.setattr(Latent, "of", None)
        again = pickle.loads(pickle.dumps(copy.deepcopy(pickle.loads(pickle.dumps(model)))))
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    np.testing.assert_array_equal(again.loo_.log_density, model.loo_.log_density)


def test_threads_that_use_an_unpickled_model_at_once_predict_the_same(model):
    expected = model.predict_proba(X)
    for _ in range(3):
        again = pickle.loads(pickle.dumps(model))
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(again.predict_proba, [X] * 4):
                np.testing.assert_array_equal(found, expected)


def test_an_unpickled_function_has_no_unknown_attributes(model):
    again = pickle.loads(pickle.dumps(model))._latents[0]
    with pytest.raises(AttributeError, match="has no attribute 'postrior'"):
        _ = again.postrior
    assert not hasattr(again, "_repr_html_")
