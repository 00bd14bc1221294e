"""Conformance test of an evidence: a sum over rows with correct derivatives, which learners can maximise."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from sitewise import kernels
from sitewise.data import Data
from sitewise.evidence import Evidence
from sitewise.inference import VI
from sitewise.likelihoods import BernoulliProbit, Gaussian
from sitewise.model import Model
from sitewise.priors import Marginals
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.testing.common import close, problem, report, slopes_by_differences, worst

_NOISE_SD = 0.4


class _Case:
    """The evidence on a small problem with VI's sites."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.data = evidence, problem("classes")
        self.model = Model.full(kernels.Matern52(0.9, 1.3), BernoulliProbit())
        self.sites = VI().solve(self.model, self.data).sites
        self.q = self.model.prior.gram(self.data.X).condition(self.sites)
        self.rows = jax.jit(lambda data, q, sites: evidence.rows(self.model.likelihood, data, q, sites))


def check_evidence(evidence: Evidence, *, exact: bool | None = None) -> None:
    """Check an evidence of your own on a small problem of two classes with VI's sites, and on one with Gaussian noise.

    Parameters
    ----------
    evidence : Evidence
        The evidence.
    exact : bool, default=None
        Whether it must equal log p(y) for Gaussian noise; None means True for evidences with log Z_q.
    """
    with working_precision():
        case = _Case(evidence)
        report(evidence.name, (check(case) for check in (_terms, _elementwise, _weights, _derivatives)))
        if evidence.with_log_z if exact is None else exact:
            report(evidence.name, [_gaussian(evidence)])


def _terms(case: _Case) -> Iterator[str]:
    values = np.asarray(case.rows(case.data, case.q, case.sites))
    if values.shape != (case.data.rows,) or not np.all(np.isfinite(values)):
        yield f"terms must give one finite number per row; they have the shape {values.shape}."


def _elementwise(case: _Case) -> Iterator[str]:
    y = np.array(case.data.y)
    y[-1] = -y[-1]
    other = Data(case.data.X, y, case.data.weight)
    before, after = (case.rows(d, case.q, case.sites) for d in (case.data, other))
    if not close(before[:-1], after[:-1], 1e-12, 1e-12):
        yield "the term of a row changes with the observation of another row; terms must be elementwise."


def _weights(case: _Case) -> Iterator[str]:
    """Padding has no influence, and a row of weight 2 is equivalent to two copies of the row."""
    X, y = np.asarray(case.data.X), np.asarray(case.data.y)
    nat1, prec = (np.asarray(a) for a in case.sites)
    read, traced = case.evidence, jax.jit(case.evidence.__call__)
    padded = Sites(*(np.concatenate([a, np.full(2, 0.3)]) for a in case.sites))
    found = traced(case.model, case.data.pad(len(y) + 2), padded), traced(case.model, case.data, case.sites)
    if not close(*found, 1e-9, 1e-9) or not close(*found[1:], read(case.model, case.data, case.sites), 1e-9, 1e-9):
        yield "rows of weight 0 change the evidence."
    weight = np.ones(len(y))
    weight[0] = 2.0
    twice = Data.of(np.concatenate([X, X[:1]]), np.concatenate([y, y[:1]]))
    copies = Sites(np.append(nat1, nat1[0]), np.append(prec, prec[0]))
    found = read(case.model, Data.of(X, y, weight), case.sites), read(case.model, twice, copies)
    if not close(*found, 1e-8, 1e-9):
        yield f"a row of weight 2 is not equivalent to two copies of the row, {worst(*found)}."


def _derivatives(case: _Case) -> Iterator[str]:
    """Derivatives in the marginals and the sites, by JAX, compared with finite differences."""
    lik, data, q, sites = case.model.likelihood, case.data, case.q, case.sites

    def read(mean: jax.Array, var: jax.Array, nat1: jax.Array, prec: jax.Array) -> jax.Array:
        moved: Marginals = q._replace(mean=mean, var=var)
        return case.evidence.read(lik, data, moved, Sites(nat1, prec))

    start = [np.asarray(a) for a in (q.mean, q.var, *sites)]
    exact = jax.jit(jax.grad(read, argnums=(0, 1, 2, 3)))(*start)
    quick = jax.jit(read)
    for k, name in enumerate(("mean", "var", "nat1", "prec")):

        def along(x: np.ndarray, k: int = k) -> jax.Array:
            return quick(*start[:k], x, *start[k + 1 :])

        differences = slopes_by_differences(along, start[k])
        if not close(exact[k], differences, 1e-4, 1e-6):
            yield f"the derivative in {name} differs from finite differences, {worst(exact[k], differences)}."


def _gaussian(evidence: Evidence) -> Iterator[str]:
    """The evidence equals log p(y) for Gaussian noise."""
    data, prior = problem("values"), kernels.Matern52(0.9, 1.3)
    model = Model.full(prior, Gaussian(_NOISE_SD))
    found = float(evidence(model, data, VI().solve(model, data).sites))
    y = np.asarray(data.y)
    C = np.asarray(prior.matrix(data.X)) + _NOISE_SD**2 * np.eye(len(y))
    want = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2 * np.pi * C)[1])
    if not close(found, want, 1e-8, 1e-8):
        yield f"with Gaussian noise it is {found:.8g}, but log p(y) is {want:.8g}."
