"""A fit that would not fit into memory is refused up front, with the number."""

import numpy as np
import pytest

from sitewise import Data, GPClassifier, Model, kernels, likelihoods, resolve
from sitewise.process import memory


def test_the_budget_can_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITEWISE_MEMORY", "2.5")
    assert memory.budget() == 2.5e9
    for wrong in ("none", "-1", "0", "nan"):
        monkeypatch.setenv("SITEWISE_MEMORY", wrong)
        with pytest.raises(ValueError, match="SITEWISE_MEMORY must be a positive number of GB"):
            memory.budget()
    monkeypatch.delenv("SITEWISE_MEMORY")
    assert 1e8 < memory.budget() < 1e14


@pytest.mark.parametrize(("method", "need"), [("hybrid", r"0\.0839"), ("hybrid-vem", r"0\.134")])
def test_too_many_rows_are_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, method: str, need: str
) -> None:
    monkeypatch.setenv("SITEWISE_MEMORY", "0.05")
    X = np.arange(1000.0)
    data = Data.of(X, np.where(X % 2, 1.0, -1.0))
    with pytest.raises(ValueError, match=rf"A full GP of 1024 rows needs about {need} GB .* but 0\.05 GB may be used"):
        resolve(method).fit(Model.full(kernels.RBF(), likelihoods.BernoulliProbit()), data)
    with pytest.raises(ValueError, match=r"structure=Sparse\(500\)"):
        GPClassifier(method=method).fit(X[:, None], X % 2)
    memory.require_full(500)


def test_as_many_fits_as_fit_into_the_budget_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITEWISE_MEMORY", "1")
    assert memory.full_fits(2000) == 3  # 10 matrices of 32 MB each
    assert memory.full_fits(100_000) == 1  # refused by `require_full`
    monkeypatch.setenv("SITEWISE_MEMORY", "0.7")
    assert memory.full_fits(500, 2) == 12  # 7 matrices of 8 MB each
    monkeypatch.setattr(memory, "budget", lambda: float("inf"))  # a system that does not tell its memory
    assert memory.full_fits(2000) > 8


def test_joint_classes_count_all_latent_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITEWISE_MEMORY", "0.5")
    X = np.arange(300.0)
    memory.require_full(320)
    with pytest.raises(ValueError, match=r"320 rows and 10 latent functions .* varying parameter constant"):
        memory.require_full(320, 10, classes=False)
    with pytest.raises(ValueError, match=r"320 rows and 10 joint classes needs about 0\.573 GB .* against the rest"):
        GPClassifier(multi_class="joint").fit(X[:, None], X % 10)
