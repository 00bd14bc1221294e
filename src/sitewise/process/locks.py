"""Locks between processes: single bytes of one file, released by the system when their holder dies.

These are POSIX locks, which belong to the process.  A process needs one object per file: closing any handle of the file
releases every lock of the process on it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from sitewise.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # some network disks
_TAKEN = (errno.EACCES, errno.EAGAIN)


class ByteLocks:
    """Locks on single bytes of one file, which is created at the first lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    @contextlib.contextmanager
    def held(self, place: int) -> Iterator[None]:
        """Wait for the lock and hold it for a `with` block; no lock if the system has none."""
        while not self._wait(place):
            self.close()
        try:
            yield
        finally:
            self.release(place)

    def take(self, place: int) -> bool:
        """Take the lock without waiting; False if another process has it."""
        if fcntl is None:
            raise UserError(f"{self.path} cannot be locked on this system; run a single process.")
        handle = self._open()
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError as problem:
            if problem.errno in _TAKEN:
                return False
            raise UserError(f"{self.path} cannot be locked ({problem.strerror}); use a local disk.") from None
        return True

    def release(self, place: int) -> None:
        if self._handle is not None and fcntl is not None:
            with contextlib.suppress(OSError):  # only on systems without locks
                fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        """Release all locks."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def remove(self) -> None:
        """Release all locks and delete the file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _open(self) -> int:
        if self._handle is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as problem:
                raise UserError(f"{self.path} cannot be opened ({problem.strerror}); choose another place.") from None
        return self._handle

    def _wait(self, place: int) -> bool:
        """Wait for the lock; False if the file was deleted meanwhile, because other processes then lock a new file."""
        handle = self._open()
        if fcntl is None:
            return True
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX, 1, place)
        except OSError as problem:
            if problem.errno in _NO_LOCKS:
                return True
            raise UserError(f"{self.path} cannot be locked ({problem.strerror}); use a local disk.") from None
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            return False
