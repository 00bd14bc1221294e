"""Tests run in double precision with one BLAS thread; the library itself never changes these."""

import gc
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Small problems, many programs: compiling takes most of the time, so it is done with less optimisation.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# The two workers, and the next run, share what they compile.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

import jax
import pytest

jax.config.update("jax_enable_x64", True)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "experiments"))
sys.path.insert(0, str(ROOT / "experiments" / "icml2023"))


@pytest.fixture(autouse=True)
def few_compiled_programs():
    """Compiled programs are memory maps, of which Linux allows 65 530 a process: beyond, XLA crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 25_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def paper_data():
    """The folder with the paper's data sets; tests that need it are skipped where it is absent."""
    from protocol import data_directory

    directory = data_directory()
    if not (directory / "classification").is_dir():
        pytest.skip(f"the paper's data sets are not at {directory}; set SITEWISE_DATA to their folder")
    return directory


@pytest.fixture(scope="session")
def ionosphere(paper_data):
    """Fold 3 of seed 42 under the published protocol: (X_train, y_train, X_test, y_test)."""
    from protocol import folds, load

    X, y = load("ionosphere", paper_data)
    train, test = folds(len(X), 42)[3]
    return X[train], y[train], X[test], y[test]
