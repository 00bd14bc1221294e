"""Settings of the process of a command."""

import jax
import pytest

from sitewise.app.process import own_process


@pytest.mark.parametrize(
    ("accelerator", "cache", "kept"),
    [(False, True, False), (True, False, False), (True, True, True), (False, False, False)],
)
def test_the_compilation_cache_of_jax_is_used_on_accelerators_only(accelerator, cache, kept, monkeypatch, tmp_path):
    """On a CPU the library keeps its own programs."""
    made = {}
    monkeypatch.setattr("sitewise.process.device.on_accelerator", lambda: accelerator)
    monkeypatch.setattr("sitewise.arrays.jax_cache.user_cache", lambda name: tmp_path / name)
    monkeypatch.setattr(jax.config, "update", made.__setitem__)
    own_process(cache)
    assert made["jax_enable_x64"] is True and ("jax_compilation_cache_dir" in made) is kept
