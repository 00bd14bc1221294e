"""Importance of columns: Sobol' indices, shares of the variance of the fitted function.

With the columns drawn independently of each other, each from its distribution over the rows, the variance of the
posterior mean m(x) splits into parts of single columns, of pairs, and so on (Sobol'):

    alone   S_j = Var E[m | x_j] / Var m                 share of column j by itself
    total   T_j = E Var[m | all columns but j] / Var m   the same with all interactions of column j

so that S_j ≤ T_j and Σ S_j ≤ 1 ≤ Σ T_j, with equality if m is additive.  With A and B two tables of drawn rows and C_j
the table A with column j taken from B (Jansen 1999),

    T_j = E (m(A) − m(C_j))² / (2 Var m),     S_j = 1 − E (m(B) − m(C_j))² / (2 Var m).

A group of columns, such as the 0/1 columns of a categorical column, is drawn together and counts as one.  A share is
the mean over two independent sets of rows.  Its standard error has two parts: the standard deviation over joint
draws of f from its posterior, at fewer rows, and half of the difference between the two sets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sitewise.explain.effects import Background, background
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.responses import joint_draws
from sitewise.explain.table_columns import Explained, explained
from sitewise.likelihoods import Likelihood
from sitewise.process.precision import working_precision

LOG2_SAMPLES = 9  # points of a Sobol' sequence, twice
BLOCK_ROWS = 2048  # rows predicted at a time
MAX_ROWS = 10**6  # rows that determine the distribution of a column
MAX_JOINT_VALUES = 1024  # values of f that are drawn together
DRAWS = 200
MAX_SHARES_WITH_ERRORS = 14  # the largest; each has 64 rows in a joint draw of one function


@dataclasses.dataclass(frozen=True)
class Importance:
    """Feature importance: the share of the variance of the fitted function per column (Sobol' indices).

    The shares describe the fitted function, with the columns varied independently of each other over their values in
    the rows.  They are not causal effects, which need an experiment, nor a measure of predictive quality.  Of two
    columns with the same information, one may get the whole share.  Shares of several classes are combined.  With two
    latent functions per row (`varying`) the shares are of the variance of one function.

    Attributes
    ----------
    names : tuple of str
        The columns.
    alone : array of shape (n_columns,)
        The column by itself, averaged over the other columns; the shares add up to at most 1.
    total : array of shape (n_columns,)
        Alone and together with other columns; the difference to `alone` is due to interactions.
    alone_error, total_error : array of shape (n_columns,)
        Standard errors from the posterior of the function at the learned hyperparameters; NaN except for the fourteen
        largest shares.
    """

    names: tuple[str, ...]
    alone: np.ndarray
    total: np.ndarray
    alone_error: np.ndarray
    total_error: np.ndarray

    @property
    def order(self) -> np.ndarray:
        """Return the column numbers, most important first."""
        return np.argsort(-self.total, kind="stable")

    def __str__(self) -> str:
        width = max(map(len, (*self.names, "column")))
        lines = [f"{'column':{width}s}  alone    ±    total    ±"]
        for j in self.order:
            shares = zip((self.alone, self.total), (self.alone_error, self.total_error), strict=True)
            lines.append(f"{self.names[j]:{width}s}" + "".join(f"   {a[j]:.2f}  {e[j]:.2f} " for a, e in shares))
        return "\n".join(line.rstrip() for line in lines)


def importance(
    model: Any,
    X: Any = None,
    groups: Mapping[str, Sequence[str | int]] | None = None,
    *,
    function: str | None = None,
) -> Importance:
    """Return the feature importance: the share of the variance of the fitted function per column of the table.

    A categorical column of a `TableEncoder` counts as one column.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    X, groups, function : as in GPRegressor.importance
        With a Pipeline, the columns are the columns of the table.

    Returns
    -------
    importance : Importance
        Shares alone and in total.
    """
    view = explained(model, "importance")
    names, parts = _grouped(view, groups or {})
    model = view.model
    over, chosen = background(model, view.inputs(X), MAX_ROWS), _number_of_function(model, function)
    shares, halved = _of_the_mean(model, over, parts, chosen)
    largest = np.argsort(-shares[1], kind="stable")[:MAX_SHARES_WITH_ERRORS]
    values = (len(largest) + 2) * model._latents[0].model.likelihood.latents
    fewer = max(int(np.log2(MAX_JOINT_VALUES / values)), 3) if values < MAX_JOINT_VALUES else 3
    with working_precision():
        tables = tables_of(over, parts, fewer, [parts[j] for j in largest])
        draws = _shares(_joint_draws(model, tables, chosen), len(tables))
    errors = np.full(shares.shape, np.nan)
    errors[:, largest] = np.hypot(np.std(draws, axis=1), halved[:, largest])
    return Importance(tuple(names), *shares, *errors)


def total_shares(model: Any, X: Any = None) -> np.ndarray:
    """Return the `total` share per column of the table, without errors; with two functions, of the first function."""
    view = explained(model, "importance")
    _, parts = _grouped(view, {})
    return _of_the_mean(view.model, background(view.model, view.inputs(X), MAX_ROWS), parts, 0)[0][1]


def _number_of_function(model: Fitted, name: str | None) -> int:
    """Return the number of a latent function, given its name; None means the first."""
    known = model._latents[0].model.likelihood.functions
    if name is None:
        return 0
    if name not in known:
        raise ValueError(
            f"There is no function {name!r}; choose one of {', '.join(map(repr, known))}, or leave it out."
            if known
            else "function names one of two latent functions, but this model has one; leave it out."
        )
    return known.index(name)


def _of_the_mean(
    model: Fitted, over: Background, parts: list[np.ndarray], chosen: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return `alone` and `total` of the posterior mean, (2, groups), and half of the difference of two row sets."""
    with working_precision():
        each = [
            _shares(_posterior_mean(model, tables, chosen), len(tables))[:, 0]
            for tables in (tables_of(over, parts, LOG2_SAMPLES, parts, seed) for seed in (0, 1))
        ]
    return (each[0] + each[1]) / 2, np.abs(each[0] - each[1]) / 2


def _grouped(view: Explained, groups: Mapping[str, Sequence[str | int]]) -> tuple[list[str], list[np.ndarray]]:
    """Return names and inputs of the given groups and of every other column, sorted by the first input."""
    if not isinstance(groups, Mapping):
        raise ValueError(f'groups must be given by name, as {{"shop": ["shop=north", "shop=south"]}}; got {groups!r}.')
    members = {name: [view.number(one) for one in given] for name, given in groups.items()}
    taken = [j for numbers in members.values() for j in numbers]
    alone = {column.name: [j] for j, column in enumerate(view.columns) if j not in taken}
    if empty := [name for name, numbers in members.items() if not numbers]:
        raise ValueError(f"The group {empty[0]!r} has no columns; name at least one, or leave it out.")
    if len(set(taken)) < len(taken):
        raise ValueError("A column is in two groups, or twice in one; put every column into one group at most.")
    if both := members.keys() & alone.keys():
        raise ValueError(f"{sorted(both)[0]!r} is the name of a column outside of the group; rename the group.")
    members |= alone
    names = sorted(members, key=lambda name: min(members[name]))
    return names, [np.array([place for j in members[name] for place in view.columns[j].places]) for name in names]


def tables_of(
    over: Background, parts: list[np.ndarray], samples: int, wanted: list[np.ndarray], seed: int = 0
) -> list[np.ndarray]:
    """Return A, B and the C_j of the wanted parts, of 2^samples rows each."""
    from scipy.stats import qmc  # slow to import

    u = qmc.Sobol(2 * len(parts), seed=seed).random_base2(samples)
    A, B = np.empty((2, len(u), over.X.shape[1]))
    for j, part in enumerate(parts):
        # Quantiles of a column; for a group, of its rows sorted by its first column, then its second, …
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
    """Return `alone` and `total`, (2, draws, groups), given f at the rows of all tables, (draws, rows, functions)."""
    at_a, at_b, *mixed = np.split(f, tables, axis=1)
    whole = np.sum(np.var(np.concatenate([at_a, at_b], axis=1), axis=1), axis=1)  # summed over the functions
    safe = np.where(whole > 0, whole, 1.0)
    without, total = (
        np.stack([0.5 * np.sum(np.mean((other - at_c) ** 2, axis=1), axis=1) / safe for at_c in mixed], axis=1)
        for other in (at_b, at_a)
    )
    found = np.where(whole[:, None] > 0, [1 - without, total], 0.0)
    return np.clip(found, 0.0, 1.0)


def _posterior_mean(model: Fitted, tables: list[np.ndarray], chosen: int) -> np.ndarray:
    """Return the posterior mean of every latent function, shaped as one draw; `chosen` is one of two functions."""
    X, step = np.concatenate(tables), BLOCK_ROWS
    functions = []
    for latent in model._latents:
        qs, weight = latent.posteriors()
        each = [
            np.concatenate([np.asarray(q.latent.marginals(X[at : at + step])[0]) for at in range(0, len(X), step)])
            for q in qs
        ]
        mean = np.average(each, axis=0, weights=weight).reshape(1, len(X), -1)
        functions.append(_compared(mean, latent.model.likelihood, chosen))
    return np.concatenate(functions, axis=2)


def _joint_draws(model: Fitted, tables: list[np.ndarray], chosen: int) -> np.ndarray:
    """Draw every latent function jointly; `chosen` is one of two functions."""
    X, rng = np.concatenate(tables), np.random.default_rng(0)
    functions = []
    for latent in model._latents:
        qs, weight = latent.posteriors()
        if not latent.has_sites:  # the variation between hyperparameters dominates
            qs = qs[:: max(1, len(qs) // 10)]
            weight = np.full(len(qs), 1 / len(qs))
        each = [
            _compared(f.reshape(len(f), -1, len(X)).swapaxes(1, 2), latent.model.likelihood, chosen)
            for _, f in joint_draws(qs, weight, X, rng, DRAWS)
        ]
        functions.append(np.concatenate(each))
    return np.concatenate(functions, axis=2)


def _compared(f: np.ndarray, likelihood: Likelihood, chosen: int) -> np.ndarray:
    """Return the functions whose variance is shared: one of two, or all of a softmax minus their mean.

    A common shift of the functions of a softmax changes no prediction.
    """
    if likelihood.functions:
        return f[:, :, chosen : chosen + 1]
    return f if f.shape[2] == 1 else f - f.mean(axis=2, keepdims=True)
