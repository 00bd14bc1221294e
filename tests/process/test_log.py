"""A log loses nothing: torn lines, kills, full disks, several writers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sitewise.errors import UserError
from sitewise.process.log import Log


def refuse(path: Path, number: int) -> None:
    raise UserError(f"line {number} of {path.name} is damaged.")


def open_log(path: Path) -> Log[int]:
    return Log(path, lambda entry: entry["n"], refuse)


def numbers(path: Path) -> list[int]:
    return open_log(path).read()[0]


def start(program: str, *arguments: object) -> subprocess.Popen:
    head = "import sys\nfrom pathlib import Path\nfrom sitewise.process.log import Log\npath = Path(sys.argv[1])\n"
    head += "log = Log(path, lambda entry: entry['n'], lambda path, number: None)\n"
    return subprocess.Popen([sys.executable, "-c", head + program, *map(str, arguments)], stdout=subprocess.PIPE)


def test_entries_come_back_as_they_are_added(tmp_path: Path) -> None:
    log = open_log(tmp_path / "new" / "log")
    assert log.read() == ([], True)
    log.append({"n": 1})
    assert log.read() == ([1], True)  # the file is new
    other = open_log(log.path)
    other.append({"n": 2})
    other.append({"n": 3})
    assert log.read() == ([2, 3], False)
    assert log.read() == ([], False)
    assert other.read() == ([1, 2, 3], True)


def test_reading_leaves_no_trace(tmp_path: Path) -> None:
    assert numbers(tmp_path / "log") == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    for n in range(3):
        log.append({"n": n})
    log.read()
    log.path.write_text('{"n": 7}\n')
    assert log.read() == ([7], True)
    other = tmp_path / "other"
    other.write_text('{"n": 8}\n' * 5)
    other.replace(log.path)
    assert log.read() == ([8] * 5, True)
    log.path.unlink()
    assert log.read() == ([], True) and log.read() == ([], False)


def test_a_torn_line_is_ignored_by_readers_and_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    open_log(path).append({"n": 1, "words": "x" * 10_000})
    whole = path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole + whole[:cut])
        log = open_log(path)
        assert log.read() == ([1], True) and log.torn == whole[:cut]
        log.append({"n": 2})
        assert log.read() == ([2], False)
        assert path.read_bytes() == whole + b'{"n": 2}\n'
        path.write_bytes(whole[:cut])  # the first line itself
        assert numbers(path) == []
        open_log(path).append({"n": 3})
        assert path.read_bytes() == b'{"n": 3}\n'


def test_the_caller_decides_about_damaged_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [b'{"n": 1}', b"nonsense", b'{"m": 2}', b"[" * 100_000, b"\xff\xfe", b"", b'{"n": 3}']
    path.write_bytes(b"\n".join(lines) + b"\n")
    damaged = []
    log = Log(path, lambda entry: entry["n"], lambda where, number: damaged.append((where, number)))
    assert log.read() == ([1, 3], True)
    assert damaged == [(path, number) for number in (2, 3, 4, 5, 6)]
    strict = open_log(path)
    for _ in range(2):  # a refusal is not forgotten
        with pytest.raises(UserError, match="line 2 of log"):
            strict.read()


def test_numbers_of_damaged_lines_go_on_from_one_reading_to_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append({"n": 1})
    log.read()
    with open(log.path, "a") as file:
        file.write('{"n": 2}\nnonsense\n')
    with pytest.raises(UserError, match="line 3 of log"):
        log.read()


def test_two_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    program = "for n in range(300):\n    log.append({'n': n, 'who': sys.argv[2], 'words': 'x' * (n * 37 % 5000)})\n"
    both = [start(program, tmp_path / "log", who) for who in "ab"]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    found = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    for who in "ab":
        assert [row["n"] for row in found if row["who"] == who] == list(range(300))
    assert len(found) == 600


def test_threads_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(who: int) -> None:
        log = open_log(tmp_path / "log")
        for n in range(50):
            log.append({"n": 100 * who + n})
        log.close()

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(tmp_path / "log")) == [100 * who + n for who in range(4) for n in range(50)]


def test_a_kill_in_the_middle_of_many_appends_leaves_a_readable_log(tmp_path: Path) -> None:
    path, program = tmp_path / "log", "n = len(log.read()[0])\nwhile True:\n    log.append({'n': n})\n    n += 1\n"
    for _ in range(3):
        before = len(numbers(path))
        process = start(program, path)
        deadline = time.monotonic() + 60
        while len(numbers(path)) < before + 20:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert numbers(path) == list(range(len(numbers(path))))
    assert len(numbers(path)) >= 60


@pytest.mark.skipif(sys.platform == "win32", reason="file sizes are limited by POSIX resource limits")
def test_a_line_that_the_disk_has_no_room_for_is_taken_away_again(tmp_path: Path) -> None:
    program = (
        "import resource\n"
        "from sitewise.errors import UserError\n"
        "log.append({'n': 1})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "before = path.read_bytes()\n"
        "for attempt in range(2):\n"
        "    try:\n"
        "        log.append({'n': 2, 'words': 'x' * 5000})\n"
        "    except UserError as problem:\n"
        "        assert 'could not be extended' in str(problem) and 'finished pieces are kept' in str(problem)\n"
        "    else:\n"
        "        sys.exit('no error')\n"
        "    assert path.read_bytes() == before\n"
        "log.append({'n': 3})\n"
    )
    assert start(program, tmp_path / "log").wait(timeout=60) == 0
    assert numbers(tmp_path / "log") == [1, 3]


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"log\.lock cannot be opened .*; choose another place"):
        open_log(tmp_path / "file" / "log").append({"n": 1})
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"folder cannot be read .*; choose another place"):
        open_log(tmp_path / "folder").read()
    with pytest.raises(UserError, match=r"folder cannot be written .*; choose another place"):
        open_log(tmp_path / "folder").append({"n": 1})


def test_a_log_can_be_removed_while_another_writer_has_it_open(tmp_path: Path) -> None:
    one, two = open_log(tmp_path / "log"), open_log(tmp_path / "log")
    one.append({"n": 1})
    two.remove()
    assert list(tmp_path.iterdir()) == []
    one.append({"n": 2})
    assert numbers(one.path) == [2]
    assert os.path.samestat(os.fstat(one._locks._handle), os.stat(tmp_path / "log.lock"))  # others wait for it
