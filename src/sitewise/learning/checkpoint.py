"""L3. What a long fit has found so far, in a small file beside it, so that a kill costs the steps of a moment.

The file holds numbers in JSON and is replaced whole; it is removed when learning ends.  A file of another model, other
data or other settings, or one that is damaged, is refused: it is never taken for a start, nor written over.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sitewise import files


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Of one search: `key` stands for all that the search depends on."""

    path: Path
    key: str

    @staticmethod
    def of(path: Path, *parts: Any) -> Checkpoint:
        digest = hashlib.sha256()
        for part in parts:
            digest.update(repr(jax.tree.structure(part)).encode())
            for leaf in jax.tree.leaves(part):
                numbers = isinstance(leaf, np.ndarray | np.generic | jax.Array)
                digest.update(np.ascontiguousarray(leaf).tobytes() if numbers else repr(leaf).encode())
        return Checkpoint(Path(path), digest.hexdigest())

    def read(self, size: int) -> tuple[np.ndarray, float] | None:
        """The best vector so far and its value; None if there is no file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            entry = json.loads(content)
            key, value = entry["key"], float(entry["value"])
            vector = np.array([float(v) for v in entry["vector"]])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{self.path} is not a checkpoint, or a damaged one; remove it to start anew.") from None
        if key != self.key:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit (other data, model or settings); remove it, or choose "
                "another place."
            )
        if len(vector) != size or not np.all(np.isfinite(vector)) or not math.isfinite(value):
            raise ValueError(f"{self.path} is not a checkpoint, or a damaged one; remove it to start anew.")
        return vector, value

    def write(self, vector: np.ndarray, value: float) -> None:
        entry = {"key": self.key, "value": value, "vector": np.asarray(vector).tolist()}
        files.write_whole(self.path, json.dumps(entry).encode())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
