"""JAX's persistent cache is set on an accelerator, unless the user has set it or turned caches off."""

from types import SimpleNamespace

import jax
import pytest

from sitewise.arrays import jax_cache, program_store


@pytest.fixture
def configured(monkeypatch, tmp_path):
    """Return the function that sets the cache on a platform; it returns the options that were set."""
    monkeypatch.setenv("SITEWISE_CACHE", str(tmp_path))
    monkeypatch.delenv(program_store.OFF, raising=False)

    def options_on(platform, folder=None):
        made = {}
        config = SimpleNamespace(jax_compilation_cache_dir=folder, update=made.__setitem__)
        monkeypatch.setattr(jax_cache, "default_device", lambda: SimpleNamespace(platform=platform))
        monkeypatch.setattr(jax_cache, "jax", SimpleNamespace(config=config))
        jax_cache.keep_accelerator_programs()
        return made

    return options_on


def test_an_accelerator_keeps_every_program(configured, tmp_path):
    assert configured("gpu") == {
        "jax_compilation_cache_dir": str(tmp_path / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    assert (tmp_path / "jax").is_dir()
    assert all(hasattr(jax.config, option) for option in configured("gpu"))  # options that this JAX has


def test_a_cpu_and_a_folder_of_the_user_are_left_alone(configured, monkeypatch):
    assert configured("cpu") == {}
    assert configured("gpu", "folder of the user") == {}
    monkeypatch.setenv(program_store.OFF, "off")
    assert configured("gpu") == {}


def test_a_folder_that_cannot_be_made_changes_nothing(configured, tmp_path):
    (tmp_path / "jax").write_text("a file in its place")
    assert configured("gpu") == {}
