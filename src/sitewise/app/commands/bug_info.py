"""`sitewise info`: print what a bug report needs: versions, BLAS, threads, device and cache."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from sitewise.app import options
from sitewise.app.process import ends_in_a_sentence, print_json

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn", "threadpoolctl", "pandas", "matplotlib")
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@ends_in_a_sentence
def info(as_json: options.Json = False) -> None:
    """Print versions, BLAS, threads, device and cache for a bug report.

    Example: sitewise info
    """
    facts = {
        "sitewise": versions(), "platform": platform.platform(), "BLAS": blas(), "threads": threads(),
        "device": device(), "cache": cache(),
    }  # fmt: skip
    if as_json:
        print_json(facts)
    else:
        print("\n".join(f"{name + ':':<10}{value}" for name, value in facts.items()))


def versions() -> str:
    """Return the versions of sitewise, Python and the installed libraries."""
    from sitewise import __version__

    return ", ".join([__version__, f"Python {platform.python_version()}", *_installed()])


def _installed() -> Iterator[str]:
    for name in LIBRARIES:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"no {name}"


def blas() -> str:
    """Return the BLAS libraries that NumPy and SciPy load, with their threads."""
    import scipy.linalg.cython_blas  # noqa: F401 # loads SciPy's library
    import threadpoolctl

    each = (one for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas")
    names = (
        f"{one['internal_api']} {one['version']} {one.get('architecture', '')}".strip()
        + f" ({one['num_threads']} threads)"
        for one in each
    )
    return ", ".join(dict.fromkeys(names)) or "none found"


def threads() -> str:
    """Return the number of CPU cores of this process and the settings of threads in the environment."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return ", ".join(
        [f"{cores} cores", *(f"{name}={os.environ[name]}" for name in THREAD_SETTINGS if name in os.environ)]
    )


def device() -> str:
    """Return the device on which JAX computes by default."""
    from sitewise.arrays.program_names import default_device

    found = default_device()
    return f"{found.platform} ({found.device_kind})"


def cache() -> str:
    """Return the folder of compiled programs, with the number and size of its files; the home folder is shortened."""
    from sitewise.arrays import program_store
    from sitewise.process.files import user_cache

    path = user_cache("programs")
    shown = f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
    if not program_store.enabled():
        return f"turned off by {program_store.OFF}"
    if program_store.folder() is None:
        return f"{shown} cannot be written or is not yours: programs are compiled in every process"
    sizes = [file.stat().st_size for file in path.iterdir() if file.is_file()]
    return f"{shown}, {len(sizes)} programs, {sum(sizes) / 2**20:.1f} MiB"
