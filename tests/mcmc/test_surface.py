"""A surface run that is killed and started again gives the same numbers, whatever the blocks."""

import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods
from sitewise.mcmc import Annealing, sample_points


def _run(store=None, block=2, done=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    vectors = np.array([[0.0, 0.0], [0.5, 2.0], [-1.0, 4.0], [1.0, 6.0]])
    return sample_points(
        model, Data.of(X, y), vectors, (X[:3], y[:3]), annealing=Annealing(chains=4, pilot=8), steps=8, max_steps=16,
        target_se=0.2, draws=4, block=block, store=store, done=done,
    )  # fmt: skip


def test_killed_and_restarted(tmp_path):
    whole = _run()
    calls = []

    def kill(text):
        calls.append(text)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, done=kill)
    before = len(list(tmp_path.glob("*.npz")))
    (tmp_path / "half.123.tmp").write_bytes(b"cut off")
    again = _run(tmp_path)
    assert 0 < before < len(list(tmp_path.glob("*.npz")))
    for a, b in zip(whole, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_blocks_do_not_matter():
    for a, b in zip(_run(block=2), _run(block=1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
