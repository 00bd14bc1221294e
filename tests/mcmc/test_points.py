"""A run that is killed and started again gives the same numbers, whatever the blocks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods
from sitewise.errors import UserError
from sitewise.mcmc import Annealing, sample_points
from sitewise.mcmc.points import Points


def _run(store: Path | None = None, block: int = 2, done: Callable[[str], None] | None = None, seed: int = 0) -> Points:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    vectors = np.array([[0.0, 0.0], [0.5, 2.0], [-1.0, 4.0], [1.0, 6.0]])
    return sample_points(
        model, Data.of(X, y), vectors, (X[:3], y[:3]), annealing=Annealing(chains=4, pilot=8), steps=8, max_steps=16,
        target_se=0.2, draws=4, block=block, store=store, done=done, seed=seed,
    )  # fmt: skip


def _same(one: Points, other: Points) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def _lines(store: Path) -> int:
    return store.read_bytes().count(b"\n")


@pytest.mark.slow
def test_killed_and_restarted(tmp_path: Path) -> None:
    whole, store, calls = _run(), tmp_path / "points", []

    def kill(text: str) -> None:
        calls.append(text)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(store, done=kill)
    before = _lines(store)
    with open(store, "ab") as file:
        file.write(b'{"key": "cut off')
    _same(whole, _run(store))
    after = _lines(store)
    assert 0 < before < after
    _same(whole, _run(store))  # all of it is there
    assert _lines(store) == after
    with pytest.raises(AssertionError):
        _same(whole, _run(store, seed=1))
    assert _lines(store) > after  # another job, in the same file


@pytest.mark.slow
def test_a_damaged_block_is_computed_again(tmp_path: Path) -> None:
    store = tmp_path / "points"
    whole = _run(store)
    lines = store.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"A", b"B", 1)
    store.write_bytes(b"".join(lines))
    with pytest.warns(UserWarning, match=r"points is damaged \(lines: 1\); the missing blocks are computed again"):
        _same(whole, _run(store))
    assert _lines(store) == len(lines) + 1


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        _run(tmp_path)


@pytest.mark.slow
def test_blocks_do_not_matter() -> None:
    for a, b in zip(_run(block=2), _run(block=1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
