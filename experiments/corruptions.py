"""A thousand damaged files: every one is refused in words, or read as what it says.

python experiments/corruptions.py [--files 1000]

Model files, result stores, checkpoints, journals and blocks of a surface are cut, bent, swapped and grown at random.
A model file has a checksum, and no damage gets past it; where somebody signs the damage anew, the checks behind the
checksum are reached.  The others are plain text or arrays: a changed digit is another number, which no reader can know.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from sitewise import GPClassifier
from sitewise.bench import store
from sitewise.bench.problems import StoreError
from sitewise.cli.journal import Journal
from sitewise.estimators.persistence import ModelFileError, load, to_bytes
from sitewise.learning.checkpoint import Checkpoint
from sitewise.mcmc import surface


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
    return to_bytes(GPClassifier(fixed="*").fit(X, np.arange(12) % 2))


def _store_file() -> bytes:
    row = {"set": "a", "protocol": "clean", "seed": 1, "fold": 0, "method": "vi", "test_loglik": -0.5}
    return b"".join(json.dumps({**row, "fold": k}).encode() + b"\n" for k in range(5))


def _read_store(path: Path) -> None:
    try:
        store.read(path)
    finally:
        box = store.Store(path)
        with contextlib.suppress(StoreError):
            box.rows()
        box.close()


class Kind:
    """How a file is made and read, and which refusals are clear; `share` is of the files."""

    def __init__(self, make, read, clear, share):
        self.make, self.read, self.clear, self.share = make, read, clear, share


def kinds(folder: Path) -> dict[str, Kind]:
    surface._write(folder / "block.npz", {"log_z": np.arange(5.0), "se": np.ones(5)})
    Checkpoint(folder / "made", "0" * 64).write(np.arange(3.0), -1.5)
    journal = Journal(folder / "out", "key")
    for k in range(5):
        journal.add(f"piece {k}", [1.0, 2.0])
    signed = _model_file()

    def sign(content: bytes) -> bytes:
        return content[:-32] + hashlib.sha256(content[:-32]).digest()

    def forged(path: Path) -> None:
        path.write_bytes(sign(path.read_bytes()))
        load(path)

    return {
        "model": Kind(signed, load, (ModelFileError,), 0.4),
        "model, signed anew": Kind(signed, forged, (ModelFileError,), 0.1),
        "result store": Kind(_store_file(), _read_store, (StoreError,), 0.2),
        "checkpoint": Kind(
            (folder / "made").read_bytes(), lambda path: Checkpoint(path, "0" * 64).read(3), (ValueError,), 0.1
        ),
        "journal": Kind(journal.path.read_bytes(), lambda path: Journal(path.with_suffix(""), "key"), (), 0.1),
        "surface block": Kind((folder / "block.npz").read_bytes(), _read_surface(folder), (UserWarning,), 0.1),
    }


def _read_surface(folder: Path):
    """Through the runner that keeps the blocks: a damaged one is warned of and made anew."""

    class Fake(surface._Runner):
        def __init__(self):
            self.store, self.batch, self.vectors, self.digest = folder / "blocks", 1, np.zeros((1, 1)), hashlib.sha256()
            self.store.mkdir(exist_ok=True)

    index = np.zeros(1, int)

    def read(path: Path) -> None:
        runner = Fake()
        calls = []

        def compute(filled, batch):
            calls.append(filled)
            return {"log_z": np.zeros(1)}

        for old in runner.store.glob("*.npz"):
            old.unlink()
        runner._stored("T", index, 1, compute)
        (place,) = runner.store.glob("*.npz")
        place.write_bytes(path.read_bytes())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runner._stored("T", index, 1, compute)

    return read


def torture(files: int, seed: int = 0) -> dict[str, Counter]:
    """By kind: how many were refused in words, and how many were read."""
    rng = np.random.default_rng(seed)
    out: dict[str, Counter] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, k in kinds(folder).items():
            out[kind] = Counter()
            path = folder / ("file.unfinished" if kind == "journal" else "file")
            for _ in range(max(1, round(k.share * files))):
                path.write_bytes(damaged(k.make, rng))
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
