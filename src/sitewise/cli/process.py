"""L4. What the command line may do because the process is its own, and how it ends."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import typer

from sitewise.cache import user_cache


def own_process(cache: bool = True) -> None:
    """Settings that a library must not touch: double precision and a persistent compilation cache."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if not cache:
        return
    directory = user_cache("jax")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        print(
            f"note: compiled programs are not kept, {directory} cannot be written ({problem.strerror}).",
            file=sys.stderr,
        )
        return
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def save_or_exit(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; one sentence and exit code 1 if it cannot be written."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            partial.unlink()
        print(f"error: cannot write {path}: {problem.strerror}. Choose another place with --out.", file=sys.stderr)
        raise typer.Exit(1) from None
    print(f"Saved {path}")
