"""Files of compiled programs in the user's cache folder.

Each file is written under another name and renamed, so that many processes may write at once.  It begins with a digest
of its name and contents: a damaged or renamed file is not used.  Loading a program runs code from the file, therefore
files and folders that another user could have written are not read.  Nothing here raises if the folder or a file is
missing, damaged or not writable: the caller compiles.  SITEWISE_PROGRAM_CACHE=off turns the store off.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

from sitewise.process.files import user_cache

OFF = "SITEWISE_PROGRAM_CACHE"
STORED_PLATFORM = "cpu"  # programs of this platform are stored
_MAX_BYTES = 256 * 2**20  # of all files
_MAX_FILES = 4096
_SHARE_AFTER_REMOVAL = 0.75  # of these limits, once the least recently used files have been removed
_TEMPORARY_PREFIX = ".new-"  # of the name of a file while it is written
_ABANDONED_AFTER = 3600.0  # seconds; an older temporary file was left by a killed process
_DIGEST_BYTES = hashlib.sha256().digest_size
# A link is not followed, and a pipe in the place of a file is not waited for; Windows has neither.
_OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def enabled() -> bool:
    return os.environ.get(OFF, "").strip().lower() not in ("off", "0", "no", "false")


def folder() -> Path | None:
    """Return the folder of the files; None if nothing may be stored."""
    if not enabled():
        return None
    path = user_cache("programs")
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = path.stat()
        if os.name == "posix" and found.st_mode & 0o022:
            path.chmod(0o700)  # made by other means; only its owner can do this
            found = path.stat()
    except OSError:
        return None
    return path if _trusted(found) else None


def _trusted(found: os.stat_result) -> bool:
    """Return whether only this user or the administrator can have written a file or folder."""
    return os.name != "posix" or (found.st_uid in (os.getuid(), 0) and not found.st_mode & 0o022)


def read(name: str) -> bytes | None:
    """Return the contents stored under this name, or None."""
    place = folder()
    if place is None:
        return None
    path = place / name
    text = _content(path)
    if text is None:
        return None
    body = text[_DIGEST_BYTES:]
    whole = _digest(name, body) == text[:_DIGEST_BYTES]
    with contextlib.suppress(OSError):  # a folder that cannot be written can still be read
        if whole:
            os.utime(path)  # for `_shrink`
        else:
            path.unlink()
    return body if whole else None


def write(name: str, body: bytes) -> None:
    """Store, if possible."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=place, prefix=_TEMPORARY_PREFIX)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(name, body) + body)
            os.replace(temporary, place / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _shrink(place)


def _digest(name: str, body: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def _content(path: Path) -> bytes | None:
    try:
        handle = os.open(path, _OPEN_FLAGS)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not _trusted(found) or found.st_size > _MAX_BYTES:
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(handle)


def _shrink(place: Path) -> None:
    """Remove the least recently used files if all files exceed a limit, and files that killed processes have left."""
    now = time.time()
    files = []
    for entry in os.scandir(place):
        with contextlib.suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            # A time in the future comes from a wrong clock and is no reason to keep a file for ever.
            age = abs(now - found.st_mtime)
            if entry.name.startswith(_TEMPORARY_PREFIX) and age > _ABANDONED_AFTER:
                os.unlink(entry.path)
            elif stat.S_ISREG(found.st_mode):
                files.append((age, found.st_size, entry.path))
    total, count = sum(size for _, size, _ in files), len(files)
    if total <= _MAX_BYTES and count <= _MAX_FILES:
        return
    for _, size, path in sorted(files, reverse=True):
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):  # another process removes too
                os.unlink(path)
            total, count = total - size, count - 1
        if total <= _SHARE_AFTER_REMOVAL * _MAX_BYTES and count <= _SHARE_AFTER_REMOVAL * _MAX_FILES:
            return
