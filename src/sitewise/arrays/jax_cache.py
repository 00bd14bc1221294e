"""JAX's persistent compilation cache, for programs on an accelerator.

On a CPU the library stores its programs itself (`programs`).  Programs for an accelerator are larger and take JAX's own
cache.  It is an option of the whole process: it is set if the user has not set it, and only in a process whose default
device is an accelerator.  SITEWISE_PROGRAM_CACHE=off turns both off.
"""

from __future__ import annotations

import jax

from sitewise.arrays import program_store
from sitewise.arrays.program_names import default_device
from sitewise.arrays.program_store import STORED_PLATFORM
from sitewise.process.files import user_cache

MIN_SECONDS = 0.0  # of a compilation whose program is kept: also the many short ones add up


def keep_accelerator_programs() -> None:
    """Set the folder of JAX's cache before the first program for an accelerator is compiled.

    Nothing happens on a CPU, if the cache is turned off, or if JAX has a folder.  Without a writable folder every
    process compiles.
    """
    on_cpu = default_device().platform == STORED_PLATFORM
    if on_cpu or not program_store.enabled() or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    use_folder()


def use_folder() -> str | None:
    """Set the folder of JAX's cache; return the reason if it cannot be written."""
    directory = user_cache("jax")
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as problem:
        return f"{directory} cannot be written ({problem.strerror})"
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    return None
