"""Scoped settings of the process: double precision and one BLAS thread, restored afterwards.

Importing the library changes no setting; a fit runs inside this scope.  One thread is enough because the matrices are
small: with several threads on a busy machine a factorisation is up to 300 times slower.

Precision belongs to a thread.  The number of BLAS threads belongs to the process, or in some libraries to a thread: it
is lowered by the first thread that enters a scope, and restored by the last one that leaves.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
import threadpoolctl

from sitewise.process import forks

WORKING_DTYPE = np.float64  # of learners, samplers and estimators, whatever precision their input has

Limited = list[tuple[Any, int]]  # libraries and the number of threads that each had


@contextlib.contextmanager
def working_precision() -> Iterator[None]:
    """float64 for JAX and one BLAS thread, until the end of the `with` block."""
    forks.require_jax()
    # NaN and infinity are results here, which end in an `Outcome`.
    with jax.enable_x64(True), _one_blas_thread(), np.errstate(all="ignore"):
        yield


def allowed_threads() -> int:
    """Return how many threads BLAS was allowed before the present scope; 1 outside of every scope.

    Threads that are in a scope at the same time share this number.
    """
    allowed = max((threads for _, threads in (*_shared, *_scopes.own)), default=1)
    return max(1, allowed // max(1, _threads))


class _Scopes(threading.local):
    """Per thread: the number of scopes that it is in, and the libraries that it has limited for itself."""

    depth = 0
    own: Limited = []


_lock = threading.Lock()
_scopes = _Scopes()
_threads = 0  # number of threads in a scope
_shared: Limited = []


@contextlib.contextmanager
def _one_blas_thread() -> Iterator[None]:
    if _scopes.depth == 0:
        _enter()
    _scopes.depth += 1
    try:
        yield
    finally:
        _scopes.depth -= 1
        if _scopes.depth == 0:
            _leave()


def _enter() -> None:
    global _threads, _shared
    shared, own = _libraries()
    with _lock:
        _threads += 1
        if _threads == 1:
            _shared = _lower(shared)
    _scopes.own = _lower(own)


def _leave() -> None:
    global _threads, _shared
    _restore(_scopes.own)
    _scopes.own = []
    with _lock:
        _threads -= 1
        if _threads == 0:
            _restore(_shared)
            _shared = []


@functools.cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """Return the loaded BLAS libraries: those with one thread pool per process, and those with one per thread."""
    # JAX factorises with SciPy's BLAS, which it loads at the first factorisation.  A library that is not loaded yet
    # cannot be limited.  It is therefore loaded here: otherwise the first fit of a process would run with all threads.
    import scipy.linalg.cython_blas
    import scipy.linalg.cython_lapack  # noqa: F401

    found = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
    each = [lib for lib in found if lib.internal_api == "mkl" or getattr(lib, "threading_layer", "") == "openmp"]
    return [lib for lib in found if lib not in each], each


def _lower(libraries: Iterable[Any]) -> Limited:
    """Limit each library to one thread; return the libraries that were changed and their numbers before."""
    before = [(library, library.get_num_threads()) for library in libraries]
    several = [(library, threads) for library, threads in before if threads is not None and threads != 1]
    _set([(library, 1) for library, _ in several])
    return several


def _restore(limited: Limited) -> None:
    """Undo `_lower`, except for libraries whose number was set elsewhere since."""
    _set([(library, threads) for library, threads in limited if library.get_num_threads() == 1])


def _set(numbers: Limited) -> None:
    for library, threads in numbers:
        library.set_num_threads(threads)
        # From version 3.8 on, OpenBLAS listens to one thread until that one gives up control; here another thread
        # may be the one that restores the number.
        give_up = getattr(library, "clear_controlling_thread", None)
        if give_up is not None:
            give_up()


def _renew() -> None:
    """Restore the state in a forked process, in which only the thread that forked is left."""
    global _lock, _threads, _shared
    _lock = threading.Lock()
    _threads = min(_scopes.depth, 1)
    if _threads == 0:
        _restore(_shared)
        _shared = []


forks.in_forked_child(_renew)
