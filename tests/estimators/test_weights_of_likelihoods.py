"""A whole weight is equivalent to copies of the row, for every likelihood and every structure."""

import numpy as np
import pytest

from sitewise import GPRegressor, Method, Sparse
from sitewise.likelihoods import BY_NAME

ROWS = 16
NAMES = [name for name, kind in BY_NAME.items() if kind.support != "classes"]


def targets(name: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return observations and the side information that the likelihood needs."""
    kind, rng = BY_NAME[name], np.random.default_rng(3)
    counts = np.array([0.0, 3.0, 1.0, 0.0] * (ROWS // 4))
    by_support = {
        "real": rng.standard_normal(ROWS),
        "positive": rng.gamma(2.0, 1.0, ROWS),
        "amounts": np.where(counts == 0, 0.0, rng.gamma(2.0, 1.0, ROWS)),
        "shares": rng.uniform(0.1, 0.9, ROWS),
        "counts": counts,
        "ranks": np.arange(ROWS) % 3.0,
    }
    side = {}
    if "trials" in kind.keywords:
        side["trials"] = np.full(ROWS, 4.0)
    if "noise" in kind.keywords:
        side["noise"] = np.full(ROWS, 0.3)
    if "event" in kind.keywords:
        side["event"] = np.arange(ROWS) % 3 > 0
    return by_support[kind.support], side


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_weights_equal_copies(name: str) -> None:
    compare(name, "full")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("structure", ["markov", Sparse(6)])
def test_weights_equal_copies_in_every_structure(structure: object) -> None:
    compare("hurdle_gamma", structure)


def compare(name: str, structure: object) -> None:
    X = np.linspace(0, 4, ROWS)[:, None]
    y, side = targets(name)
    weight = np.arange(ROWS) % 3 + 1
    copies = np.repeat(np.arange(ROWS), weight)
    settings = {"likelihood": name, "structure": structure, "method": Method(max_iter=3)}
    weighted = GPRegressor(**settings).fit(X, y, weight, **side)
    copied = GPRegressor(**settings).fit(X[copies], y[copies], **{key: part[copies] for key, part in side.items()})
    assert weighted.evidence_["ep"] == pytest.approx(copied.evidence_["ep"], rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(weighted.predict_latent(X), copied.predict_latent(X), rtol=1e-8, atol=1e-8)


def test_fits_are_reproducible_by_default() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    y = np.sin(X[:, 0])
    first, second = (GPRegressor(structure=Sparse(8), method=Method(max_iter=2)).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
