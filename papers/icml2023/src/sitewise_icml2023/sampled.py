"""MCMC as a task: hyperparameters and latent values sampled, predictions averaged over the draws.

Log-uniform priors within the default bounds [1e-5, 1e6], as in the paper.  With labels and one lengthscale θ is drawn
without a chain (`importance`), from a finer net where fewer than 200 draws count.  Other models are sampled by chains;
those whose R-hat exceeds 1.05, or that have fewer than 200 effective draws, are run again three times as long, and once
more.  The row says what was done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise import Data, Model, resolve
from sitewise.mcmc import sample
from sitewise.metrics import accuracy
from sitewise_icml2023 import importance
from sitewise_icml2023.protocols import Fold

RHAT, ESS = 1.05, 200
LENGTHS = (1000, 3000, 9000)
POINTS, PARTS = (256, 1024), 4
PREDICT_FROM = 500
FLOOR = 1e-12  # as in the paper, no probability counts as less


def row(model: Model, kind: str, fold: Fold, ard: bool = False) -> dict[str, Any]:
    """What MCMC adds to the row of a task; `ard`: the model has several lengthscales."""
    if kind == "classification" and not ard:
        return _by_importance(fold)
    return _by_chains(model, kind, fold)


def _by_importance(fold: Fold) -> dict[str, Any]:
    for points in POINTS:
        drawn = importance.sample(fold, points)
        if drawn.ess >= ESS:
            break
    density = _clipped(drawn.log_density(fold.y_test))
    size = points // PARTS  # a quarter of the net is a net
    parts = [_clipped(drawn.log_density(fold.y_test, slice(i, i + size))).mean() for i in range(0, points, size)]
    weight = np.exp(drawn.log_weight - drawn.log_weight.max())
    mean = np.average(drawn.vectors, axis=0, weights=weight)
    sd = np.sqrt(np.average((drawn.vectors - mean) ** 2, axis=0, weights=weight))
    good = drawn.ess >= ESS
    return {
        "test_loglik": float(density.mean()),
        "test_acc": accuracy(np.exp(drawn.log_density(np.ones(len(fold.y_test)))), fold.y_test),
        "sampler": "importance",
        "ess": drawn.ess,
        "draws": points,
        "se": float(np.std(parts, ddof=1) / np.sqrt(PARTS)),
        "theta": {f"kernel.{k}": [float(mean[i]), float(sd[i])] for i, k in enumerate(("lengthscale", "variance"))},
        "converged": good,
        "reason": "converged" if good else f"{drawn.ess:.0f} effective draws of {points}",
    }


def _clipped(density: np.ndarray) -> np.ndarray:
    return np.clip(density, np.log(FLOOR), np.log1p(-FLOOR))


def _by_chains(model: Model, kind: str, fold: Fold) -> dict[str, Any]:
    data = Data.of(fold.X, fold.y)
    fitted = resolve("hybrid").fit(model, data).model  # the chains start about it
    for draws in LENGTHS:
        chain = sample(fitted, data, warmup=3 * draws // 10, draws=draws)
        found = chain.diagnostics()
        rhat, ess = max(d["rhat"] for d in found.values()), min(d["bulk_ess"] for d in found.values())
        good = rhat <= RHAT and ess >= ESS
        if good:
            break
    density = chain.log_density(fold.X_test, fold.y_test, draws=PREDICT_FROM)
    hits = None
    if kind == "classification":
        density = _clipped(density)
        hits = accuracy(chain.probability(fold.X_test, draws=PREDICT_FROM), fold.y_test)
    return {
        "test_loglik": float(density.mean()),
        "test_acc": hits,
        "sampler": "chains",
        "rhat": rhat,
        "ess": ess,
        "draws": draws,
        "theta": {name: [d["mean"], d["sd"]] for name, d in found.items()},
        "converged": good,
        "reason": "converged" if good else f"R-hat {rhat:.3f}, {ess:.0f} effective draws",
        "at_bound": list(chain.at_bound),
    }
