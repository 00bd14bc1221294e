"""Full and read-only disks, kills, clocks that jump: nothing finished is lost.  The mechanism alone: tests/process.

`python studies/kills.py` kills a hundred times, and `python studies/corruptions.py` damages a thousand files.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corruptions
import sitewise
from sitewise import VI, Data, GPClassifier, Hyperparameters, Model, Nested, evidence, kernels, likelihoods
from sitewise.errors import UserError
from sitewise.process.journal import Journal
from sitewise.process.log import Log

ROOT = Path(__file__).resolve().parents[2]
X = np.linspace(-1, 1, 12)[:, None]
Y = np.where(np.arange(12) % 3, 1.0, -1.0)
MODEL = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())


def open_log(path: Path) -> Log[dict[str, Any]]:
    def refuse(where: Path, number: int) -> None:
        raise AssertionError(f"line {number} of {where} is damaged")

    return Log(path, dict, refuse)


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A file system of its own on `folder`, where this process may mount one."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False) if _may_mount() else None
    if done is None or done.returncode:
        pytest.skip("mounting a file system is not permitted here (it takes root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # lazily: after a failure a file may still be open


def _may_mount() -> bool:
    return os.geteuid() == 0 and any((Path(p) / "mount").exists() for p in os.environ.get("PATH", "").split(":"))


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    model = GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(X, Y)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=32k", "tmpfs") as disk:
        model.save(disk / "model")
        before = model.predict_proba(X)
        log, journal = open_log(disk / "log"), Journal.beside(disk / "out", "key")
        journal.add("first", 1.0)
        with pytest.raises(UserError, match=r"No space left on device.*finished pieces are kept"):
            for n in range(100):
                log.append({"n": n, "words": "x" * 2000})
        log.close()
        with pytest.raises(UserError, match="No space left on device"):
            journal.add("second", "x" * 20000)
        with pytest.raises(OSError, match="No space left on device"):
            model.save(disk / "model")
        kept, _ = open_log(log.path).read()
        assert len(kept) >= 3 and kept == [{"n": n, "words": "x" * 2000} for n in range(len(kept))]
        assert Journal.beside(disk / "out", "key").pieces == {"first": 1.0}
        assert np.array_equal(sitewise.load(disk / "model").predict_proba(X), before)
        assert not list(disk.glob("*.partial")) and not list(disk.glob(".*.partial"))


def test_a_read_only_disk_is_reported(tmp_path: Path) -> None:
    with mounted(tmp_path / "locked", "-t", "tmpfs", "-o", "ro", "tmpfs") as disk:
        with pytest.raises(UserError, match=r"Read-only file system\); choose another place"):
            open_log(disk / "log").append({"n": 1})
        with pytest.raises(UserError, match=r"Read-only file system\); choose another place"):
            Journal.beside(disk / "out", "key").add("first", 1.0)
        with pytest.raises(UserError, match=r"c\.json.*Read-only file system\); choose another place"):
            Nested(VI(), evidence.elbo).fit(MODEL, Data.of(X, Y), checkpoint=disk / "c.json")


def test_no_decision_depends_on_the_clock(tmp_path: Path) -> None:
    """Files from the future and from long ago are read all the same; and nothing in the source asks for the date."""
    sources = (ROOT / "src", ROOT / "papers" / "icml2023" / "src")
    clock = r"time\.time\(|\.now\(|\.today\(|st_mtime|getmtime"
    # Only which stored programs are removed first, where there are too many, follows from when they were used; and a
    # report says when it was made.
    but = [ROOT / "src" / "sitewise" / part for part in ("arrays/program_store.py", "app/report/page.py")]
    asks = [p for s in sources for p in s.rglob("*.py") if p not in but and re.search(clock, p.read_text())]
    assert asks == []
    log, journal = open_log(tmp_path / "log"), Journal.beside(tmp_path / "out", "key")
    for when in (0, 4e9, 1e9):
        log.append({"when": when})
        journal.add(str(when), 1.0)
        for path in (log.path, journal.path):
            os.utime(path, (when, when))
    assert len(open_log(log.path).read()[0]) == 3 and len(Journal.beside(tmp_path / "out", "key").pieces) == 3


class Killed(BaseException):
    pass


def test_a_fit_continues_from_its_checkpoint(tmp_path: Path) -> None:
    place, data, learner = tmp_path / "fit.json", Data.of(X, Y), Nested(VI(), evidence.elbo)
    seen = []

    def stop(entry: dict[str, Any]) -> None:
        seen.append(entry["objective"])
        if len(seen) == 4:
            raise Killed

    whole = learner.fit(MODEL, data)
    with pytest.raises(Killed):
        learner.fit(MODEL, data, callback=stop, checkpoint=place)
    assert place.read_bytes().count(b"\n") == 4  # one line per evaluation; without coarse stages, the start is not kept
    new: list[float] = []
    again = learner.fit(MODEL, data, callback=lambda entry: new.append(entry["objective"]), checkpoint=place)
    assert list(tmp_path.iterdir()) == []
    # What was known is not computed again, and the path is the same to the last digit.
    assert 0 < len(new) < len(whole.trace)
    assert [entry["objective"] for entry in again.trace] == [entry["objective"] for entry in whole.trace]
    assert again.objective == whole.objective and np.array_equal(again.sites, whole.sites)


def test_a_fit_with_restarts_continues_in_the_ascent_where_it_was(tmp_path: Path) -> None:
    place, data, learner = tmp_path / "fit.json", Data.of(X, Y), Nested(VI(), evidence.elbo, restarts=1)
    whole = learner.fit(MODEL, data)
    seen = []

    def stop(entry: dict[str, Any]) -> None:
        seen.append(entry["objective"])
        if len(seen) == len(whole.trace) - 1:
            raise Killed

    with pytest.raises(Killed):
        learner.fit(MODEL, data, callback=stop, checkpoint=place)
    again = learner.fit(MODEL, data, checkpoint=place)
    assert again.objective == whole.objective and np.array_equal(again.sites, whole.sites)
    assert len(again.trace) == len(whole.trace)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"key": "other", "name": "best", "value": [0.0, 0.0], "crc32": 0}\n', "checkpoint of another fit"),
        ("my notes", "not a checkpoint, or a damaged one"),
        ("my notes\n", "not a checkpoint, or a damaged one"),
        ('{"key": "0.1.0", "value": 1.0, "vector": [0.0, 0.0]}', "not a checkpoint, or a damaged one"),
    ],
)
def test_a_file_that_is_not_the_checkpoint_of_this_fit_is_neither_used_nor_overwritten(
    tmp_path: Path, content: Any, words: str
) -> None:
    place = tmp_path / "fit.json"
    place.write_text(content)
    with pytest.raises(UserError, match=words):
        Nested(VI(), evidence.elbo).fit(MODEL, Data.of(X, Y), checkpoint=place)
    assert place.read_text() == content


def test_damaged_files_are_refused_in_words() -> None:
    found = corruptions.torture(60, seed=1)
    assert found["model"] == {"refused": 24}
    assert found["checkpoint"]["refused"] >= 5 and found["journal"] == {"read": 9}
    assert sum(sum(counts.values()) for counts in found.values()) == 60
