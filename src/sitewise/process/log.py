"""An append-only file of JSON lines that survives kills, full disks and several writers.

A line is written by one call, under a lock, and taken away again if the disk has no room for all of it.  A line that
a killed writer left unfinished is ignored by readers and cut off by the next writer.  Work is claimed by locking one
byte of FILE.lock, at a place computed from the claim's key: the system gives the claim back when its holder dies,
however it dies.  Where there are no such locks (Windows, some network disks) claims are refused, so that only one
process works on a file, and lines are appended without a lock.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from sitewise.errors import UserError
from sitewise.process.locks import ByteLocks

T = TypeVar("T")

_APPEND = 0  # the byte that appends lock; claims lie behind it
_LONGEST = 1 << 28  # bytes of a line in an archive; a longer one is not unpacked
_DAMAGE = (ValueError, KeyError, TypeError, RecursionError, OverflowError)  # what parsing a damaged line may raise
_one_thread = threading.Lock()  # the locks exclude other processes, not the threads of this one


def archive_of(path: Path) -> Path:
    """Where the older lines of a log lie, compressed."""
    return path.with_name(path.name + ".gz")


class _Position(NamedTuple):
    """How far which file has been read."""

    inode: int
    offset: int = 0
    lines: int = 0


class Log(Generic[T]):
    """The lines of `path`, each made into an entry by `parse`.  Reading leaves no trace on the disk.

    `damaged` is called with the file and the number of a whole line that `parse` cannot take, and decides: it may raise
    to refuse the file, or return to leave the line out.  `archive` is a compressed file whose lines come before those
    of `path`; either file may be absent.  A process that claims work needs one object for all of it.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[Any], T],
        damaged: Callable[[Path, int], None],
        archive: Path | None = None,
    ) -> None:
        self.path = Path(path)
        self.torn = b""  # the unfinished line at the end, as of the last reading
        self._parse, self._damaged, self._archive = parse, damaged, archive
        self._locks = ByteLocks(self.path.with_name(self.path.name + ".lock"))
        self._at = _Position(inode=-1)

    def read(self) -> tuple[list[T], bool]:
        """The entries added since the last call, and whether they replace all earlier ones.

        They do at the first reading, and when the file has been replaced or has become shorter.
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
        entries = []
        if afresh and self._archive is not None:
            entries += self._entries(self._archive, _unpacked(self._archive), 0)
        entries += self._entries(self.path, lines, start.lines)
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
        with _one_thread, self._locks.held(_APPEND):
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
                        f"{self.path} could not be extended ({problem.strerror}); free some space and start again: "
                        "what is finished is kept."
                    ) from None

    def claim(self, key: object) -> bool:
        """Take the work named `key` for this process; False if another process has it."""
        return self._locks.take(_place(key))

    def release(self, key: object) -> None:
        """Give a claim back."""
        self._locks.release(_place(key))

    def close(self) -> None:
        """Give back all claims."""
        self._locks.close()

    def remove(self) -> None:
        """Delete the file and its lock."""
        self.path.unlink(missing_ok=True)
        self._locks.remove()


def _place(key: object) -> int:
    """A byte for the claim: 2⁵⁶ places, so that two of a million claims share one once in 10⁵ logs."""
    return 1 + int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:7], "big")


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


def _unpacked(archive: Path) -> Iterator[bytes]:
    """The whole lines of a compressed file, one at a time."""
    try:
        with gzip.open(archive, "rb") as file:
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n"):
                    if len(line) == _LONGEST:
                        raise UserError(f"{archive} has a line of more than {_LONGEST >> 20} MB; it is not a log.")
                    # No writer is killed in the middle of an archive: what is cut short has lost its end.
                    raise EOFError("its last line is cut short")
                yield line
    except FileNotFoundError:
        return
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(f"{archive} cannot be unpacked ({problem}); fetch it again.") from None
