"""The parts of a fitted function: each term of the kernel at new rows, and the share of the variation that it makes.

Shares (Sobol'): with the columns drawn independently of each other, each as it is distributed over the rows, the share
of term p is V_p/Σ_q V_q, V_p the variance of f_p over such rows.  Where the effects of the kernel are orthogonal
(`kernels.Additive`) ΣV is the variance of f.  The share is the mean, and its error the deviation, over joint draws of
all terms from their posterior.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from sitewise.explain.effects import background, names_of, outputs_of
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.importance import tables_of
from sitewise.kernels import terms
from sitewise.numerics.dense.cholesky import semidefinite_root
from sitewise.predict import MEAN, Posterior, Process
from sitewise.process.precision import working_precision

_JOINT = 2048  # values of terms that are drawn together
_MOST, _LEAST = 256, 16  # rows of each
_DRAWS = 400
_MANY = 10**6
_BLOCK = 2048  # new rows at a time


@dataclasses.dataclass(frozen=True)
class Terms:
    """The terms of f at some rows, on the scale of the latent function and in the units of `predict_latent`.

    names      the mean, which is the same as the level of y and not uncertain, then the terms of the kernel
    mean, sd   one row per row, one column per term; with several classes a third axis
    outputs    what each entry of that axis is about

    The means of a row add up to that of `predict_latent`; the deviations do not, because the terms are correlated.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Shares:
    """Shares of the variation of f by term, which add up to 1, with standard errors; the largest is `order[0]`."""

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


def predict_terms(model: Fitted, X: Any) -> Terms:
    """Every part of the latent functions at new rows; `GPBase.predict_terms` describes it."""
    X, names = model._new_rows(X), names_of(model)
    _require_one_kernel(model)
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


def _require_one_kernel(model: Fitted) -> None:
    if model._averages_kernels():
        raise ValueError("Kernels that are averaged have no terms in common; use kernel='additive', or one kernel.")


def _moments(part: Process, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each latent function."""
    blocks = [part.f(X[at : at + _BLOCK]) for at in range(0, len(X), _BLOCK)]
    mean, var = (np.concatenate([np.asarray(b[i]) for b in blocks]) for i in (0, 1))
    return mean, var if var.ndim == mean.ndim else np.diagonal(var, axis1=-2, axis2=-1)


def predict_utility(model: Fitted, items: Any, return_cov: bool) -> tuple[np.ndarray, np.ndarray]:
    """Utilities of items less their average; `GPBase.predict_utility` describes it."""
    names_of(model)  # raises unless it is fitted
    if len(model._latents) > 1 or model._latents[0].model.likelihood.latents > 1:
        raise ValueError("Utilities belong to duels that are won, lost or tied; this model has several functions.")
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


def term_shares(model: Fitted, X: Any = None, names: Sequence[str] | None = None) -> Shares:
    """The share of every term that changes from row to row; `GPBase.term_shares` describes it.

    `names` are those of the columns, where the estimator was given an array.
    """
    names = names_of(model) if names is None else names
    _require_one_kernel(model)
    over = background(model, X, _MANY)
    total = None
    for latent in model._latents:
        qs, weight = latent.posteriors()
        chosen = [(i, term.name) for i, term in enumerate(terms(qs[0].latent.kernel, names)) if term.columns != ()]
        classes = latent.model.likelihood.latents
        power = int(np.log2(max(_LEAST, min(_MOST, _JOINT // (len(chosen) * classes)))))
        with working_precision():
            rows = tables_of(over, [np.array([j]) for j in range(over.X.shape[1])], power, [])[0]
            drawn = _variances(qs, weight, rows, [(i,) for i, _ in chosen])
        total = drawn if total is None else total + drawn  # the functions of several classes count together
    assert total is not None
    each = total / np.maximum(np.sum(total, axis=1, keepdims=True), np.finfo(float).tiny)
    return Shares(tuple(name for _, name in chosen), each.mean(axis=0), each.std(axis=0))


def _variances(qs: list[Posterior], weight: np.ndarray, rows: np.ndarray, parts: list[tuple[int, ...]]) -> np.ndarray:
    """Variances over the rows of all terms in joint draws: (draws, terms)."""
    rng, found = np.random.default_rng(0), []
    ends = np.round(_DRAWS * np.cumsum(weight)).astype(int)
    for q, count in zip(qs, np.diff(ends, prepend=0), strict=True):
        if count:
            mean, cov = (np.asarray(a) for a in q.latent.parts_joint(rows, parts))
            noise = rng.standard_normal((count, mean.size)) @ semidefinite_root(cov.reshape(mean.size, -1)).T
            f = (mean.ravel() + noise).reshape(count, len(parts), -1, len(rows))
            found.append(np.sum(np.var(f, axis=-1), axis=-1))
    return np.concatenate(found)
