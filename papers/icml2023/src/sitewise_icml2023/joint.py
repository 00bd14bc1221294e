"""VI of the printed tables: q and the hyperparameters in one search.

    ELBO(m, L, θ) = Σ_i E_{N((C m)_i, |(C L)_i|²)}[log p(y_i | f)] − KL(N(m, L Lᵀ) ‖ N(0, I)),     C Cᵀ = K_θ + jitter

over m, the triangle L and θ on the softplus scale, from m = 0, L = I, ℓ = σ² = 1, by L-BFGS with SciPy's stopping rule.
At a maximum over q this is the bound of `vi`, and with one lengthscale the search ends where `vi` does.  With one
lengthscale per feature it may end at another maximum.  On some sets it tries a lengthscale so near to zero that the
distances (|a|² + |b|² − 2 aᵀb, as in the library that made the column) lose all digits, and rounding decides where it
ends.  (`expanded` has such distances for Laplace and EP; these here are differentiated.)
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from sitewise import Data, Model
from sitewise.metrics import accuracy
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision
from sitewise.types import replace
from sitewise_icml2023.lbfgs import NUDGE
from sitewise_icml2023.protocols import Fold
from sitewise_icml2023.sampled import FLOOR


def _matrix(model: Model, A: jax.Array, B: jax.Array) -> jax.Array:
    """The Matérn-5/2 kernel, with distances by their expansion."""
    kernel: Any = model.prior.kernel
    A, B = A / kernel.lengthscale, B / kernel.lengthscale
    squares = jnp.sum(A**2, axis=1)[:, None] + jnp.sum(B**2, axis=1) - 2 * A @ B.T
    r = jnp.sqrt(5.0) * jnp.sqrt(jnp.maximum(squares, 1e-36))
    return kernel.variance * (1 + r + r**2 / 3) * jnp.exp(-r)


def _root(model: Model, X: jax.Array) -> jax.Array:
    prior: Any = model.prior
    return jnp.linalg.cholesky(_matrix(model, X, X) + prior.jitter * jnp.eye(X.shape[0]))


def _parts(trainable: Trainable, model: Model, rows: int, vector: jax.Array) -> tuple[Model, jax.Array, jax.Array]:
    """The model at θ, m and L."""
    triangle = vector[rows : len(vector) - trainable.size]
    L = jnp.zeros((rows, rows)).at[np.tril_indices(rows)].set(triangle)
    return trainable.from_vector(model, vector[len(vector) - trainable.size :]), vector[:rows], L


@functools.partial(jax.jit, static_argnums=0)
def _loss(trainable: Trainable, vector: jax.Array, model: Model, data: Data) -> tuple[jax.Array, jax.Array]:
    """−ELBO and its gradient."""

    def negative(v: jax.Array) -> jax.Array:
        at, m, L = _parts(trainable, model, data.rows, v)
        C = _root(at, data.X)
        var = jnp.sum((C @ L) ** 2, axis=1)
        kl = 0.5 * (m @ m + jnp.sum(L**2) - data.rows - jnp.sum(jnp.log(jnp.diagonal(L) ** 2)))
        return kl - jnp.sum(at.likelihood.expected_log_prob(data.y, C @ m, var))

    return jax.value_and_grad(negative)(vector)


@functools.partial(jax.jit, static_argnums=0)
def _log_density(
    trainable: Trainable, vector: jax.Array, model: Model, data: Data, X: jax.Array, y: jax.Array
) -> jax.Array:
    at, m, L = _parts(trainable, model, data.rows, vector)
    B = jax.scipy.linalg.solve_triangular(_root(at, data.X), _matrix(at, data.X, X), lower=True)
    var = at.prior.kernel.variances(X) - jnp.sum(B**2, axis=0) + jnp.sum((L.T @ B) ** 2, axis=0)
    return replace(at.likelihood, quadrature=None).log_expected_prob(y, B.T @ m, var)


def row(model: Model, fold: Fold, nudge: int | None = None) -> dict[str, Any]:
    """Return the results of this search for a classification task.

    `nudge` is the seed of changes of the start in its tenth digit.
    """
    with working_precision():
        data = Data.of(fold.X, fold.y)
        trainable = Trainable.of(model, transform="softplus")
        identity = np.eye(data.rows)[np.tril_indices(data.rows)]
        first = np.concatenate([np.zeros(data.rows), identity, np.asarray(trainable.to_vector(model))])

        if nudge is not None:
            first = first * (1 + NUDGE * np.random.default_rng(nudge).standard_normal(len(first)))

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = _loss(trainable, vector, model, data)
            return float(value), np.asarray(slope)

        found = minimize(loss, first, jac=True, method="L-BFGS-B")
        X = jnp.asarray(fold.X_test)
        density, ones = (
            np.asarray(_log_density(trainable, found.x, model, data, X, jnp.asarray(y)))
            for y in (fold.y_test, np.ones(len(X)))
        )
        theta = trainable.constrained(jnp.asarray(found.x[-trainable.size :]))
    fine = bool(np.all(np.isfinite(density)))
    return {
        "test_loglik": float(np.clip(density, np.log(FLOOR), np.log1p(-FLOOR)).mean()),
        "test_acc": accuracy(np.exp(ones), fold.y_test) if fine else float("nan"),
        "objective": -float(found.fun),
        "theta": {name: np.asarray(value).tolist() for name, value in theta.items()},
        "converged": bool(found.success) and fine,
        "reason": str(found.message),
        "rounds": int(found.nit),
        "evaluations": int(found.nfev),
    }
