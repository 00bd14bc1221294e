"""Which columns matter: shares of the variance of the fitted function.

With the columns drawn independently of each other, each as it is distributed over the rows, the variance of the
posterior mean m(x) splits into parts of single columns, of pairs, and so on (Sobol'):

    alone   S_j = Var E[m | x_j] / Var m                 what column j explains by itself
    total   T_j = E Var[m | all columns but j] / Var m   the same with all parts in which j takes part

so that S_j ≤ T_j and Σ S_j ≤ 1 ≤ Σ T_j, with equality where m is additive.  With A and B two tables of such rows and
C_j the table A whose column j is that of B (Jansen 1999),

    T_j = E (m(A) − m(C_j))² / (2 Var m),     S_j = 1 − E (m(B) − m(C_j))² / (2 Var m).

A group of columns, such as the 0/1 columns of one text column, is drawn together and counts as one.  The standard
error of a share has two parts: its deviation over joint draws of f from its posterior, at fewer rows, and half of the
difference between two independent sets of rows, whose mean the share is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import qmc

from sitewise.explain.effects import Background, background, column_of, names_of
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.responses import joint_draws
from sitewise.process.precision import working_precision

_SAMPLES = 9  # 2⁹ points of a Sobol' sequence, twice
_BLOCK = 2048  # rows that are predicted at a time
_MANY = 10**6  # rows from which the distribution of a column is taken
_JOINT = 1024  # values of f that are drawn together
_DRAWS = 200  # of them
_MOST_WITH_ERRORS = 14  # shares, the largest, so that each has 64 rows in a joint draw of one function


@dataclasses.dataclass(frozen=True)
class Importance:
    """How much of the variation of the fitted function each column explains, as shares between 0 and 1.

    alone         by itself, averaged over the other columns; the shares add up to at most 1
    total         alone and together with other columns; the difference to `alone` is its part in interactions
    alone_error   standard errors: how far the shares are uncertain because the function is, at the learned
    total_error   hyperparameters; NaN beyond the fourteen largest shares

    They describe the fitted function, with the columns moved independently of each other over the values that they
    have in the rows.  They do not say what would happen if a column were changed in the world (that takes an
    experiment), nor how good the predictions are, and of two columns that carry the same information one may get all
    of the share.  Several classes count together.
    """

    names: tuple[str, ...]
    alone: np.ndarray
    total: np.ndarray
    alone_error: np.ndarray
    total_error: np.ndarray

    @property
    def order(self) -> np.ndarray:
        """The numbers of the columns, the most important first."""
        return np.argsort(-self.total, kind="stable")

    def __str__(self) -> str:
        width = max(map(len, (*self.names, "column")))
        lines = [f"{'column':{width}s}  alone    ±    total    ±"]
        for j in self.order:
            shares = zip((self.alone, self.total), (self.alone_error, self.total_error), strict=True)
            lines.append(f"{self.names[j]:{width}s}" + "".join(f"   {a[j]:.2f}  {e[j]:.2f} " for a, e in shares))
        return "\n".join(line.rstrip() for line in lines)


def importance(model: Fitted, X: Any = None, groups: Mapping[str, Sequence[str | int]] | None = None) -> Importance:
    """The shares of all columns of a fitted estimator; `GPBase.importance` describes the arguments."""
    names, parts = _grouped(model, groups or {})
    over = background(model, X, _MANY)
    shares, halved = _of_the_mean(model, over, parts)
    largest = np.argsort(-shares[1], kind="stable")[:_MOST_WITH_ERRORS]
    values = (len(largest) + 2) * model._latents[0].model.likelihood.latents
    fewer = max(int(np.log2(_JOINT / values)), 3) if values < _JOINT else 3
    with working_precision():
        tables = tables_of(over, parts, fewer, [parts[j] for j in largest])
        draws = _shares(_joint_draws(model, tables), len(tables))
    errors = np.full(shares.shape, np.nan)
    errors[:, largest] = np.hypot(np.std(draws, axis=1), halved[:, largest])
    return Importance(tuple(names), *shares, *errors)


def total_shares(model: Fitted, X: Any = None) -> np.ndarray:
    """The `total` shares of all columns, without errors."""
    _, parts = _grouped(model, {})
    return _of_the_mean(model, background(model, X, _MANY), parts)[0][1]


def _of_the_mean(model: Fitted, over: Background, parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """`alone` and `total` of the posterior mean, (2, groups), and half of the difference between two sets of rows."""
    with working_precision():
        each = [
            _shares(_posterior_mean(model, tables), len(tables))[:, 0]
            for tables in (tables_of(over, parts, _SAMPLES, parts, seed) for seed in (0, 1))
        ]
    return (each[0] + each[1]) / 2, np.abs(each[0] - each[1]) / 2


def _grouped(model: Fitted, groups: Mapping[str, Sequence[str | int]]) -> tuple[list[str], list[np.ndarray]]:
    """Names, and the columns of each: the given groups, and every other column alone; by the first column."""
    if not isinstance(groups, Mapping):
        raise ValueError(f'groups must be given by name, as {{"shop": ["shop=north", "shop=south"]}}; got {groups!r}.')
    members = {name: np.array([column_of(model, one) for one in given], int) for name, given in groups.items()}
    taken = [int(j) for columns in members.values() for j in columns]
    alone = {name: np.array([j]) for j, name in enumerate(names_of(model)) if j not in taken}
    if empty := [name for name, columns in members.items() if not len(columns)]:
        raise ValueError(f"The group {empty[0]!r} has no columns; name at least one, or leave it out.")
    if len(set(taken)) < len(taken):
        raise ValueError("A column is in two groups, or twice in one; put every column into one group at most.")
    if both := members.keys() & alone.keys():
        raise ValueError(f"{sorted(both)[0]!r} is the name of a column outside of the group; call the group otherwise.")
    members |= alone
    names = sorted(members, key=lambda name: members[name].min())
    return names, [members[name] for name in names]


def tables_of(
    over: Background, parts: list[np.ndarray], samples: int, wanted: list[np.ndarray], seed: int = 0
) -> list[np.ndarray]:
    """A, B and the C_j of the wanted parts, of 2^samples rows each."""
    u = qmc.Sobol(2 * len(parts), seed=seed).random_base2(samples)
    A, B = np.empty((2, len(u), over.X.shape[1]))
    for j, part in enumerate(parts):
        # Quantiles of a column; of a group, its rows in the order of its first column, of its second, …
        order = np.lexsort(over.X[:, part[::-1]].T)
        passed = np.cumsum(over.share[order])
        for table, level in ((A, u[:, j]), (B, u[:, len(parts) + j])):
            table[:, part] = over.X[order[np.minimum(np.searchsorted(passed, level), len(order) - 1)]][:, part]
    mixed = []
    for part in wanted:
        C = A.copy()
        C[:, part] = B[:, part]
        mixed.append(C)
    return [A, B, *mixed]


def _shares(f: np.ndarray, tables: int) -> np.ndarray:
    """`alone` and `total`, (2, draws, groups), of f at the rows of all tables: (draws, rows, functions)."""
    at_a, at_b, *mixed = np.split(f, tables, axis=1)
    whole = np.sum(np.var(np.concatenate([at_a, at_b], axis=1), axis=1), axis=1)  # the functions count together
    safe = np.where(whole > 0, whole, 1.0)
    without, total = (
        np.stack([0.5 * np.sum(np.mean((other - at_c) ** 2, axis=1), axis=1) / safe for at_c in mixed], axis=1)
        for other in (at_b, at_a)
    )
    found = np.where(whole[:, None] > 0, [1 - without, total], 0.0)
    return np.clip(found, 0.0, 1.0)


def _posterior_mean(model: Fitted, tables: list[np.ndarray]) -> np.ndarray:
    """The posterior mean of every latent function, as one draw."""
    X = np.concatenate(tables)
    functions = []
    for latent in model._latents:
        qs, weight = latent.posteriors()
        each = [
            np.concatenate([np.asarray(q.latent.marginals(X[at : at + _BLOCK])[0]) for at in range(0, len(X), _BLOCK)])
            for q in qs
        ]
        functions.append(_centred(np.average(each, axis=0, weights=weight).reshape(1, len(X), -1)))
    return np.concatenate(functions, axis=2)


def _joint_draws(model: Fitted, tables: list[np.ndarray]) -> np.ndarray:
    """Joint draws of every latent function."""
    X, rng = np.concatenate(tables), np.random.default_rng(0)
    functions = []
    for latent in model._latents:
        qs, weight = latent.posteriors()
        if not latent.has_sites:  # draws of hyperparameters differ more than the functions given each of them
            qs = qs[:: max(1, len(qs) // 10)]
            weight = np.full(len(qs), 1 / len(qs))
        each = [
            _centred(f.reshape(len(f), -1, len(X)).swapaxes(1, 2)) for _, f in joint_draws(qs, weight, X, rng, _DRAWS)
        ]
        functions.append(np.concatenate(each))
    return np.concatenate(functions, axis=2)


def _centred(f: np.ndarray) -> np.ndarray:
    """A shift of all functions of a softmax changes no prediction."""
    return f if f.shape[2] == 1 else f - f.mean(axis=2, keepdims=True)
