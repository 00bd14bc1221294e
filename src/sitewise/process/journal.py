"""Store the finished pieces of a long job, so that an interrupted job can continue.

A `Journal` is a `Log` of named values.  Each line carries the key of its job (everything that the pieces depend on) and
a checksum.  A line counts only if it is whole, undamaged and of the same key.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sitewise.errors import UserError
from sitewise.process.json_values import decode, encode, finite
from sitewise.process.log import Log


def key_of(*parts: Any) -> str:
    """Return a short digest of settings and other plain values that the pieces depend on."""
    return hashlib.sha256(json.dumps(finite(list(parts)), sort_keys=True).encode()).hexdigest()[:16]


def digest_of(*parts: Any) -> str:
    """Return a digest of models, data and other pytrees that the pieces depend on: structure and numbers."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(jax.tree.structure(part)).encode())
        for leaf in jax.tree.leaves(part):
            if isinstance(leaf, np.ndarray | np.generic | jax.Array):
                numbers = np.asarray(leaf)
                digest.update(repr((numbers.dtype.str, numbers.shape)).encode() + numbers.tobytes())
            else:
                digest.update(repr(leaf).encode() + b"\0")
    return digest.hexdigest()


class Journal:
    """Named pieces of the job `key`, in the file `path` until the job is done.

    pieces    the pieces of earlier runs, and the pieces added by `add`
    damaged   the number of lines that could not be read; their pieces are missing

    Several jobs may share a file, and each sees its own pieces.  A `strict` journal is not shared: a file with a
    damaged line, or a line of another job, is refused and not changed.  Values are JSON and NumPy arrays.
    """

    def __init__(self, path: Path, key: str, strict: bool = False) -> None:
        self.path, self.key, self.damaged = Path(path), key, 0
        self._log = Log(self.path, self._piece, self._leave_out)
        found, _ = self._log.read()
        if strict:
            self._check(found)
        self.pieces: dict[str, Any] = dict(piece for piece in found if piece is not None)

    @classmethod
    def beside(cls, out: Path, key: str) -> Journal:
        """Return the journal of a command, next to its result file."""
        return cls(out.with_name(out.name + ".unfinished"), key)

    def add(self, name: str, value: Any) -> Any:
        """Store a piece; return it as a later run will read it."""
        encoded = encode(value)
        try:
            self._log.append(
                {"key": self.key, "name": name, "value": encoded, "crc32": _checksum(self.key, name, encoded)}
            )
        except UserError:
            if self.path.exists() and self.path.stat().st_size == 0:
                self._log.remove()  # an empty journal is useless
            raise
        finally:
            self._log.close()
        self.pieces[name] = decode(encoded)
        return self.pieces[name]

    def interrupted(self, total: int) -> KeyboardInterrupt:
        """Return the exception to raise when the user stops the job; its message names the kept pieces."""
        if not self.pieces:
            return KeyboardInterrupt("interrupted; nothing was finished, and nothing was written.")
        return KeyboardInterrupt(
            f"interrupted; {len(self.pieces)} of {total} pieces are kept in {self.path}, and the same command "
            "continues from there."
        )

    def done(self) -> None:
        """Remove the journal after the result was written, also for other jobs that share the file."""
        self._log.remove()

    @staticmethod
    def remove(path: Path) -> None:
        """Remove the journal file with the pieces of all its jobs."""
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".lock").unlink(missing_ok=True)

    def _piece(self, entry: Any) -> tuple[str, Any] | None:
        """Return the name and value of a line; None if the line belongs to another job."""
        if entry["key"] != self.key:
            return None
        name, value = str(entry["name"]), entry["value"]
        if entry["crc32"] != _checksum(self.key, name, value):
            raise ValueError("the checksum does not match")
        return name, decode(value)

    def _leave_out(self, path: Path, number: int) -> None:
        self.damaged += 1

    def _check(self, found: list[tuple[str, Any] | None]) -> None:
        # An unfinished line may be from a killed writer; any other text at the end is not of a journal.
        start = json.dumps({"key": self.key}).removesuffix("}").encode()
        foreign_end = not (start.startswith(self._log.torn) or self._log.torn.startswith(start))
        if self.damaged or foreign_end:
            raise UserError(f"{self.path} is not a checkpoint, or a damaged one; remove it to start again.")
        if any(piece is None for piece in found):
            raise UserError(
                f"{self.path} is the checkpoint of another fit (other data, model or settings); remove it, or choose "
                "another place."
            )


def _checksum(key: str, name: str, value: Any) -> int:
    return zlib.crc32(json.dumps([key, name, value]).encode())
