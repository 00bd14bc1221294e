"""The EP of the printed tables: sites frozen while the hyperparameters are learned.

    1  EP's sites λ at the starting θ
    2  θ ← argmax log Z_q(λ, θ),   log Z_q = log ∫ N(f; 0, K_θ) Π exp(nat1_i f_i − ½ prec_i f_i²) df,   λ held fixed
    3  predictions at that θ, with the sites of the start

Step 2 is the marginal likelihood of a regression on the pseudo-observations nat1/prec with noise 1/prec.  The
library that made the column maximises it: its optimiser does not run EP again.  The omitted terms of EP's evidence,
Σ log of the tilted normaliser, depend on θ, so that this is not an ascent of EP's evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise import EP, Data, Model, Nested
from sitewise import evidence as evidences
from sitewise_icml2023 import lbfgs
from sitewise_icml2023.protocols import Fold


def row(model: Model, fold: Fold, nudge: int | None = None) -> dict[str, Any]:
    """Return the results of the fit of one fold."""
    start = Nested(EP(), evidences.ep, fixed=("kernel.*",)).fit(model, Data.of(fold.X, fold.y))
    nat1, prec = (np.asarray(part) for part in start.sites)
    found = lbfgs.row(model, fold, lambda K: evidence(K, nat1, prec), nudge)
    return {**found, "converged": found["converged"] and start.converged}


def evidence(K: np.ndarray, nat1: np.ndarray, prec: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """log Z_q, its gradient with respect to K, the weights of the mean and (K + 1/prec)⁻¹."""
    R, L = lbfgs.conditioned(K, prec)
    a = nat1 - R @ (K @ nat1)
    value = 0.5 * nat1 @ (K @ a) - np.sum(np.log(np.diag(L)))
    return value, 0.5 * (np.outer(a, a) - R), a, R
