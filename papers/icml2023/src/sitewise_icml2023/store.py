"""Results in a file of JSON lines, one flat row per task; the file survives kills and several writers (see `Log`).

Rows of earlier runs may lie in FILE.gz instead of FILE: they are read first, and new rows go to FILE.

A task is claimed by locking one byte of FILE.lock, at a place computed from the task's key: the system gives the claim
back when its holder dies, however it ends.  Without such locks (Windows, some network disks) claims are refused, so
that only one process works on a file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sitewise.errors import UserError
from sitewise.process.log import APPEND_BYTE
from sitewise_icml2023.archived_log import ArchivedLog, archive_of
from sitewise_icml2023.tasks import key_of


class Store(ArchivedLog[tuple[tuple, dict[str, Any]]]):
    """Rows by the key of their task.  A process needs one object per file: it holds the claims of the process."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _keyed, _refuse)
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

    def claim(self, key: object) -> bool:
        """Take the task named `key` for this process; False if another process has it."""
        return self._locks.take(_place(key))

    def release(self, key: object) -> None:
        """Give a claim back; `close` gives back all claims."""
        self._locks.release(_place(key))


def _place(key: object) -> int:
    """Return the byte of a claim: 2⁵⁶ places, so that two of a million claims share one once in 10⁵ stores."""
    return 1 + APPEND_BYTE + int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:7], "big")


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
