"""MCMC as a task: hyperparameters and latent values sampled, predictions averaged over the draws.

Log-uniform priors within the default bounds [1e-5, 1e6], or within narrower limits that agree better with the public
folds; those of the paper are not printed (erratum E11).  Chains are continued until R-hat is at most 1.05 and 200 draws
are effective; for at most 50 rows, whose posterior of θ is wide, ten times as many.  Rows with `attempts` are of an
earlier program, which drew 160 draws per chain and started again from another seed where these did not suffice.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sitewise import Data, Model, resolve
from sitewise.mcmc import sample
from sitewise.metrics import accuracy
from sitewise_icml2023.protocols import Fold

RHAT, ESS = 1.05, 200
DRAWS, MAX_DRAWS, WARMUP, SEED = 60, 1440, 10, 42
NARROW_LIMITS = (-2, 4)  # decades of ℓ and σ², which follow from public folds of trains and balloons
PREDICT_FROM = 500
FEW_ROWS, MORE = 50, 10  # up to 50 rows ten times as many draws are made, because they are cheap there
FLOOR = 1e-12  # smallest probability that counts, as in the paper


def row(model: Model, kind: str, fold: Fold, narrow: bool = False) -> dict[str, Any]:
    """Return the results of MCMC for a task."""
    low, high = NARROW_LIMITS
    bounds = {"kernel.*": (10.0**low, 10.0**high)} if narrow else None
    data = Data.of(fold.X, fold.y)
    if kind == "regression":
        model = resolve("hybrid").fit(model, data).model  # the search for a mode starts there
    times = MORE if data.rows <= FEW_ROWS else 1
    draws, predict_from = times * DRAWS, times * PREDICT_FROM
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the row has the diagnostics
        chains = sample(
            model, data, bounds=bounds, warmup=WARMUP, draws=draws, min_ess=times * ESS, max_draws=times * MAX_DRAWS,
            seed=SEED,
        )  # fmt: skip
    found = chains.diagnostics()
    rhat, ess = max(d["rhat"] for d in found.values()), min(d["bulk_ess"] for d in found.values())
    good = rhat <= RHAT and ess >= times * ESS
    density = chains.log_density(fold.X_test, fold.y_test, draws=predict_from)
    hits = None
    if kind == "classification":
        density = np.clip(density, np.log(FLOOR), np.log1p(-FLOOR))
        hits = accuracy(chains.probability(fold.X_test, draws=predict_from), fold.y_test)
    return {
        "test_loglik": float(density.mean()),
        "test_acc": hits,
        "draws": chains.vectors.shape[1],
        "continued": chains.vectors.shape[1] > draws,
        "rhat": rhat,
        "ess": ess,
        "accepted": round(float(chains.accepted.mean()), 3),
        "theta": {name: [d["mean"], d["sd"]] for name, d in found.items()},
        "converged": good,
        "reason": "converged" if good else f"R-hat {rhat:.3f}, {ess:.0f} effective draws",
        "at_bound": list(chains.at_bound),
    }
