"""Results in a file of JSON lines, one flat row for each task; it survives kills and several writers (see `Log`).

Rows of earlier runs may lie in FILE.gz instead of FILE: they are read first, and new rows go to FILE.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sitewise.errors import UserError
from sitewise.process.log import Log, archive_of
from sitewise_icml2023.tasks import key_of


class Store(Log[tuple[tuple, dict[str, Any]]]):
    """Rows by the key of their task.  One object per process and file: it holds the process's claims."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _keyed, _refuse, archive_of(Path(path)))
        self._rows: dict[tuple, dict[str, Any]] = {}

    def rows(self) -> dict[tuple, dict[str, Any]]:
        """Every row by task key; the last row of a task counts.  Reads only what was appended since the last call."""
        new, afresh = self.read()
        if afresh:
            self._rows = {}
        self._rows.update(new)
        return self._rows

    def done(self) -> set[tuple]:
        """Keys of the tasks that need not run again; failed ones may."""
        return {key for key, row in self.rows().items() if "error" not in row}


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a store that hold results, without those of failed tasks."""
    if not Path(path).is_file() and not archive_of(Path(path)).is_file():
        raise UserError(f"{path} does not exist; run the suite first.")
    return [row for row in Store(path).rows().values() if "error" not in row]


def _keyed(row: Any) -> tuple[tuple, dict[str, Any]]:
    key = key_of(row)
    hash(key)
    return key, row


def _refuse(path: Path, number: int) -> None:
    raise UserError(f"Line {number} of {path} is not a row of results; repair it by hand.")
