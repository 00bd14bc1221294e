"""Cross-validate the models of a comparison, and say how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise.app.compare import scoring
from sitewise.app.compare.baselines import score_baseline_model
from sitewise.app.compare.comparison import LABELS, NO_INPUTS
from sitewise.app.compare.scoring import Score
from sitewise.app.fitting import estimator
from sitewise.app.input.load_table import Loaded
from sitewise.app.process import note, noted
from sitewise.errors import UserError
from sitewise.estimators.base import GPBase
from sitewise.estimators.duration import ANNOUNCED_SECONDS, in_words
from sitewise.methods import METHODS
from sitewise.process.journal import Journal
from sitewise.process.progress import bar


class Plan(NamedTuple):
    """The models to compare and their settings.

    sampling   settings of methods that sample
    """

    methods: list[str]
    baselines: list[str]
    folds: int
    repeats: int
    settings: dict[str, Any]
    sampling: dict[str, int]


def scores_of(
    loaded: Loaded, plan: Plan, parts: Sequence[tuple[np.ndarray, np.ndarray]], journal: Journal
) -> dict[str, list[Score]]:
    """Return the scores of every model on every fold; the journal keeps them.  A baseline that fails is left out."""
    table, encoding, y, side = loaded.table, loaded.encoding, loaded.y, loaded.side
    scores: dict[str, list[Score]] = {name: [] for name in (*plan.methods, *plan.baselines)}
    pieces = [(name, k) for k in range(len(parts)) for name in scores]
    finished = sum(f"{name} {k}" in journal.pieces for name, k in pieces)
    try:
        with bar("comparing", len(pieces), finished) as progress:
            for name, k in pieces:
                piece = f"{name} {k}"
                if piece not in journal.pieces and name in scores:
                    progress.say(f"{LABELS[name]}, fold {k + 1} of {len(parts)}")
                    train, test = parts[k]
                    here = encoding.learn(table.take(train))
                    X, X_test = here.inputs(table.take(train)), here.inputs(table.take(test))
                    given = X, y[train], X_test, y[test], *(_of(side, rows) for rows in (train, test))
                    try:
                        found = (
                            scoring.score(made(name, loaded, plan), *given)
                            if name in METHODS
                            else score_baseline_model(name, encoding.likelihood, *_without(given, encoding.groups))
                        )
                    except UserError as problem:
                        if name in METHODS:
                            raise
                        del scores[name]
                        noted(f"{problem} It is left out.", loaded.notes)
                        continue
                    journal.add(piece, found)
                    progress.advance()
                    if k == 1 and name == plan.methods[0]:  # the first fit may have compiled
                        _announce(found["seconds"], plan, len(parts))
                if name in scores:
                    scores[name].append(journal.pieces[piece])
    except KeyboardInterrupt:
        raise journal.interrupted(len(pieces)) from None
    scores[NO_INPUTS] = [
        scoring.score_without_inputs(encoding.likelihood, y[train], y[test], _of(side, train), _of(side, test))
        for train, test in parts
    ]
    return scores


def _announce(seconds: float, plan: Plan, folds: int) -> None:
    """Print the expected time of the remaining fits, from the seconds of the second, if it is more than a minute."""
    fits = (folds - 1) * len(plan.methods)  # methods + 1 are done, of folds · methods and one fit to all rows
    if seconds * fits > ANNOUNCED_SECONDS:
        note(f"{fits} more fits take about {in_words(seconds * fits)}.")


def _without(given: tuple[Any, ...], columns: list[int]) -> tuple[Any, ...]:
    """Return the arguments of a baseline: without the columns that name groups."""
    X, y, X_test, *rest = given
    return np.delete(X, columns, axis=1), y, np.delete(X_test, columns, axis=1), *rest


def made(name: str, loaded: Loaded, plan: Plan) -> GPBase:
    """Return the estimator of a method."""
    own = plan.sampling if METHODS[name].samples else None
    return estimator(name, loaded.encoding.likelihood, **plan.settings, sampling=own)


def _of(side: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[rows] for name, column in side.items()}
