"""A file of the store is used only if it is whole; nothing that may happen to files and folders is an error."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from sitewise.arrays import program_store

BODY = bytes(range(256)) * 20


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs, in a cache of this test."""
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(program_store.OFF, raising=False)
    return tmp_path / "cache" / "programs"


def test_what_is_written_is_read_and_is_private(place: Path) -> None:
    assert program_store.read("a") is None
    program_store.write("a", BODY)
    program_store.write("b", b"")
    assert program_store.read("a") == BODY and program_store.read("b") == b""
    program_store.write("a", b"newer")
    assert program_store.read("a") == b"newer"
    assert sorted(path.name for path in place.iterdir()) == ["a", "b"]
    assert place.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in place.iterdir())


def test_one_variable_turns_it_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_store.write("a", BODY)
    for word in ("off", "OFF ", "0", "no", "false"):
        monkeypatch.setenv(program_store.OFF, word)
        program_store.write("b", BODY)
        assert program_store.read("a") is None and program_store.folder() is None
    monkeypatch.setenv(program_store.OFF, "on")
    assert program_store.read("a") == BODY and program_store.read("b") is None


def damaged(content: bytes) -> Iterator[bytes]:
    """Cut, with a bit changed, with a part set to zero, empty, longer, and of others."""
    for cut in (0, 1, 31, 32, 33, len(content) // 2, len(content) - 1):
        yield content[:cut]
    for at in (0, 31, 32, len(content) // 2, len(content) - 1):
        yield content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    for at in range(0, len(content), 512):
        yield content[:at] + bytes(512) + content[at + 512 :]
    yield bytes(len(content))
    yield content + b"\0"
    yield content + content
    yield b"cos\nsystem\n(S'exit 1'\ntR."


def test_a_damaged_file_is_not_read_and_is_replaced(place: Path) -> None:
    program_store.write("a", BODY)
    whole = (place / "a").read_bytes()
    for broken in damaged(whole):
        if broken == whole:
            continue
        (place / "a").write_bytes(broken)
        assert program_store.read("a") is None
        assert not (place / "a").exists()
        program_store.write("a", BODY)
        assert program_store.read("a") == BODY


def test_a_file_is_not_read_under_another_name(place: Path) -> None:
    program_store.write("a", BODY)
    os.rename(place / "a", place / "b")
    assert program_store.read("b") is None and program_store.read("a") is None


def as_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").touch()


def as_link(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    target.write_bytes(program_store._digest("a", BODY) + BODY)
    path.symlink_to(target)


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
@pytest.mark.parametrize("kind", [as_folder, as_link, os.mkfifo])
def test_what_is_not_a_file_is_not_read(place: Path, kind: Callable[[Path], None]) -> None:
    program_store.write("b", BODY)
    kind(place / "a")
    assert program_store.read("a") is None  # and a pipe is not waited for
    program_store.write("a", BODY)
    assert program_store.read("b") == BODY and program_store.read("a") in (None, BODY)


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_what_others_may_write_is_not_read(place: Path) -> None:
    program_store.write("a", BODY)
    (place / "a").chmod(0o622)
    assert program_store.read("a") is None
    (place / "a").chmod(0o600)
    assert program_store.read("a") == BODY
    place.chmod(0o777)  # made by somebody with another umask: put right, because it is ours
    assert program_store.read("a") == BODY and place.stat().st_mode & 0o777 == 0o700
    for owner, trusted in ((os.getuid(), True), (0, True), (os.getuid() + 7, False)):
        assert program_store._trusted(os.stat_result((0o100600, 0, 0, 1, owner, 0, 0, 0, 0, 0))) == trusted


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", Path("/proc/no-such-place"), tmp_path / ("x" * 300)):
        monkeypatch.setenv("SITEWISE_CACHE", str(bad))
        program_store.write("a", BODY)
        assert program_store.folder() is None and program_store.read("a") is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_folder_that_cannot_be_written_is_still_read(place: Path) -> None:
    program_store.write("a", BODY)
    place.chmod(0o500)
    try:
        program_store.write("b", BODY)
        assert program_store.read("a") == BODY and program_store.read("b") is None
    finally:
        place.chmod(0o700)


def test_a_full_disk_leaves_nothing_behind(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    program_store.write("a", BODY)
    monkeypatch.setattr(os, "replace", full)
    program_store.write("b", BODY)
    assert [path.name for path in place.iterdir()] == ["a"] and program_store.read("a") == BODY


def test_a_folder_that_disappears_is_made_again(place: Path) -> None:
    program_store.write("a", BODY)
    (place / "a").unlink()
    place.rmdir()
    assert program_store.read("a") is None
    program_store.write("a", BODY)
    assert program_store.read("a") == BODY


def test_what_was_not_used_for_the_longest_time_is_removed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_store, "_MAX_BYTES", 10 * (len(BODY) + 32))
    now = time.time()
    for i in range(10):
        program_store.write(f"{i}", BODY)
        os.utime(place / f"{i}", (now - 100 + i, now - 100 + i))
    os.utime(place / "5", (now + 1e7, now + 1e7))  # of a clock that was wrong
    assert program_store.read("0") == BODY  # which is use
    (place / "folder").mkdir()
    program_store.write("last", BODY)
    left = {path.name for path in place.iterdir()}
    assert {"0", "last", "9", "folder"} <= left and not {"1", "2", "5"} & left and len(left) == 8
    monkeypatch.setattr(program_store, "_MAX_FILES", 4)
    program_store.write("more", BODY)
    assert sum(path.is_file() for path in place.iterdir()) == 3 and program_store.read("more") == BODY


def test_what_a_killed_process_left_is_removed_in_time(place: Path) -> None:
    program_store.write("a", BODY)
    for name, age in (("old", 4000), ("young", 10)):
        left = place / f"{program_store._TEMPORARY_PREFIX}{name}"
        left.write_bytes(b"half")
        os.utime(left, (time.time() - age, time.time() - age))
    program_store.write("b", BODY)
    assert {path.name for path in place.iterdir()} == {"a", "b", f"{program_store._TEMPORARY_PREFIX}young"}


def write_and_read(seed: int) -> int:
    """How often a read gave something other than nothing or what somebody has written whole."""
    wrong = 0
    for turn in range(60):
        name = f"{(seed + turn) % 5}"
        found = program_store.read(name)
        wrong += found is not None and found not in (name.encode() * 1000, name.encode() * 2000)
        program_store.write(name, name.encode() * (1000 + 1000 * (turn % 2)))
    return wrong


def test_many_processes_write_at_once(place: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("forkserver")) as pool:
        assert sum(pool.map(write_and_read, range(4))) == 0
    assert all(program_store.read(path.name) for path in place.iterdir()) and len(list(place.iterdir())) == 5


def test_a_user_without_a_home_gets_no_folder_called_tilde(tmp_path: Path) -> None:
    code = """
import os, pwd
os.environ.pop("HOME", None)
def unknown(_): raise KeyError
pwd.getpwuid = unknown
from sitewise.arrays import program_store
program_store.write("a", b"body")
assert program_store.read("a") == b"body" and program_store.folder().is_absolute(), program_store.folder()
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "SITEWISE_CACHE", "XDG_CACHE_HOME")}
    environment |= {"TMPDIR": str(tmp_path), "XDG_CACHE_HOME": "relative"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == [f"sitewise-{os.getuid()}"]
