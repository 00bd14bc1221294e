"""Simulate time series: times, a path of a Matérn process, and observations of it.

The path is drawn by its own recursion in NumPy, not by the library: with F of dz = F z dt + noise and the stationary
covariance P, a step Δ has A = exp(FΔ) and noise of covariance P − A P Aᵀ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ROWS_A_LENGTH = 8


class Regime(NamedTuple):
    """Twice the order of a Matérn process of lengthscale 1, its standard deviation, and what is observed."""

    order: int
    deviation: float
    likelihood: str


REGIMES = {
    "binary, probit, Matérn-5/2": Regime(5, 3.0, "probit"),
    "binary, Matérn-5/2": Regime(5, 3.0, "binary"),
    "binary, Matérn-3/2": Regime(3, 3.0, "binary"),
    "counts, Matérn-3/2": Regime(3, 1.0, "counts"),
    "gaussian, Matérn-3/2": Regime(3, 1.0, "gaussian"),
}
NOISE = 0.5  # standard deviation of the Gaussian observations


class Series(NamedTuple):
    X: np.ndarray
    f: np.ndarray
    y: np.ndarray
    X_held: np.ndarray
    f_held: np.ndarray
    y_held: np.ndarray


def path(order: int, deviation: float, time: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """f at sorted times, of a Matérn process of lengthscale 1."""
    step, decay = np.diff(time, prepend=time[0]), np.sqrt(order)
    if order == 3:
        F, P = np.array([[0.0, 1], [-(decay**2), -2 * decay]]), np.diag([1.0, decay**2])
    else:
        F = np.array([[0.0, 1, 0], [0, 0, 1], [-(decay**3), -3 * decay**2, -3 * decay]])
        k = decay**2 / 3
        P = np.array([[1.0, 0, -k], [0, k, 0], [-k, 0, decay**4]])
    size = len(F)
    N = F + decay * np.eye(size)  # nilpotent
    A = np.exp(-decay * step)[:, None, None] * sum(
        step[:, None, None] ** k / max(k, 1) * np.linalg.matrix_power(N, k) for k in range(size)
    )
    values, axes = np.linalg.eigh(P - A @ P @ A.swapaxes(1, 2))
    noise = np.einsum("kij,kj->ki", axes, np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=(len(time), size)))
    state = np.linalg.cholesky(P) @ rng.normal(size=size)
    f = np.empty(len(time))
    for k in range(len(time)):
        state = A[k] @ state + noise[k]
        f[k] = state[0]
    return deviation * f


def observe(likelihood: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels ±1 of a logistic ("binary") or a probit model, counts, or f with noise."""
    if likelihood == "probit":
        return np.where(f + rng.normal(size=len(f)) > 0, 1.0, -1.0)
    if likelihood == "binary":
        return np.where(rng.random(len(f)) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
    return rng.poisson(np.exp(f)).astype(float) if likelihood == "counts" else f + NOISE * rng.normal(size=len(f))


def simulate(regime: Regime, rows: int, seed: int, held: int | None = None) -> Series:
    """`rows` rows, eight a lengthscale at irregular times, and `held` more at random times between them (a fifth)."""
    rng = np.random.default_rng(seed)
    held = rows // 5 if held is None else held
    time = np.sort(rng.uniform(0, rows / ROWS_A_LENGTH, rows + held))
    f = path(regime.order, regime.deviation, time, rng)
    y = observe(regime.likelihood, f, rng)
    out = np.zeros(rows + held, bool)
    out[rng.choice(rows + held, held, replace=False)] = True
    return Series(time[~out, None], f[~out], y[~out], time[out, None], f[out], y[out])
