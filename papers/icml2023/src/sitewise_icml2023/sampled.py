"""MCMC as a task: hyperparameters and latent values sampled, predictions averaged over the draws.

Log-uniform priors within the default bounds [1e-5, 1e6], as in the paper.  Chains whose R-hat exceeds 1.05, or that
have fewer than 200 effective draws, are run again three times as long, and once more; the row says how long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise import Data, Model, resolve
from sitewise.mcmc import sample
from sitewise.metrics import accuracy
from sitewise_icml2023.protocols import Fold

RHAT, ESS = 1.05, 200
LENGTHS = (1000, 3000, 9000)
PREDICT_FROM = 500
FLOOR = 1e-12  # as in the paper, no probability counts as less


def row(model: Model, kind: str, fold: Fold) -> dict[str, Any]:
    """What MCMC adds to the row of a task."""
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
        density = np.clip(density, np.log(FLOOR), np.log1p(-FLOOR))
        hits = accuracy(chain.probability(fold.X_test, draws=PREDICT_FROM), fold.y_test)
    return {
        "test_loglik": float(density.mean()),
        "test_acc": hits,
        "rhat": rhat,
        "ess": ess,
        "draws": draws,
        "theta": {name: [d["mean"], d["sd"]] for name, d in found.items()},
        "converged": good,
        "reason": "converged" if good else f"R-hat {rhat:.3f}, {ess:.0f} effective draws",
        "at_bound": list(chain.at_bound),
    }
