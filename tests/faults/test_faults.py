"""Full and read-only disks, kills, clocks that jump, two processes on one cache: nothing finished is lost.

`python experiments/kills.py` kills a hundred times, and `python experiments/corruptions.py` damages a thousand files.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import corruptions
import numpy as np
import pytest

import sitewise
from sitewise import VI, Data, GPClassifier, Model, Nested, evidence, kernels, likelihoods
from sitewise.bench.problems import Problem, StoreError
from sitewise.bench.store import Store
from sitewise.cli.journal import Journal
from sitewise.learning.checkpoint import Checkpoint

ROW = {"set": "a", "protocol": "clean", "seed": 1, "fold": 0, "method": "vi", "words": "x" * 2000}
X = np.linspace(-1, 1, 12)[:, None]
Y = np.where(np.arange(12) % 3, 1.0, -1.0)
MODEL = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())


@contextlib.contextmanager
def mounted(folder: Path, *options: str):
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


def test_a_full_disk_keeps_what_is_finished(tmp_path):
    model = GPClassifier(fixed="*").fit(X, Y)
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=32k", "tmpfs") as disk:
        model.save(disk / "model")
        before = model.predict_proba(X)
        box, journal = Store(disk / "r.jsonl"), Journal(disk / "out", "key")
        journal.add("first", 1.0)
        with pytest.raises(StoreError, match=r"No space left on device.*finished tasks are kept"):
            for fold in range(100):
                box.append({**ROW, "fold": fold})
        box.close()
        with pytest.raises(Problem, match="No space left on device"):
            journal.add("second", "x" * 20000)
        with pytest.raises(OSError, match="No space left on device"):
            model.save(disk / "model")
        again = Store(disk / "r.jsonl")
        kept = again.rows()
        again.close()
        assert len(kept) >= 3 and all(row["words"] == ROW["words"] for row in kept.values())
        assert Journal(disk / "out", "key").pieces == {"first": 1.0}
        assert np.array_equal(sitewise.load(disk / "model").predict_proba(X), before)
        assert not list(disk.glob("*.partial")) and not list(disk.glob(".*.partial"))


def test_a_read_only_disk_is_told_of(tmp_path):
    with mounted(tmp_path / "locked", "-t", "tmpfs", "-o", "ro", "tmpfs") as disk:
        with pytest.raises(StoreError, match=r"Read-only file system\); choose another place"):
            Store(disk / "r.jsonl")
        with pytest.raises(Problem, match="Read-only file system"):
            Journal(disk / "out", "key").add("first", 1.0)
        with pytest.raises(OSError, match=r"Read-only file system.*c\.json"):
            Nested(VI(), evidence.elbo).fit(MODEL, Data.of(X, Y), checkpoint=disk / "c.json")


def test_no_decision_depends_on_the_clock(tmp_path):
    """Files from the future and from long ago are read all the same; and nothing in the source asks for the date."""
    source = Path(sitewise.__file__).parent
    asks = [p for p in source.rglob("*.py") if re.search(r"time\.time\(|datetime|st_mtime|getmtime", p.read_text())]
    assert asks == []
    box, journal = Store(tmp_path / "r.jsonl"), Journal(tmp_path / "out", "key")
    for when in (0, 4e9, 1e9):
        box.append({**ROW, "fold": int(when)})
        journal.add(str(when), 1.0)
        for path in (box.path, journal.path):
            os.utime(path, (when, when))
    assert len(Store(box.path).rows()) == 3 and len(Journal(tmp_path / "out", "key").pieces) == 3


def test_half_a_line_that_a_kill_left_does_not_swallow_the_next(tmp_path):
    journal = Journal(tmp_path / "out", "key")
    journal.add("first", 1.0)
    whole = journal.path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        journal.path.write_bytes(whole + whole[:cut])
        Journal(tmp_path / "out", "key").add("second", 2.0)
        assert Journal(tmp_path / "out", "key").pieces == {"first": 1.0, "second": 2.0}
    journal.path.write_bytes(whole + b"\xff\xfe\n")
    assert Journal(tmp_path / "out", "key").pieces == {"first": 1.0}


class Killed(BaseException):
    pass


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    place, data, learner = tmp_path / "fit.json", Data.of(X, Y), Nested(VI(), evidence.elbo)
    seen = []

    def stop(entry):
        seen.append(entry["objective"])
        if len(seen) == 4:
            raise Killed

    whole = learner.fit(MODEL, data)
    with pytest.raises(Killed):
        learner.fit(MODEL, data, callback=stop, checkpoint=place)
    kept = json.loads(place.read_text())["value"]
    assert kept == max(seen[:3])
    values = []
    again = learner.fit(MODEL, data, callback=lambda entry: values.append(entry["objective"]), checkpoint=place)
    assert values[0] == pytest.approx(kept, abs=1e-9) and not place.exists()
    assert again.objective == pytest.approx(whole.objective, abs=1e-4)
    # The file of another fit, or a damaged one, is neither used nor overwritten.
    for content, words in (
        (json.dumps({"key": "other", "value": 1.0, "vector": [0.0, 0.0]}), "checkpoint of another fit"),
        ("nonsense", "not a checkpoint, or a damaged one"),
    ):
        place.write_text(content)
        with pytest.raises(ValueError, match=words):
            learner.fit(MODEL, data, checkpoint=place)
        assert place.read_text() == content


def test_a_checkpoint_knows_what_it_belongs_to(tmp_path):
    one = Checkpoint.of(tmp_path, "settings", MODEL, Data.of(X, Y))
    assert Checkpoint.of(tmp_path, "settings", MODEL, Data.of(X, Y)).key == one.key
    others = [
        ("other", MODEL, Data.of(X, Y)),
        ("settings", MODEL, Data.of(X, -Y)),
        ("settings", MODEL, Data.of(2 * X, Y)),
    ]
    longer = Model.full(kernels.Matern52(2.0), likelihoods.BernoulliProbit())
    logit = Model.full(kernels.Matern52(), likelihoods.BernoulliLogit())
    others += [("settings", longer, Data.of(X, Y)), ("settings", logit, Data.of(X, Y))]
    assert one.key not in {Checkpoint.of(tmp_path, *parts).key for parts in others}


def test_two_processes_share_a_cache(tmp_path):
    """Both make the same file again and again, and neither ever reads half of one."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom sitewise import files\n"
        "place, other = Path(sys.argv[1]), bytes(sys.argv[2], 'ascii') * 50000\n"
        "for _ in range(60):\n"
        "    files.write_whole(place, other)\n"
        "    found = place.read_bytes()\n"
        "    assert len(found) == 50000 and len(set(found)) == 1\n"
    )
    place = tmp_path / "cached"
    both = [subprocess.Popen([sys.executable, "-c", program, str(place), letter]) for letter in "ab"]
    assert [p.wait(timeout=120) for p in both] == [0, 0]
    assert os.listdir(tmp_path) == ["cached"]


def test_damaged_files_are_refused_in_words():
    found = corruptions.torture(60, seed=1)
    assert found["model"] == {"refused": 24}
    assert sum(sum(counts.values()) for counts in found.values()) == 60
