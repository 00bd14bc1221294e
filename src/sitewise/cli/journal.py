"""L4. Finished pieces of a long job, so that an interrupted one goes on where it stopped.

One JSON line a piece.  A line counts only if it is whole and belongs to the same job: the same data, settings and
version, as told by `key`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from sitewise.cli.process import Problem, finite


def key_of(*parts: Any) -> str:
    """A short name for everything that the pieces depend on."""
    return hashlib.sha256(json.dumps(finite(list(parts)), sort_keys=True).encode()).hexdigest()[:16]


class Journal:
    """Beside the result `out`, until the result is there."""

    def __init__(self, out: Path, key: str):
        self.path, self.key = out.with_name(out.name + ".unfinished"), key
        self.pieces: dict[str, Any] = {}
        self._torn = False  # a killed writer left half a line at the end
        with contextlib.suppress(OSError):
            content = self.path.read_bytes()
            self._torn = not content.endswith(b"\n") and bool(content)
            for line in content.splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    entry = json.loads(line)
                    if entry["key"] == key:
                        self.pieces[entry["name"]] = entry["value"]

    def add(self, name: str, value: Any) -> Any:
        """Keep a piece; a line that does not fit on the disk is taken away again."""
        value = finite(value)
        line = (json.dumps({"key": self.key, "name": name, "value": value}) + "\n").encode()
        if self._torn:
            line = b"\n" + line
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0) as file:
                before = file.tell()
                try:
                    if file.write(line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(before)
                    if before == 0:
                        self.path.unlink()
                    raise
        except OSError as problem:
            raise Problem(f"cannot write {self.path}: {problem.strerror}. Choose another place with --out.") from None
        self._torn = False
        self.pieces[name] = value
        return value

    def interrupted(self, total: int) -> KeyboardInterrupt:
        if not self.pieces:
            return KeyboardInterrupt("interrupted; nothing was finished, and nothing was written.")
        return KeyboardInterrupt(
            f"interrupted; {len(self.pieces)} of {total} pieces are kept in {self.path}, and the same command goes on "
            "from there."
        )

    def done(self) -> None:
        self.path.unlink(missing_ok=True)
