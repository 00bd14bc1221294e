"""A file is whole or not there, however many write it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sitewise.process import files


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    """Both write the same file again and again, and neither ever reads half of one."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom sitewise.process import files\n"
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


def test_a_failure_names_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "model"
    files.write_whole(place, b"old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*model"):
        files.write_whole(place, b"new")
    assert place.read_bytes() == b"old" and os.listdir(tmp_path) == ["model"]
