"""Lines of a compressed file come before those of a log; a damaged archive is refused."""

import gzip
from pathlib import Path

import pytest

from sitewise.errors import UserError
from sitewise.process.log import Log
from sitewise_icml2023.archived_log import ArchivedLog, archive_of


def refuse(path: Path, number: int) -> None:
    raise UserError(f"line {number} of {path.name} is damaged.")


def open_log(path: Path) -> ArchivedLog[int]:
    return ArchivedLog(path, lambda entry: entry["n"], refuse)


def test_archived_lines_come_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = open_log(path)
    archive_of(path).write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))
    assert log.read() == ([1, 2], True) and not path.exists()
    log.append({"n": 4})
    log.append({"n": 5})
    assert log.read() == ([1, 2, 4, 5], True)
    log.append({"n": 6})
    assert log.read() == ([6], False)
    assert Log(path, lambda entry: entry["n"], refuse).read()[0] == [4, 5, 6]


def test_a_damaged_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    whole = gzip.compress(b'{"n": 1}\n' * 1000)
    for content in (whole[:-4], whole[:20] + b"\0\0\0\0" + whole[24:], b"no archive"):
        archive_of(path).write_bytes(content)
        log = open_log(path)
        for _ in range(2):  # a refusal is not forgotten
            with pytest.raises(UserError, match=r"log\.gz cannot be unpacked"):
                log.read()
    archive_of(path).write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2'))  # a whole archive of half a line
    with pytest.raises(UserError, match="its last line is cut short"):
        open_log(path).read()
    archive_of(path).write_bytes(gzip.compress(b'{"n": 1}\nnonsense\n'))
    with pytest.raises(UserError, match=r"line 2 of log\.gz"):
        open_log(path).read()
    monkeypatch.setattr("sitewise_icml2023.archived_log.MAX_LINE_BYTES", 1 << 20)
    archive_of(path).write_bytes(gzip.compress(bytes(1 << 24)))  # unpacks to a thousand times its size
    with pytest.raises(UserError, match="has a line of more than 1 MB"):
        open_log(path).read()
