"""Tests run in double precision with one BLAS thread; the library itself never changes these."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Small problems, many programs: compiling takes most of the time, so it is done with less optimisation.
# XLA ends the process at a flag it does not know; the last one, which halves the time, is known to this version.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)
# The two workers, and the next run, share what they compile.
os.environ.setdefault("SITEWISE_CACHE", str(Path(__file__).resolve().parent / ".pytest_cache" / "sitewise"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

import jax
import pytest

if TYPE_CHECKING:
    from sitewise_icml2023.protocols import Fold

ROOT = Path(__file__).resolve().parent

jax.config.update("jax_enable_x64", True)
sys.path.insert(0, str(ROOT / "studies"))


@pytest.fixture(autouse=True)
def few_compiled_programs() -> Iterator[None]:
    """Compiled programs are memory maps, of which Linux allows 65 530 a process: beyond, XLA crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 25_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def paper_data() -> Path:
    """The folder with the paper's data sets; tests that need it are skipped where it is absent."""
    directory = Path(os.environ.get("SITEWISE_DATA") or ROOT.parent / "shared" / "data")
    if not (directory / "classification").is_dir():
        pytest.skip(f"the paper's data sets are not at {directory}; set SITEWISE_DATA to their folder")
    return directory


@pytest.fixture(scope="session")
def ionosphere(paper_data: Path) -> Fold:
    """Fold 3 of seed 42 under the published protocol: (X_train, y_train, X_test, y_test)."""
    from sitewise_icml2023.protocols import fold  # library tests without the paper's data do not need the package

    return fold("ionosphere", "published", 42, 3, paper_data)
