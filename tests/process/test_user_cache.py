from pathlib import Path

import pytest

from sitewise.process.files import user_cache


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    for name in ("SITEWISE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert user_cache("jax") == Path("/home/user/.cache/sitewise/jax")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert user_cache("jax") == Path("/cache/sitewise/jax")
    monkeypatch.setenv("SITEWISE_CACHE", "/own")
    assert user_cache("data") == Path("/own/data")
