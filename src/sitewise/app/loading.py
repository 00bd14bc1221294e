"""The first step of fit, compare and surface: a file becomes numbers, with notes, or the command stops."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sitewise import estimators
from sitewise.app.columns import Encoding, describe
from sitewise.app.process import note
from sitewise.app.table import Table, read_table
from sitewise.errors import UserError

# Above this the user has to choose: the time of an exact fit grows with the cube of the rows.
EXACT_ROWS = 2000


class Loaded(NamedTuple):
    """A table and its encoding, learned from all rows; cross-validation learns it again on the rows of each fold."""

    table: Table
    encoding: Encoding
    notes: list[str]

    @property
    def X(self) -> np.ndarray:
        return self.encoding.inputs(self.table)

    @property
    def y(self) -> np.ndarray:
        return self.encoding.targets(self.table)

    def facts(self) -> dict[str, Any]:
        """The description of the data for reports."""
        y = self.y
        return {
            "file": self.table.name,
            "rows": self.table.rows,
            "target": self.encoding.target,
            "likelihood": self.encoding.likelihood,
            "classes": [str(c) for c in np.unique(y)] if self.encoding.classifies else None,
            "features": self.encoding.features,
            "notes": self.notes,
        }

    def digest(self) -> str:
        """A text that changes when any number that enters a fit changes."""
        content = hashlib.sha256(np.ascontiguousarray(self.X).tobytes())
        content.update("\n".join(map(str, self.y)).encode())
        return content.hexdigest()


def load(
    path: Path,
    target: str,
    *,
    likelihood: str = "auto",
    drop: Sequence[str] | None = None,
    impute: bool = False,
    missing: Sequence[str] | None = None,
    decimal: str | None = None,
    max_rows: int | None = None,
    seed: int = 0,
    inducing: int | bool | None = False,
) -> Loaded:
    """Read the file, choose rows, and describe the columns; notes are printed.

    `inducing` is the requested number of inducing inputs, or False where the command takes none.
    """
    table = read_table(path, decimal=decimal, missing=missing or ())
    table.column(target)
    if target in (drop or ()):
        raise UserError(f"column {target!r} is the target and cannot be dropped.")
    table, rows = table.drop(drop or ()), table.rows
    notes = []
    if max_rows is None and not inducing and rows > EXACT_ROWS:
        sparse = "" if inducing is False else "--inducing 200 to summarise all rows by 200 points, "
        raise UserError(
            f"{table.name} has {rows} rows, and the time of an exact fit grows with their cube: say {sparse}--max-rows "
            f"{EXACT_ROWS} to use {EXACT_ROWS} of them chosen at random, or --max-rows {rows} to use all and wait."
        )
    if max_rows is not None and max_rows < rows:
        chosen = np.sort(np.random.default_rng(seed).permutation(rows)[:max_rows])
        table = table.take(chosen)
        notes.append(f"{max_rows} of {rows} rows were chosen at random (--seed {seed}).")
    encoding, found = describe(table, target, likelihood, impute)
    loaded = Loaded(table, encoding, notes + found)
    _ = loaded.y  # a target that cannot be used is reported before any work
    for sentence in loaded.notes:
        note(sentence)
    return loaded


def load_model(path: Path) -> Any:
    """A model that `sitewise fit` has written."""
    if not path.exists():
        raise UserError(f"there is no file {path}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the file that `sitewise fit` wrote.")
    found = estimators.load(path)
    if not hasattr(found, "table_"):
        raise UserError(
            f"{path} was saved from Python and does not say how a table becomes its inputs; use sitewise.load there, "
            "or fit it with `sitewise fit`."
        )
    return found
