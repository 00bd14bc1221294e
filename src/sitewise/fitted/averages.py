"""The posterior of weighted sums of the latent function, exactly: S_g = Σ_c Σ_r w_cgr f_c(x_gr).

A sum is linear in f, and the mean and variance of every posterior here depend on new rows through their covariances k
with the training rows (or inducing inputs) and with each other.  Sums therefore go first: with k_g = Σ_r w_gr k(x_gr)
and κ_g = Σ_rs w_gr w_gs κ(x_gr, x_gs),

    full     mean k_gᵀα           variance κ_g − |V_g|²,                 V_g = L⁻¹ W½ k_g
    sparse   mean φ_gᵀc           variance κ_g − |φ_g|² + φ_gᵀSφ_g,      φ_g = Tᵀ k_g
    classes  mean Σ_c k_cgᵀα_c    variance Σ_c (κ_cg − |V_cg|²) + |Σ_c G_cg|²

plus the sums of the prior mean: G sums need G solves, however many rows each of them has.  A draw of a sampled
posterior is Gaussian given its hyperparameters and latent values, and has the form of the first line.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from sitewise.arrays import programs
from sitewise.arrays.engine import to_host
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent
from sitewise.fitted.sampled import Sampled
from sitewise.kernels import Kernel
from sitewise.mcmc.reference import prior_root
from sitewise.means import Mean
from sitewise.numerics.dense.triangular import lower_solve, lower_transposed_solve
from sitewise.predict import Posterior
from sitewise.priors.classes import ClassPosterior
from sitewise.priors.full import FullPosterior
from sitewise.priors.sparse.sparse_prior import SparsePosterior

DRAWS = 50  # of a sampled posterior: each has kernel matrices of its own
_root = programs.jit(lambda model, data: prior_root(model, data)[1])
_ENTRIES = 2**22  # of a kernel matrix that is computed at a time


def posteriors(latent: Latent | Sampled) -> tuple[list[Posterior], np.ndarray]:
    """The Gaussian posteriors whose mixture a latent function is, and the weight of each.

    There is one for every node of integrated hyperparameters, and for each of `DRAWS` draws of a sampled function.
    """
    if isinstance(latent, IntegratedLatent):
        return [part.posterior for part in latent.parts], latent.weight
    if isinstance(latent, Latent):
        return [latent.posterior], np.ones(1)
    samples = latent.samples
    trainable, model, data, vectors, z = samples.given(samples.spaced(DRAWS))
    counts = np.asarray(data.mask, float)  # in the place of W½: f = μ + A z is known at these rows
    found = []
    for vector, white in zip(vectors, z, strict=True):
        here = to_host(trainable.from_vector(model, vector))
        A = np.asarray(_root(here, data))
        alpha = counts * lower_transposed_solve(A, np.asarray(white))
        found.append(
            Posterior(FullPosterior(here.prior, np.asarray(data.X), A, counts, alpha), here.likelihood, here.prior.mean)
        )
    return found, np.full(len(found), 1 / len(found))


@functools.singledispatch
def moments(q: Any, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances, both (S, G), of S sets of G sums of a posterior of `sitewise.priors`.

    `X` is (G, R, columns): the R rows of each sum.  `weight` is (S, C, G, R), with C latent functions.
    """
    raise TypeError(f"{type(q).__name__} has no sums.")


@moments.register
def _full(q: FullPosterior, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weight, kernel = weight[:, 0], q.prior.kernel
    cross = _cross(kernel, X, weight, q.X)
    V = lower_solve(q.L, q.root[:, None] * cross.reshape(-1, len(q.X)).T)
    squares = np.sum(V * V if q.sign is None else q.sign[:, None] * V * V, axis=0).reshape(cross.shape[:2])
    return _of_mean(q.prior.mean, X, weight) + cross @ q.alpha, _at_least_0(_prior(kernel, X, weight) - squares)


@moments.register
def _sparse(q: SparsePosterior, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weight, kernel = weight[:, 0], q.whitened.kernel
    phi = _cross(kernel, X, weight, np.asarray(q.whitened.Z)) @ q.whitened.T
    rest = _at_least_0(_prior(kernel, X, weight) - np.sum(phi**2, axis=-1))
    return _of_mean(q.mean, X, weight) + phi @ q.inner.coef, rest + np.sum((phi @ q.inner.H.T) ** 2, axis=-1)


@moments.register
def _classes(q: ClassPosterior, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kernels, classes = q.prior.kernels, weight.shape[1]
    if isinstance(kernels, list):
        parts = [(_cross(k, X, weight[:, c], q.X), _prior(k, X, weight[:, c])) for c, k in enumerate(kernels)]
        cross, prior = (np.stack(each, axis=1) for each in zip(*parts, strict=True))
    else:
        flat = weight.reshape(-1, *weight.shape[2:])
        cross, prior = (
            a.reshape(-1, classes, *a.shape[1:]) for a in (_cross(kernels, X, flat, q.X), _prior(kernels, X, flat))
        )
    V = q.H @ np.swapaxes(cross, 2, 3)  # (S, C, n, G)
    shifts = np.sum(q.T.T @ (np.swapaxes(q.H, 1, 2) @ V), axis=1)
    own = np.sum(_at_least_0(prior - np.sum(V * V, axis=2)), axis=1)
    return np.einsum("scgn,cn->sg", cross, q.alpha), own + np.sum(shifts**2, axis=1)


def _at_least_0(var: np.ndarray) -> np.ndarray:
    """Rounding can make a variance negative that is tiny compared with that of the prior."""
    return np.maximum(var, 0.0)


def _of_mean(mean: Mean, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    values = np.asarray(mean.at(X.reshape(-1, X.shape[2])))
    return np.einsum("sgr,gr->sg", weight, values.reshape(X.shape[:2]))


def _cross(kernel: Kernel, X: np.ndarray, weight: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Σ_r w_sgr κ(x_gr, other): (S, G, rows of `other`)."""
    sums, rows, columns = X.shape
    out = np.empty((len(weight), sums, len(other)))
    step = max(1, _ENTRIES // (rows * len(other)))
    for at in range(0, sums, step):
        part = slice(at, at + step)
        K = np.asarray(kernel.matrix(X[part].reshape(-1, columns), other)).reshape(-1, rows, len(other))
        out[:, part] = np.swapaxes(np.swapaxes(weight[:, part], 0, 1) @ K, 0, 1)
    return out


def _prior(kernel: Kernel, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Σ_rt w_sgr w_sgt κ(x_gr, x_gt): (S, G)."""
    each = [np.sum((weight[:, g] @ np.asarray(kernel.matrix(rows))) * weight[:, g], axis=1) for g, rows in enumerate(X)]
    return np.stack(each, axis=1)
