"""Damage a thousand files at random, and test that each is refused with a message or read without the damaged part.

python studies/corruptions.py [--files 1000]

Model files, logs of results, checkpoints and journals are truncated, changed, swapped and extended at random.  A model
file has a checksum, which detects any damage; files whose checksum was computed again after the damage test the checks
behind it.  Each line of a checkpoint or journal has a checksum too: a checkpoint is refused unless only its end is
missing, and both return only undamaged pieces.  A log of results is plain text: a changed digit cannot be detected.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sitewise import GPClassifier, Hyperparameters, load
from sitewise.errors import UserError
from sitewise.estimators import ModelFileError
from sitewise.estimators.model_file import to_bytes
from sitewise.process.journal import Journal
from sitewise.process.log import Log

PIECES = {f"piece {k}": {"score": 0.1 * k, "log_z": np.arange(5.0) + k} for k in range(5)}


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, grown, thinned, bent, or with two pieces exchanged."""
    kind, at = rng.integers(5), int(rng.integers(len(content)))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + rng.bytes(int(rng.integers(1, 40))) + content[at:]
    if kind == 2:
        return content[:at] + content[at + int(rng.integers(1, 40)) :]
    if kind == 3:
        other = int(rng.integers(len(content)))
        low, high = sorted((at, other))
        return content[:low] + content[high:] + content[low:high]
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        out[int(rng.integers(len(out)))] ^= int(rng.integers(1, 256))
    return bytes(out)


def _model_file() -> bytes:
    X = np.linspace(-1, 1, 12)[:, None]
    return to_bytes(GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(X, np.arange(12) % 2))


def _log_file() -> bytes:
    row = {"set": "a", "protocol": "clean", "seed": 1, "fold": 0, "method": "vi", "test_loglik": -0.5}
    return b"".join(json.dumps({**row, "fold": k}).encode() + b"\n" for k in range(5))


def _read_log(path: Path) -> None:
    def refuse(where: Path, number: int) -> None:
        raise UserError(f"Line {number} of {where} is not a row of results; repair it by hand.")

    Log(path, lambda row: (row["set"], row["fold"], row["test_loglik"]), refuse).read()


@dataclasses.dataclass(frozen=True)
class Kind:
    """An undamaged file, how it is read, which refusals are clear, and its share of all files."""

    content: bytes
    read: Callable[[Path], Any]
    clear: tuple[type[Exception], ...]
    share: float


def kinds(folder: Path) -> dict[str, Kind]:
    model = _model_file()
    journal = Journal(folder / "journal", "key")
    for name, value in PIECES.items():
        journal.add(name, value)
    lines = journal.path.read_bytes()
    return {
        "model": Kind(model, load, (ModelFileError,), 0.4),
        "model, signed anew": Kind(model, _read_signed, (ModelFileError,), 0.1),
        "log of results": Kind(_log_file(), _read_log, (UserError,), 0.2),
        "checkpoint": Kind(lines, lambda path: _check(Journal(path, "key", strict=True)), (UserError,), 0.15),
        "journal": Kind(lines, lambda path: _check(Journal(path, "key")), (), 0.15),
    }


def _read_signed(path: Path) -> None:
    content = path.read_bytes()[:-32]
    path.write_bytes(content + hashlib.sha256(content).digest())
    load(path)


def _check(journal: Journal) -> None:
    """Whatever is left of a damaged journal is what was put into it."""
    for name, value in journal.pieces.items():
        assert value["score"] == PIECES[name]["score"] and np.array_equal(value["log_z"], PIECES[name]["log_z"]), name


def torture(files: int, seed: int = 0) -> dict[str, Counter[str]]:
    """By kind: how many were refused in words, and how many were read."""
    rng = np.random.default_rng(seed)
    out: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, k in kinds(folder).items():
            out[kind] = Counter()
            path = folder / "file"
            for _ in range(max(1, round(k.share * files))):
                path.write_bytes(damaged(k.content, rng))
                try:
                    k.read(path)
                    out[kind]["read"] += 1
                except k.clear as problem:
                    assert len(str(problem)) > 20, f"{kind}: a refusal says what to do, not {problem!r}"
                    out[kind]["refused"] += 1
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    options = parser.parse_args()
    print("| file | damaged | refused in words | read |\n|---|---|---|---|")
    for kind, found in torture(options.files).items():
        print(f"| {kind} | {sum(found.values())} | {found['refused']} | {found['read']} |")


if __name__ == "__main__":
    main()
