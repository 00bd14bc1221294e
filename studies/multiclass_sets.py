"""Tables of several classes on which the treatment of classes is chosen: scikit-learn's, and simulated ones.

`split(name, number)` returns training rows, training labels, test rows and test labels, with columns standardised on
the training rows.  Simulated tables are drawn anew for every split.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine

Table = tuple[np.ndarray, np.ndarray]


def _functions(rng: np.random.Generator, Z: np.ndarray, count: int) -> np.ndarray:
    """Draw functions with unit variance from a Gaussian process with an RBF kernel of lengthscale 1.6."""
    waves = rng.normal(size=(count, Z.shape[1], 60)) / 1.6
    weights = rng.normal(size=(count, 60, 1)) * np.sqrt(2 / 60)
    return np.concatenate(
        [np.cos(Z @ w + rng.uniform(0, 2 * np.pi, 60)) @ v for w, v in zip(waves, weights, strict=True)], axis=1
    )


def _drawn(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    """Draw labels from the softmax of f."""
    return np.argmax(f + rng.gumbel(size=f.shape), axis=1)


def balance(rng: np.random.Generator) -> Table:
    """All combinations of four numbers from 1 to 5; the class is the sign of x₁x₂ − x₃x₄: separable."""
    X = np.array(list(itertools.product(range(1, 6), repeat=4)), float)
    return X, np.sign(X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]).astype(int) + 1


def shapes(rng: np.random.Generator) -> Table:
    """18 correlated columns made from six; four classes by random functions of these six."""
    Z = rng.normal(size=(1134, 6))
    X = Z @ rng.normal(size=(6, 18)) + 0.4 * rng.normal(size=(1134, 18))
    X[:, ::3] = np.exp(0.4 * X[:, ::3] / X[:, ::3].std(axis=0))
    return X, _drawn(rng, 3.5 * _functions(rng, Z, 4))


def charts(rng: np.random.Generator) -> Table:
    """60 points of control charts of six kinds: normal, cyclic, rising, falling, shifted up, shifted down."""
    t, y = np.arange(1, 61.0), np.arange(950) % 6
    X = 30 + 2 * rng.uniform(-3, 3, (950, 60))
    cyclic = rng.uniform(10, 15, (950, 1)) * np.sin(2 * np.pi * t / rng.uniform(10, 15, (950, 1)))
    trend = rng.uniform(0.2, 0.5, (950, 1)) * t
    shift = (t > rng.uniform(20, 40, (950, 1))) * rng.uniform(7.5, 20, (950, 1))
    return X + np.choose(y[:, None], [np.zeros_like(t), cyclic, trend, -trend, shift, -shift]), y


def glass(rng: np.random.Generator) -> Table:
    """Nine columns; six classes of very different sizes, clouds with heavy tails."""
    share = np.array([70, 76, 17, 13, 9, 29]) / 214
    y = rng.choice(6, size=1214, p=share)
    centre, spread = 1.1 * rng.normal(size=(6, 9)), np.exp(0.5 * rng.normal(size=(6, 9)))
    return centre[y] + spread[y] * rng.standard_t(4, size=(1214, 9)), y


def waves(rng: np.random.Generator) -> Table:
    """Ten columns; three classes by linear functions and a wave of one column each."""
    X = rng.normal(size=(1300, 10))
    return X, _drawn(rng, 2.25 * X @ rng.normal(size=(10, 3)) / np.sqrt(10) + np.sin(2 * X[:, :3]))


def faint(rng: np.random.Generator) -> Table:
    """Twelve columns; eight classes by weak linear functions."""
    X = rng.normal(size=(1300, 12))
    return X, _drawn(rng, 0.8 * X @ rng.normal(size=(12, 8)) / np.sqrt(12))


def noise(rng: np.random.Generator) -> Table:
    """Six columns; five classes that do not depend on them."""
    return rng.normal(size=(1200, 6)), rng.integers(0, 5, 1200)


def _five_digits(rng: np.random.Generator) -> Table:
    X, y = load_digits(return_X_y=True)
    return X[y < 5], y[y < 5]


# name → the table, and the number of training rows
SETS: dict[str, tuple[Callable[[np.random.Generator], Table], int]] = {
    "iris": (lambda _: load_iris(return_X_y=True), 112),
    "wine": (lambda _: load_wine(return_X_y=True), 134),
    "digits": (lambda _: load_digits(return_X_y=True), 150),
    "digits 0 to 4": (_five_digits, 450),
    "balance": (balance, 468),
    "shapes": (shapes, 634),
    "charts": (charts, 450),
    "glass": (glass, 214),
    "waves": (waves, 300),
    "faint": (faint, 300),
    "noise": (noise, 200),
}


def split(name: str, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and labels, test rows and labels of one split."""
    make, rows = SETS[name]
    rng = np.random.default_rng(number)
    X, y = make(rng)
    order = rng.permutation(len(y))
    train, test = order[:rows], order[rows:]
    centre, spread = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - centre) / np.where(spread > 0, spread, 1.0)
    return X[train], y[train], X[test], y[test]
