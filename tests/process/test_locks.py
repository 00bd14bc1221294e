"""Where the system has no locks, one process can still write, and claims are refused.  Real locks: test_log.py."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sitewise.errors import UserError
from sitewise.process import locks
from sitewise.process.locks import ByteLocks


def broken(code: int) -> SimpleNamespace:
    """The module `fcntl` on a disk where locking fails."""

    def lockf(*arguments: int) -> None:
        raise OSError(code, os.strerror(code))

    return SimpleNamespace(LOCK_EX=2, LOCK_NB=4, LOCK_UN=8, lockf=lockf)


@pytest.mark.parametrize("code", [None, errno.ENOLCK, errno.ENOSYS])
def test_without_locks_one_process_writes_and_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    monkeypatch.setattr(locks, "fcntl", None if code is None else broken(code))
    found, entered = ByteLocks(tmp_path / "lock"), False
    with found.held(0):
        entered = True
    assert entered
    with pytest.raises(UserError, match=r"lock cannot be locked .*(run a single process|use a local disk)"):
        found.take(1)
    found.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_fails_for_another_reason_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "fcntl", broken(errno.EIO))
    found = ByteLocks(tmp_path / "lock")
    with pytest.raises(UserError, match="Input/output error"), found.held(0):
        pass
    monkeypatch.setattr(locks, "fcntl", broken(errno.EAGAIN))
    assert not found.take(1)
