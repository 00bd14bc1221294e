"""Write files whole or not at all; the user's cache folder of the library."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a temporary file beside `path` and rename it; an OSError names `path`, and no partial file remains."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as problem:
        raise type(problem)(problem.errno, problem.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def user_cache(part: str) -> Path:
    """Return the folder `part` in SITEWISE_CACHE or, if that is not set, in `sitewise` in the user's cache folder."""
    return Path(os.environ.get("SITEWISE_CACHE") or _user_folder()) / part


def _user_folder() -> str:
    given = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):  # the standard requires to ignore relative paths
        return os.path.join(given, "sitewise")
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        return os.path.join(home, ".cache", "sitewise")
    # A user without a home, as in some containers: "~" must not become a folder of that name.
    return os.path.join(tempfile.gettempdir(), f"sitewise-{os.getuid() if hasattr(os, 'getuid') else ''}")
