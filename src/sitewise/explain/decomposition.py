"""Decomposition of a fitted function into the terms of its kernel, and Sobol' shares of the variance per term.

Shares: with the columns drawn independently of each other, each from its distribution over the rows, the share of term
p is V_p/Σ_q V_q, where V_p is the variance of f_p over the drawn rows.  If the effects of the kernel are orthogonal
(`kernels.Additive`), ΣV is the variance of f.  Share and standard error are mean and standard deviation over joint
draws of all terms from their posterior.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sitewise.explain.effects import background, outputs_of, require_one_kernel, term_features
from sitewise.explain.importance import MAX_ROWS, tables_of
from sitewise.explain.table_columns import explained, parts_of
from sitewise.kernels import terms
from sitewise.numerics.dense.cholesky import semidefinite_root
from sitewise.predict import MEAN, Posterior, Process
from sitewise.process.precision import working_precision

MAX_JOINT_VALUES = 2048  # values of terms that are drawn together
MAX_TERM_ROWS, MIN_TERM_ROWS = 256, 16  # rows per term in a joint draw
DRAWS = 400
BLOCK_ROWS = 2048  # new rows predicted at a time


@dataclasses.dataclass(frozen=True)
class Terms:
    """The terms of f at some rows, on the scale of the latent function and in the units of `predict_latent`.

    The means add up to the mean of `predict_latent`.  Variances do not add up, because the terms are correlated.

    Attributes
    ----------
    names : tuple of str
        The mean, which includes the level of y and is not uncertain, then the terms of the kernel.
    mean, sd : array of shape (n_rows, n_terms)
        Means and standard deviations; with several classes a third axis.
    outputs : tuple of str
        The class per entry of the third axis.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Shares:
    """Share of the variance of f per term, adding up to 1, with standard errors; `order[0]` is the largest.

    Attributes
    ----------
    names : tuple of str
        The terms.
    share : array of shape (n_terms,)
        The shares.
    error : array of shape (n_terms,)
        Their standard errors.
    """

    names: tuple[str, ...]
    share: np.ndarray
    error: np.ndarray

    @property
    def order(self) -> np.ndarray:
        return np.argsort(-self.share, kind="stable")

    def __str__(self) -> str:
        width = max(map(len, (*self.names, "term")))
        lines = [f"{'term':{width}s}  share    ±"]
        return "\n".join(
            [*lines, *(f"{self.names[p]:{width}s}   {self.share[p]:.2f}  {self.error[p]:.2f}" for p in self.order)]
        )


def predict_terms(model: Any, X: Any) -> Terms:
    """Predict every term of the kernel at rows of the table, with its standard deviation, and the mean.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    X : as in GPRegressor.predict_terms
        Rows of the table.
    """
    view = explained(model, "predict_terms")
    model, names = view.model, term_features(view)
    X = model._new_rows(view.inputs(X))
    require_one_kernel(model)
    level, scale = model._y_units()
    found, called = [], []
    for latent in model._latents:
        qs, weight = latent.posteriors()
        with working_precision():
            each = [[q.part(i) for i in range(len(terms(q.latent.kernel)))] for q in qs]
            moments = [[_moments(part, X) for part in parts] for parts in each]
            mean = np.einsum("k,kp...->p...", weight, [[m for m, _ in one] for one in moments])
            second = np.einsum("k,kp...->p...", weight, [[v + m**2 for m, v in one] for one in moments])
            own = np.average([np.asarray(q.mean.at(X)) for q in qs], axis=0, weights=weight)
        var = np.maximum(second - mean**2, 0.0)
        called = [term.name for term in terms(qs[0].latent.kernel, names)]
        first = np.zeros((1, *mean.shape[1:])) + (level + scale * own if mean.ndim == 2 else 0.0)
        found.append((np.concatenate([first, scale * mean]), np.concatenate([0 * first, scale * np.sqrt(var)])))
    mean, sd = (np.moveaxis(np.stack(a), 0, -1) if len(found) > 1 else a[0] for a in zip(*found, strict=True))
    return Terms((MEAN, *called), np.moveaxis(mean, 0, 1), np.moveaxis(sd, 0, 1), outputs_of(model))


def _moments(part: Process, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each latent function."""
    blocks = [part.f(X[at : at + BLOCK_ROWS]) for at in range(0, len(X), BLOCK_ROWS)]
    mean, var = (np.concatenate([np.asarray(b[i]) for b in blocks]) for i in (0, 1))
    return mean, var if var.ndim == mean.ndim else np.diagonal(var, axis1=-2, axis2=-1)


def predict_utility(model: Any, items: Any, return_cov: bool) -> tuple[np.ndarray, np.ndarray]:
    """Predict utilities of items minus their average; see `GPBase.predict_utility`."""
    model, before = parts_of(model, "predict_utility")
    if before is not None:
        raise ValueError("Items have half of the columns of the Pipeline's table; give pipeline[-1] and encoded items.")
    model._column_names()  # raises unless the model is fitted
    if len(model._latents) > 1 or model._latents[0].model.likelihood.latents > 1:
        raise ValueError("Utilities need pairwise comparisons with one latent function; this model has several.")
    rows = np.asarray(items, float)
    qs, weight = model._latents[0].posteriors()
    with working_precision():
        found = [q.utility().f_joint(rows) for q in qs]
    centre = np.eye(len(rows)) - 1 / len(rows)
    means, covs = (np.stack([np.asarray(one[i]) for one in found]) for i in (0, 1))
    means, covs = means @ centre, centre @ covs @ centre
    mean = weight @ means
    cov = np.einsum("k,kij->ij", weight, covs) + (weight[:, None] * (means - mean)).T @ (means - mean)
    return mean, cov if return_cov else np.sqrt(np.maximum(np.diag(cov), 0.0))


def term_shares(model: Any, X: Any = None) -> Shares:
    """Return the share of the variance of f per term of the kernel that is not constant, with standard errors.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    X : as in GPRegressor.term_shares
        Rows of the table.
    """
    view = explained(model, "term_shares")
    model, names = view.model, term_features(view)
    require_one_kernel(model)
    over = background(model, view.inputs(X), MAX_ROWS)
    total = None
    for latent in model._latents:
        qs, weight = latent.posteriors()
        chosen = [(i, term.name) for i, term in enumerate(terms(qs[0].latent.kernel, names)) if term.columns != ()]
        classes = latent.model.likelihood.latents
        power = int(np.log2(max(MIN_TERM_ROWS, min(MAX_TERM_ROWS, MAX_JOINT_VALUES // (len(chosen) * classes)))))
        with working_precision():
            rows = tables_of(over, [np.array([j]) for j in range(over.X.shape[1])], power, [])[0]
            drawn = _variances(qs, weight, rows, [(i,) for i, _ in chosen])
        total = drawn if total is None else total + drawn  # summed over the functions of several classes
    assert total is not None
    each = total / np.maximum(np.sum(total, axis=1, keepdims=True), np.finfo(float).tiny)
    return Shares(tuple(name for _, name in chosen), each.mean(axis=0), each.std(axis=0))


def _variances(qs: list[Posterior], weight: np.ndarray, rows: np.ndarray, parts: list[tuple[int, ...]]) -> np.ndarray:
    """Return variances over the rows per joint draw and term."""
    rng, found = np.random.default_rng(0), []
    ends = np.round(DRAWS * np.cumsum(weight)).astype(int)
    for q, count in zip(qs, np.diff(ends, prepend=0), strict=True):
        if count:
            mean, cov = (np.asarray(a) for a in q.latent.parts_joint(rows, parts))
            noise = rng.standard_normal((count, mean.size)) @ semidefinite_root(cov.reshape(mean.size, -1)).T
            f = (mean.ravel() + noise).reshape(count, len(parts), -1, len(rows))
            found.append(np.sum(np.var(f, axis=-1), axis=-1))
    return np.concatenate(found)
