"""Draw inputs, observations, weights and hyperparameters of a fuzz case, including extreme values."""

from __future__ import annotations

from typing import Any

import numpy as np

COLUMNS = 40  # what the columns of every case are padded to
CLASSES = ("probit", "logit")
ORDERED = 4  # classes of the ordinal likelihood


def inputs(rng: np.random.Generator, rows: int, columns: int) -> tuple[np.ndarray, list[str]]:
    tags = []
    X = rng.normal(size=(rows, columns))
    if rng.random() < 0.15:
        X, tags = rng.integers(0, 3, size=(rows, columns)).astype(float), ["ties"]

    def sometimes(name: str, chance: float) -> bool:
        if rng.random() < chance:
            tags.append(name)
            return True
        return False

    if columns > 1 and sometimes("duplicated column", 0.15):
        X[:, -1] = X[:, 0]
    if sometimes("constant column", 0.15):
        X[:, int(rng.integers(columns))] = rng.normal() * 10.0 ** rng.integers(-3, 9)
    if columns > 2 and sometimes("collinear", 0.15):
        X[:, 1] = 2 * X[:, 0] - X[:, 2]
    if rows > 1 and sometimes("duplicated rows", 0.2):
        X = X[rng.integers(0, max(1, rows // 3), size=rows)]
    if sometimes("scales of columns", 0.15):
        X = X * 10.0 ** rng.uniform(-8, 8, size=columns)
    if sometimes("huge", 0.08):
        X = X * 10.0 ** rng.uniform(4, 150)
    if sometimes("tiny", 0.08):
        X = X * 10.0 ** -rng.uniform(4, 150)
    if sometimes("outlier in X", 0.1):
        X[int(rng.integers(rows)), int(rng.integers(columns))] = 1e8
    if sometimes("far from zero", 0.08):
        X = X + 1e6
    return X, tags


def observations(likelihood: str, rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    rows = len(X)
    f = np.sin(3 * rng.normal(size=rows)) + rng.normal(size=rows)
    kinds = ("usual", "constant", "ties", "outlier", "wide", "separable")
    tag = str(rng.choice(kinds, p=[0.4, 0.12, 0.12, 0.12, 0.12, 0.12]))
    if tag == "constant":
        f = np.full(rows, f[0])
    elif tag == "ties":
        f = np.round(f)
    elif tag == "wide":
        f = f * 10.0 ** rng.uniform(-4, 4)
    elif tag == "separable":
        f = np.where(X[:, 0] > np.median(X[:, 0]), 1.0, -1.0) * (1 + np.abs(f))
    out = int(rng.integers(rows))
    level = np.exp(np.clip(f, -18, 14))
    shares = 1 / (1 + np.exp(-np.clip(f, -27, 27)))
    if likelihood in CLASSES:
        y = np.where(f > 0, 1.0, -1.0)
    elif likelihood == "ordinal":
        y = np.clip(np.floor(f + ORDERED / 2), 0, ORDERED - 1)
    elif likelihood in ("poisson", "poisson-softplus", "negative-binomial"):
        y = np.floor(level)
        if tag == "outlier":
            y[out] = 1e8
    elif likelihood == "binomial":
        trials = np.floor(10.0 ** rng.uniform(0, 4, size=rows))
        y = np.stack([np.floor(trials * shares), trials], axis=-1)
    elif likelihood == "beta":
        y = np.clip(shares, 1e-12, 1 - 1e-12)
    elif likelihood in ("gamma", "log-normal"):
        y = level
        if tag == "outlier":
            y[out] = rng.choice([1e8, 1e-8])
    else:
        y = f.copy()
        if tag == "outlier":
            y[out] = rng.choice([1e8, -1e8])
        if likelihood == "heteroscedastic-gaussian":
            y = np.stack([y, 10.0 ** rng.uniform(-6, 6, size=rows)], axis=-1)
        if likelihood == "censored-gaussian":
            which = rng.integers(0, 4, size=rows)
            low = np.where(which == 1, -np.inf, y)
            high = np.where(which == 2, np.inf, np.where(which == 3, y + rng.random(rows), y))
            y = np.stack([low, high], axis=-1)
    return y, [] if tag == "usual" else [f"y {tag}"]


def weights(kind: str, rng: np.random.Generator, rows: int) -> np.ndarray:
    if kind == "one":
        return np.ones(rows)
    if kind == "counts":
        w = rng.integers(0, 4, size=rows).astype(float)
    else:
        w = np.where(rng.random(rows) < 0.3, 0.0, rng.uniform(0.01, 3, size=rows))
    w[int(rng.integers(rows))] = 1.0
    return w


def theta(rng: np.random.Generator) -> dict[str, Any]:
    """log ℓ and log σ in [−10, 10], half of the time within a plausible ±2."""
    wide = rng.random() < 0.5
    reach = 10.0 if wide else 2.0
    ard = rng.random() < 0.5
    log_scales = rng.uniform(-reach, reach, size=COLUMNS) if ard else np.full(COLUMNS, rng.uniform(-reach, reach))
    return {
        "lengthscale": np.exp(log_scales),
        "variance": float(np.exp(2 * rng.uniform(-reach, reach))),
        "noise": float(np.exp(rng.uniform(-reach, reach) / 2)),
        "mean": float(rng.normal() * (10 if wide else 1)),
    }
