"""Stores: rows by task, archives, claims, and lines that are no rows."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sitewise.errors import UserError
from sitewise_icml2023 import store
from sitewise_icml2023.store import Store
from sitewise_icml2023.tasks import KEY


def row(**changes: object) -> dict[str, object]:
    return {**dict(zip(KEY, ("a", "clean", 1, 0, "vi"), strict=True)), "value": 1.5, **changes}


def test_rows_come_back_and_the_last_of_a_task_counts(tmp_path: Path) -> None:
    box = Store(tmp_path / "new" / "r.jsonl")
    box.append(row(value=1.0))
    box.append(row(fold=1))
    box.append(row(value=2.0))
    assert len(box.rows()) == 2 and box.rows()["a", "clean", 1, 0, "vi"]["value"] == 2.0
    assert [r["value"] for r in store.read(box.path)] == [2.0, 1.5]


def test_failed_tasks_are_not_done(tmp_path: Path) -> None:
    box = Store(tmp_path / "r.jsonl")
    box.append(row(error="no"))
    box.append(row(fold=1))
    assert box.done() == {("a", "clean", 1, 1, "vi")}
    assert [r["fold"] for r in store.read(box.path)] == [1]


def test_archived_rows_are_read_first_and_new_ones_go_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    packed = gzip.compress("".join(json.dumps(row(fold=f, value=0.0)) + "\n" for f in (0, 1)).encode(), mtime=0)
    path.with_name("r.jsonl.gz").write_bytes(packed)
    box = Store(path)
    assert len(box.done()) == 2 and not path.exists()
    box.append(row(value=9.0))
    assert {r["fold"]: r["value"] for r in store.read(path)} == {0: 9.0, 1: 0.0}
    assert path.read_text().count("\n") == 1 and path.with_name("r.jsonl.gz").read_bytes() == packed


@pytest.mark.parametrize("line", ["nonsense", "[1, 2]", '{"set": "a"}', json.dumps(row(set=["a"]))])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row()) + f"\n{line}\n")
    with pytest.raises(UserError, match="Line 2"):
        Store(path).rows()


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        store.read(tmp_path / "r.jsonl")


def run(program: str, path: Path) -> subprocess.Popen:
    head = "import sys\nfrom sitewise_icml2023.store import Store\nbox = Store(sys.argv[1])\n"
    return subprocess.Popen([sys.executable, "-c", head + program, str(path)], stdout=subprocess.PIPE)


def test_a_claim_excludes_other_processes_until_its_holder_dies(tmp_path: Path) -> None:
    box = Store(tmp_path / "r.jsonl")
    program = "import time\nassert box.claim(('a', 1))\nprint('claimed', flush=True)\ntime.sleep(60)\n"
    with run(program, box.path) as process:
        assert process.stdout.readline() == b"claimed\n"
        assert not box.claim(("a", 1)) and box.claim(("a", 2))
        process.kill()
    assert box.claim(("a", 1))
    box.release(("a", 1))
    assert run("sys.exit(box.claim(('a', 1)) and not box.claim(('a', 2)))", box.path).wait() == 1
    box.close()
    assert run("sys.exit(box.claim(('a', 2)))", box.path).wait() == 1
