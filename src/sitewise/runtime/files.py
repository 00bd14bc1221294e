"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside `path`, then move it there; an OSError names `path`, and nothing is left behind."""
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
