"""L4. Results as a JSONL file that survives kills and several writers.

A row is one line, written by one call under a lock.  A line that a killed writer left unfinished is ignored by
readers and cut off by the next writer.  A task is claimed by locking one byte of FILE.lock, at a place computed from
its key: the system gives the claim back when its holder dies, however it dies.  (POSIX locks: Linux and macOS.)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sitewise.bench.problems import StoreError
from sitewise.bench.tasks import key_of

_APPEND = 0  # the byte that appends lock; claims lie behind it


class Store:
    """One per process and file: POSIX locks belong to the process, not to the object."""

    def __init__(self, path: Path):
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise StoreError(f"{self.path} cannot be opened ({problem.strerror}); choose another place.") from None
        self._rows: dict[tuple, dict[str, Any]] = {}
        self._read_to = 0
        self._lines = 0

    def close(self) -> None:
        """Give back all claims."""
        os.close(self._lock)

    def rows(self) -> dict[tuple, dict[str, Any]]:
        """Every finished row by task key; the last wins.  Reads only what was appended since the last call."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self._read_to:
                    self._rows, self._read_to, self._lines = {}, 0, 0
                file.seek(self._read_to)
                new = file.read()
        except FileNotFoundError:
            return self._rows
        whole = new[: new.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._lines += 1
            key, row = _parsed(line, self._lines, self.path)
            self._rows[key] = row
        self._read_to += len(whole)
        return self._rows

    def done(self) -> set[tuple]:
        """Keys of the tasks that need not run again; failed ones may."""
        return {key for key, row in self.rows().items() if "error" not in row}

    def append(self, row: dict[str, Any]) -> None:
        """Add one line, whole or not at all."""
        line = json.dumps(row, allow_nan=True).encode() + b"\n"
        with self._locked():
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as problem:
                raise StoreError(f"{self.path} cannot be written ({problem.strerror}); choose another place.") from None
            try:
                end = _whole_end(handle)
                os.ftruncate(handle, end)
                try:
                    if os.pwrite(handle, line, end) != len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(handle)
                except OSError as problem:
                    os.ftruncate(handle, end)
                    raise StoreError(
                        f"{self.path} could not be extended ({problem.strerror}); free some space and start again: "
                        "finished tasks are kept."
                    ) from None
            finally:
                os.close(handle)

    def claim(self, key: tuple) -> bool:
        """Take the task for this process; False if another process has it."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
        except OSError as problem:
            if problem.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise StoreError(f"{self.path}.lock cannot be locked ({problem.strerror}); use a local disk.") from None
        return True

    def release(self, key: tuple) -> None:
        fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, _place(key))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX, 1, _APPEND)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, _APPEND)


def _place(key: tuple) -> int:
    """A byte for the task: 2⁵⁶ places, so that two of a million tasks share one once in 10⁵ stores."""
    return 1 + int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:7], "big")


def _whole_end(handle: int) -> int:
    """Where the last whole line ends."""
    size = os.fstat(handle).st_size
    end, step = size, 1 << 12
    while end > 0:
        start = max(0, end - step)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read(path: Path) -> list[dict[str, Any]]:
    """The finished rows of a store, without opening it for writing."""
    if not Path(path).is_file():
        raise StoreError(f"{path} does not exist; run the suite first.")
    text = Path(path).read_bytes()
    lines = text[: text.rfind(b"\n") + 1].splitlines()
    rows = dict(_parsed(line, number, path) for number, line in enumerate(lines, 1))
    return [row for row in rows.values() if "error" not in row]


def _parsed(line: bytes, number: int, path: Path) -> tuple[tuple, dict[str, Any]]:
    """A row by its key, or one sentence that names the line."""
    try:
        row = json.loads(line)
        key = key_of(row)
        hash(key)
        return key, row
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f"Line {number} of {path} is no row of results; repair it by hand.") from None
