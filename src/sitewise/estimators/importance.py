"""Which columns matter: shares of the variance of the fitted function.

With the columns drawn independently of each other, each as it is distributed over the rows, the variance of the
posterior mean m(x) splits into parts of single columns, of pairs, and so on (Sobol'):

    alone   S_j = Var E[m | x_j] / Var m                 what column j explains by itself
    total   T_j = E Var[m | all columns but j] / Var m   the same with all parts in which j takes part

so that S_j ≤ T_j and Σ S_j ≤ 1 ≤ Σ T_j, with equality where m is additive.  With A and B two tables of such rows and
C_j the table A whose column j is that of B (Jansen 1999),

    T_j = E (m(A) − m(C_j))² / (2 Var m),     S_j = 1 − E (m(B) − m(C_j))² / (2 Var m).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.stats import qmc

from sitewise.estimators.averages import posteriors
from sitewise.estimators.effects import Background, background, names_of
from sitewise.runtime.precision import working_precision

_SAMPLES = 10  # 2¹⁰ points of a Sobol' sequence, whose error in a share is below 0.01
_BLOCK = 2048  # rows that are predicted at a time
_MANY = 10**6  # rows from which the distribution of a column is taken


@dataclasses.dataclass(frozen=True)
class Importance:
    """How much of the variation of the fitted function each column explains, as shares between 0 and 1.

    alone   by itself, averaged over the other columns; the shares add up to at most 1
    total   alone and together with other columns; the difference to `alone` is its part in interactions

    They describe the fitted function, with the columns moved independently of each other over the values that they
    have in the rows.  They do not say what would happen if a column were changed in the world (that takes an
    experiment), nor how good the predictions are, and of two columns that carry the same information one may get all
    of the share.  Several classes count together.
    """

    names: tuple[str, ...]
    alone: np.ndarray
    total: np.ndarray

    @property
    def order(self) -> np.ndarray:
        """The numbers of the columns, the most important first."""
        return np.argsort(-self.total, kind="stable")

    def __str__(self) -> str:
        width = max(map(len, (*self.names, "column")))
        lines = [f"{'column':{width}s}  alone  total"]
        return "\n".join(
            lines + [f"{self.names[j]:{width}s}  {self.alone[j]:5.2f}  {self.total[j]:5.2f}" for j in self.order]
        )


def importance(model: Any, X: Any = None) -> Importance:
    """The shares of all columns of a fitted estimator; `GPBase.importance` describes the arguments."""
    names = names_of(model)
    columns = len(names)
    over = background(model, X, _MANY)
    u = qmc.Sobol(2 * columns, seed=0).random_base2(_SAMPLES)
    A, B = (_independent(over, part) for part in (u[:, :columns], u[:, columns:]))
    with working_precision():
        mean = [[q.latent for q in posteriors(latent)] for latent in model._latents]
        at_a, at_b = (_posterior_mean(mean, table) for table in (A, B))
        # Of both tables, and summed over the latent functions.
        whole = np.sum(np.var(np.concatenate([at_a, at_b]), axis=0))
        alone, total = np.zeros(columns), np.zeros(columns)
        for j in range(columns):
            C = A.copy()
            C[:, j] = B[:, j]
            at_c = _posterior_mean(mean, C)
            if whole > 0:
                alone[j] = 1 - _half_mean_square(at_b - at_c) / whole
                total[j] = _half_mean_square(at_a - at_c) / whole
    return Importance(tuple(names), np.clip(alone, 0.0, 1.0), np.clip(total, 0.0, 1.0))


def _half_mean_square(gap: np.ndarray) -> float:
    return float(0.5 * np.sum(np.mean(gap**2, axis=0)))


def _independent(over: Background, u: np.ndarray) -> np.ndarray:
    """Rows whose columns are quantiles of the columns of the table, at the levels u."""
    out = np.empty_like(u)
    for j in range(u.shape[1]):
        order = np.argsort(over.X[:, j], kind="stable")
        passed = np.cumsum(over.share[order])
        out[:, j] = over.X[order[np.minimum(np.searchsorted(passed, u[:, j]), len(order) - 1)], j]
    return out


def _posterior_mean(draws: list[list[Any]], X: np.ndarray) -> np.ndarray:
    """The posterior mean of every latent function, (rows, functions); of a softmax, minus the mean of the classes."""
    columns = []
    for latent in draws:
        each = []
        for q in latent:
            blocks = [np.asarray(q.marginals(X[at : at + _BLOCK])[0]) for at in range(0, len(X), _BLOCK)]
            mean = np.concatenate(blocks)
            each.append(mean[:, None] if mean.ndim == 1 else mean - mean.mean(axis=1, keepdims=True))
        columns.append(np.mean(each, axis=0))
    return np.hstack(columns)
