"""An append-only file of JSON lines that survives killed processes, full disks and several writers.

A line is written by one call, under a lock of FILE.lock, and removed again if the disk is full.
Readers ignore an unfinished line of a killed writer, and the next writer removes it.  On systems without
such locks (Windows, some network disks), lines are appended without a lock.
"""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from sitewise.errors import UserError
from sitewise.process.locks import ByteLocks

T = TypeVar("T")

APPEND_BYTE = 0  # of FILE.lock, which a writer locks
_DAMAGE = (ValueError, KeyError, TypeError, RecursionError, OverflowError)  # what parsing a damaged line may raise
_one_thread = threading.Lock()  # the locks exclude other processes, not the threads of this one


class _Position(NamedTuple):
    """How far a file has been read."""

    inode: int
    offset: int = 0
    lines: int = 0


class Log(Generic[T]):
    """The lines of `path`, each made into an entry by `parse`.  Reading does not change the disk.

    `damaged` is called with the file and the number of a whole line that `parse` refuses.  It may raise to refuse the
    file, or return to leave the line out.
    """

    def __init__(self, path: Path, parse: Callable[[Any], T], damaged: Callable[[Path, int], None]) -> None:
        self.path = Path(path)
        self.torn = b""  # the unfinished line at the end, as of the last reading
        self._parse, self._damaged = parse, damaged
        self._locks = ByteLocks(self.path.with_name(self.path.name + ".lock"))
        self._at = _Position(inode=-1)

    def read(self) -> tuple[list[T], bool]:
        """Return the entries added since the last call, and whether they replace all earlier entries.

        They replace the earlier entries at the first reading, and when the file was replaced or became shorter.
        """
        try:
            with open(self.path, "rb") as file:
                state = os.fstat(file.fileno())
                afresh = state.st_ino != self._at.inode or state.st_size < self._at.offset
                start = _Position(state.st_ino) if afresh else self._at
                file.seek(start.offset)
                new = file.read()
        except FileNotFoundError:
            afresh, start, new = self._at != _Position(0), _Position(0), b""
        except OSError as problem:
            raise UserError(f"{self.path} cannot be read ({problem.strerror}); choose another place.") from None
        whole = new[: new.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        entries = self._entries(self.path, lines, start.lines)
        self.torn = new[len(whole) :]
        self._at = _Position(start.inode, start.offset + len(whole), start.lines + len(lines))
        return entries, afresh

    def _entries(self, path: Path, lines: Iterable[bytes], before: int) -> list[T]:
        found = []
        for number, line in enumerate(lines, before + 1):
            try:
                found.append(self._parse(json.loads(line)))
            except _DAMAGE:
                self._damaged(path, number)
        return found

    def append(self, entry: Any) -> None:
        """Add one line, whole or not at all."""
        line = json.dumps(entry).encode() + b"\n"
        with _one_thread, self._locks.held(APPEND_BYTE):
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
            except OSError as problem:
                raise UserError(f"{self.path} cannot be written ({problem.strerror}); choose another place.") from None
            with open(handle, "r+b", buffering=0) as file:
                end = _end_of_whole_lines(file)
                file.truncate(end)
                file.seek(end)
                try:
                    if file.write(line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(file.fileno())
                except OSError as problem:
                    file.truncate(end)
                    raise UserError(
                        f"{self.path} could not be extended ({problem.strerror}); free some space and start again; "
                        "finished pieces are kept."
                    ) from None

    def close(self) -> None:
        """Close the lock file."""
        self._locks.close()

    def remove(self) -> None:
        """Delete the file and its lock."""
        self.path.unlink(missing_ok=True)
        self._locks.remove()


def _end_of_whole_lines(file: io.RawIOBase) -> int:
    end, step = file.seek(0, os.SEEK_END), 1 << 12
    while end > 0:
        start = max(0, end - step)
        file.seek(start)
        found = (file.read(end - start) or b"").rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
