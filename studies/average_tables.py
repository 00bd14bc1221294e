"""Simulated tables on which the candidates of the average are chosen: kinds, rows and columns that real tables have.

`table(kind, rows, seed)` returns training and test rows: X, f at the training rows, X_test, f at the test rows.  f has
mean 0 and standard deviation about 2.5 (labels) or 1 (values).
"""

from __future__ import annotations

import numpy as np

TEST_ROWS = 400
KINDS = ("smooth", "additive", "rules", "forest", "skewed", "sparse", "levels", "wide", "wide-linear", "linear")
COLUMNS = {"wide": 150, "wide-linear": 150, "sparse": 25, "levels": 20}


def table(kind: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, f, X_test and f_test of one simulated table; f has standard deviation 1."""
    rng = np.random.default_rng([KINDS.index(kind), rows, seed])
    count, columns = rows + TEST_ROWS, COLUMNS.get(kind, 8)
    X = rng.normal(size=(count, columns))
    mixing = np.eye(columns) + 0.3 * rng.normal(size=(columns, columns)) / np.sqrt(columns)
    X = X @ mixing
    if kind == "smooth":
        f = _random_features(X[:, :5] / 2.0, rng)
    elif kind == "additive":
        f = sum(_random_features(X[:, [j]] / 1.2, rng) for j in range(5))
        f = f + 0.7 * _random_features(X[:, :2] / 1.5, rng)
    elif kind == "rules":
        f = sum(rng.normal() * np.all(_box(X, rng, 2 + k % 2), axis=1) for k in range(6))
    elif kind == "forest":
        f = sum(_tree(X, rng, 4) for _ in range(5))
    elif kind == "skewed":
        f = _random_features(X[:, :4] / 2.0, rng)
        X = np.exp(rng.uniform(0.8, 1.8, size=columns) * X)
    elif kind == "sparse":
        present = rng.uniform(size=X.shape) < 0.15
        f = (present * X)[:, :8] @ rng.normal(size=8) + present[:, 3:9] @ rng.normal(size=6)
        X = np.where(present, np.exp(X), 0.0)
        f = f + np.where(present[:, 0] & present[:, 8], 2.0, 0.0)
    elif kind == "levels":
        levels = rng.integers(0, 4, size=(count, 5))
        effects = rng.normal(size=(5, 4))
        f = sum(effects[j][levels[:, j]] for j in range(5)) + 1.5 * rng.normal(size=(4, 4))[levels[:, 0], levels[:, 1]]
        X = np.concatenate([levels[:, [j]] == np.arange(4) for j in range(5)], axis=1).astype(float)
    elif kind == "wide":
        f = np.tanh(X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + np.abs(X[:, 3])
    else:
        f = X @ rng.normal(size=columns) / np.sqrt(columns)
    f = (f - np.mean(f)) / np.std(f)
    return X[:rows], f[:rows], X[rows:], f[rows:]


def _random_features(X: np.ndarray, rng: np.random.Generator, features: int = 400) -> np.ndarray:
    """Return a draw of a Gaussian process with an RBF kernel at the rows X."""
    directions, phases = rng.normal(size=(X.shape[1], features)), rng.uniform(0, 2 * np.pi, features)
    return np.cos(X @ directions + phases) @ rng.normal(size=features) * np.sqrt(2 / features)


def _box(X: np.ndarray, rng: np.random.Generator, conditions: int) -> np.ndarray:
    columns = rng.choice(min(6, X.shape[1]), size=conditions, replace=False)
    return (X[:, columns] > rng.normal(size=conditions) * 0.5) ^ (rng.uniform(size=conditions) < 0.5)


def _tree(X: np.ndarray, rng: np.random.Generator, depth: int) -> np.ndarray:
    if depth == 0:
        return np.full(len(X), rng.normal())
    cut = X[:, rng.integers(X.shape[1])] > 0.7 * rng.normal()
    return np.where(cut, _tree(X, rng, depth - 1), _tree(X, rng, depth - 1))
