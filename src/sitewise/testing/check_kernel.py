"""Conformance test of a kernel: a covariance function with correct derivatives in its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import to_host
from sitewise.kernels import Kernel
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision
from sitewise.testing.common import close, inputs, report, slopes_by_differences, worst

_ROWS = 9
_EIGENVALUE_TOL = 1e-9  # largest negative eigenvalue by rounding, as a share of the largest eigenvalue


def check_kernel(kernel: Kernel, X: Any = None) -> None:
    """Check a kernel of your own: a covariance function with correct derivatives in its parameters.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array of shape (n_rows, n_columns), default=None
        The inputs; None for nine random rows of two columns, one of which is repeated.
    """
    with working_precision():
        X = inputs(_ROWS) if X is None else np.asarray(X, float)
        X = jnp.asarray(np.concatenate([X, X[:1]]))
        checks = (_shapes, _symmetric, _diagonal, _independent_of_batch, _semidefinite, _derivatives, _on_host)
        report(type(kernel).__name__, (check(kernel, X) for check in checks))


# Compiled functions take a tenth of the time.
_matrix = jax.jit(lambda kernel, A, B: kernel.matrix(A, B))
_own_matrix = jax.jit(lambda kernel, X: kernel.matrix(X))
_variances = jax.jit(lambda kernel, X: kernel.variances(X))


def _shapes(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    K, cross, variances = _own_matrix(kernel, X), _matrix(kernel, X[:3], X), _variances(kernel, X)
    n = len(X)
    if K.shape != (n, n) or cross.shape != (3, n) or variances.shape != (n,):
        yield (
            f"pairs(A, B) must be (rows of A, rows of B) and diag(A) one number per row; got {cross.shape} for 3 and "
            f"{n} rows, and {variances.shape}."
        )
    elif not all(np.all(np.isfinite(a)) for a in (K, cross, variances)):
        yield "a covariance is not finite."


def _symmetric(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    K = np.asarray(_own_matrix(kernel, X))
    if not close(K, K.T, 1e-12, 1e-12):
        yield f"κ(x, x') and κ(x', x) differ, {worst(K, K.T)}."


def _diagonal(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    own, diagonal = np.asarray(_variances(kernel, X)), np.diag(np.asarray(_own_matrix(kernel, X)))
    if not close(own, diagonal, 1e-10, 1e-12):
        yield f"diag(A) is not the diagonal of pairs(A, A), {worst(own, diagonal)}."


def _independent_of_batch(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    """Covariances of a row do not depend on the other rows of the table, such that predictions do not either."""
    K = np.asarray(_own_matrix(kernel, X))
    alone = np.concatenate([np.asarray(_matrix(kernel, X[i : i + 1], X)) for i in range(len(X))])
    if not close(alone, K, 1e-10, 1e-12):
        yield f"a row has different covariances if it is the only row of A, {worst(alone, K)}."


def _semidefinite(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    values = np.linalg.eigvalsh(np.asarray(_own_matrix(kernel, X)))
    if values.min() < -_EIGENVALUE_TOL * max(values.max(), 0.0):
        yield f"pairs(A, A) has the eigenvalue {values.min():.3g}: it is not a covariance matrix."


def _derivatives(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    """Derivatives in the parameters (on a log scale if positive) equal finite differences, also for equal rows."""
    trainable = Trainable.of(kernel, train=("*",)) if _has_parameters(kernel) else None
    if trainable is None:
        return
    weights = jnp.asarray(np.random.default_rng(2).normal(size=(len(X), len(X))))

    def total(vector: jax.Array) -> jax.Array:
        return jnp.sum(weights * trainable.from_vector(kernel, vector).matrix(X))

    start = np.asarray(trainable.to_vector(kernel))
    exact, differences = np.asarray(jax.jit(jax.grad(total))(start)), slopes_by_differences(jax.jit(total), start)
    if not close(exact, differences, 1e-5, 1e-6 * (1 + float(np.max(np.abs(differences))))):
        yield f"derivatives in {', '.join(trainable.labels)} are {exact}, but finite differences give {differences}."


def _on_host(kernel: Kernel, X: jax.Array) -> Iterator[str]:
    """NumPy arrays give the same values and derivatives as a traced program."""
    own, rows = to_host(kernel), np.asarray(X)
    bar = np.random.default_rng(2).normal(size=(len(X), len(X)))
    K, pull = own.matrix_with_pull(rows)
    want, back = jax.vjp(jax.jit(lambda kernel: kernel.matrix(X)), kernel)
    found = {"matrix": (K, want), "variances": (own.variances(rows), _variances(kernel, X))}
    for i, pair in enumerate(zip(*map(jax.tree.leaves, (pull(bar), back(jnp.asarray(bar))[0])), strict=True)):
        found[f"the derivative in parameter {i}"] = pair
    for name, (one, other) in found.items():
        if not close(one, other, 1e-8, 1e-9):
            yield f"{name} is different on NumPy arrays (pairs_with_pull), {worst(one, other)}."


def _has_parameters(kernel: Kernel) -> bool:
    return bool(jax.tree.leaves(kernel))
