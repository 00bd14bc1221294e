"""Protocol of the libraries in `markov_peers.py`: one JSON object on the last line of output.

A script defines fit(data) → a dictionary with `predict`, a function of new times that returns mean and variance of f,
and the learned values.  It is fitted twice in one process: the first fit includes compilation.  The density of hold-out
rows is computed here for all libraries, by 100-point Gauss–Hermite quadrature of N(mean, var), so that only the
posteriors differ.  Only NumPy and SciPy are needed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp


def held_out(likelihood: str, y: np.ndarray, mean: np.ndarray, var: np.ndarray, noise: float) -> float:
    """The mean of log ∫ p(y|f) N(f; mean, var) df."""
    if likelihood == "gaussian":
        total = var + noise**2
        return float(np.mean(-0.5 * np.log(2 * np.pi * total) - 0.5 * (y - mean) ** 2 / total))
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    f = mean[:, None] + np.sqrt(2 * np.maximum(var, 0.0))[:, None] * nodes
    y = y[:, None]
    if likelihood == "counts":
        log_p = y * f - np.exp(f) - gammaln(y + 1)
    else:
        log_p = (log_ndtr if likelihood == "probit" else log_expit)(y * f)
    return float(np.mean(logsumexp(log_p, axis=1, b=weights / np.sqrt(np.pi))))


def serve(library: str, fit: Callable[[dict], dict]) -> None:
    with np.load(sys.argv[1]) as saved:
        data = {name: saved[name] for name in saved.files}
    data["likelihood"] = str(data["likelihood"])
    found: dict = {"library": library}
    for name in ("cold", "warm")[: int(sys.argv[2])]:
        cpu, wall = time.process_time(), time.perf_counter()
        learned = fit(data)
        found[name] = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    mean, var = (np.asarray(a, float).ravel() for a in learned.pop("predict")(data["X_held"]))
    found["held_out"] = held_out(data["likelihood"], data["y_held"], mean, var, learned.get("noise", 0.0))
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**found, **learned}), flush=True)
