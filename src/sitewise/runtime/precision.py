"""Scoped settings of the process: double precision and one BLAS thread, restored afterwards.

Importing the library changes no setting; a fit runs inside this scope.  One thread is enough because the matrices are
small: with several threads on a busy machine a factorisation is up to 300 times slower.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import numpy as np
from threadpoolctl import threadpool_limits

WORKING_DTYPE = np.float64  # of learners, samplers and estimators, whatever precision their input has


@contextlib.contextmanager
def working_precision() -> Iterator[None]:
    """float64 for JAX and one BLAS thread, until the end of the `with` block."""
    # JAX factorises with SciPy's BLAS, which it loads at the first factorisation.  A library that is not loaded yet
    # cannot be limited.  It is therefore loaded here: otherwise the first fit of a process would run with all threads.
    import scipy.linalg.cython_blas
    import scipy.linalg.cython_lapack  # noqa: F401

    with jax.enable_x64(True), threadpool_limits(limits=1, user_api="blas"):
        yield
