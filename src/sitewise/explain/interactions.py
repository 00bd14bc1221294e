"""Interactions of two columns of the table on the latent scale, with standard deviations.

With the averages F of `effects`, the interaction of two columns is F_jk(u, v) − F_j(u) − F_k(v) + F_0, which is 0 where
f is additive in the two columns.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sitewise.explain.effects import background, latent_sums, moved, outputs_of, points_of
from sitewise.explain.importance import total_shares
from sitewise.explain.table_columns import explained
from sitewise.process.precision import working_precision

MAX_ROWS = 100  # over which an interaction is averaged, which has one sum per pair of values
POINTS = 7  # values of a column of numbers


@dataclasses.dataclass(frozen=True)
class Interaction:
    """The interaction of two columns on the latent scale: their joint effect minus the sum of their effects.

    Attributes
    ----------
    names : tuple of two str
        Names of the columns.
    columns : tuple of two int
        Numbers of the columns among the columns of the table.
    grids : tuple of two arrays
        Values in the units of the table, or names of levels, per column.
    mean, sd : array of shape (n_first, n_second)
        Means and standard deviations; with several classes or two latent functions, a third axis.
    outputs : tuple of str
        The class, or the name of the function, per entry of the third axis.
    rows : int
        Number of rows averaged over.
    """

    names: tuple[str, str]
    columns: tuple[int, int]
    grids: tuple[np.ndarray, np.ndarray]
    mean: np.ndarray
    sd: np.ndarray
    outputs: tuple[str, ...]
    rows: int


def interaction(
    model: Any, first: Any = None, second: Any = None, X: Any = None, *, points: int = POINTS, rows: int | None = None
) -> Interaction:
    """Return the interaction of two columns on the latent scale, with standard deviations.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    first, second, X, points, rows : as in GPRegressor.interaction
        With a Pipeline, the columns are the columns of the table.

    Returns
    -------
    interaction : Interaction
        Values of both columns with means and standard deviations.
    """
    view = explained(model, "interaction")
    if len(view.columns) < 2:
        name = view.columns[0].name
        raise ValueError(f"An interaction is of two columns, but this model has one; use effect({name!r}) instead.")
    if (first is None) != (second is None):
        raise ValueError("Name both columns of an interaction, or none for the two most important columns.")
    if first is None:
        first, second = (int(j) for j in np.argsort(-total_shares(view, X), kind="stable")[:2])
    numbers = view.number(first), view.number(second)
    if numbers[0] == numbers[1]:
        raise ValueError(f"An interaction is of two columns, but {first!r} was given twice; name another column.")
    pair = [view.columns[j] for j in numbers]
    (one, one_codes, _), (two, two_codes, _) = (points_of(view, column, points) for column in pair)
    at = [a.ravel() for a in np.meshgrid(np.arange(len(one)), np.arange(len(two)), indexing="ij")]
    codes = one_codes[at[0]], two_codes[at[1]]
    over = background(view.model, view.inputs(X), MAX_ROWS if rows is None else rows)
    moves = [
        moved(over.X, (*pair[0].places, *pair[1].places), np.concatenate(codes, axis=1)),
        *(moved(over.X, column.places, each) for column, each in zip(pair, codes, strict=True)),
    ]
    blocks = np.concatenate([*moves, np.broadcast_to(over.X, moves[0].shape)], axis=1)
    with working_precision():
        found = latent_sums(view.model, blocks, np.concatenate([sign * over.share for sign in (1, -1, -1, 1)]))
    mean, sd = (np.squeeze(a.reshape(len(one), len(two), -1), axis=-1 if a.shape[1] == 1 else ()) for a in found)
    outputs = view.model._latents[0].model.likelihood.functions or outputs_of(view.model)
    return Interaction((pair[0].name, pair[1].name), numbers, (one, two), mean, sd, outputs, len(over.X))
