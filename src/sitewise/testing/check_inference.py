"""Conformance test of an inference method: a site update that can be solved and differentiated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence, kernels
from sitewise.data import Data
from sitewise.inference import Inference, Point
from sitewise.inference.loop import evaluate
from sitewise.inference.start import first_sites
from sitewise.learning.objective import Evaluation, Objective, profile
from sitewise.likelihoods import BernoulliProbit, Gaussian, Likelihood
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.testing.common import close, problem, report, slopes_by_differences, worst

_NOISE_SD = 0.4
_ROWS = 16  # of the padded data; one shape, to compile one program


class _Case:
    """A small model, its data with padding after the first `rows` rows, and the solution of the method."""

    def __init__(self, method: Inference, likelihood: Likelihood, data: Data) -> None:
        self.method, self.data, self.rows = method, data.pad(_ROWS), data.rows
        self.model = Model.full(kernels.Matern52(0.9, 1.3), likelihood)
        self.solution = method.solve(self.model, self.data)
        self.q = self.point(self.solution.sites).q
        self.propose = jax.jit(lambda data, q, sites: method.propose(likelihood, data, q, sites))

    def point(self, sites: Sites) -> Point:
        return _evaluate(self.method, self.model, self.data, sites)


def _evaluate(method: Inference, model: Model, data: Data, sites: Sites) -> Point:
    gram = model.prior.gram(data.X)
    point = evaluate(method, model.likelihood, gram, data, sites)
    return point._replace(q=gram.condition(sites.scaled(data.weight)))


def check_inference(
    method: Inference, likelihood: Likelihood | None = None, data: Data | None = None, *, exact: bool = True
) -> None:
    """Check an inference method of your own on a small problem.

    Parameters
    ----------
    method : Inference
        The method.
    likelihood : Likelihood, default=None
        The likelihood of the problem; None is two classes with the probit likelihood.
    data : Data, default=None
        The problem, of which the first twelve rows are used; None for two classes.
    exact : bool, default=True
        Whether the sites for Gaussian noise must equal the factors of the likelihood, as for any method that is
        exact for Gaussian noise.
    """
    with working_precision():
        first = jax.tree.map(lambda a: a[: _ROWS - 4], data or problem("classes"))
        case = _Case(method, likelihood or BernoulliProbit(), first)
        checks = (
            _converges, _declared_inputs, _elementwise, _padding, _fixed_point, _merit, _additive, _copies, _gradient,
        )  # fmt: skip
        report(type(method).__name__, (check(case) for check in checks))
        if exact:
            report(type(method).__name__, [_gaussian(method)])


def _differences(case: _Case, one: Sites, other: Sites, rtol: float = 1e-12) -> Iterator[tuple[str, str]]:
    """Yield the fields in which the sites differ in rows other than padding, and the size of the difference."""
    for name, a, b in zip(Sites._fields, one, other, strict=True):
        if not close(a[: case.rows], b[: case.rows], rtol, rtol):
            yield name, worst(a[: case.rows], b[: case.rows])


def _converges(case: _Case) -> Iterator[str]:
    if not case.solution.outcome.ok:
        yield f"solve ends {case.solution.outcome.name.lower()} on a small problem: {case.solution.outcome.advice}"
    elif any(np.shape(a) != (_ROWS,) or not np.all(np.isfinite(a)) for a in case.solution.sites):
        yield "propose must give one finite nat1 and prec per row."


def _fixed_point(case: _Case) -> Iterator[str]:
    target = case.propose(case.data, case.q, case.solution.sites)
    for name, gap in _differences(case, target, case.solution.sites, 1e-6):
        yield f"at the solution, propose gives a different {name}, {gap}."


def _elementwise(case: _Case) -> Iterator[str]:
    """Given the marginals, the proposed site of a row depends on this row alone."""
    y = np.array(case.data.y)
    y[0] = -y[0]
    other = dataclasses.replace(case.data, y=y)
    before, after = (case.propose(data, case.q, case.solution.sites) for data in (case.data, other))
    if any(not close(a[1 : case.rows], b[1 : case.rows], 1e-12, 1e-12) for a, b in zip(before, after, strict=True)):
        yield "propose changes the site of a row with the observation of another row; it must be elementwise."


def _declared_inputs(case: _Case) -> Iterator[str]:
    """`mean_only` and `uses_sites` declare correctly on which inputs `propose` depends."""
    sites = case.solution.sites
    here = case.propose(case.data, case.q, sites)
    if case.method.mean_only:
        wider = case.q._replace(var=1.5 * case.q.var)
        if any(_differences(case, here, case.propose(case.data, wider, sites))):
            yield "mean_only is True, but propose changes with the variances."
    if not case.method.uses_sites:
        other = Sites(sites.nat1 + 0.1, 1.1 * sites.prec)
        if any(_differences(case, here, case.propose(case.data, case.q, other))):
            yield "uses_sites is False, but propose changes with the present sites."


def _merit(case: _Case) -> Iterator[str]:
    if not case.method.has_merit:
        return
    best = float(case.point(case.solution.sites).merit)
    rng = np.random.default_rng(6)
    for _ in range(4):
        shift, scale = 0.2 * rng.normal(size=_ROWS), np.exp(0.2 * rng.normal(size=_ROWS))
        moved = Sites(case.solution.sites.nat1 + shift, case.solution.sites.prec * scale).masked(case.data.mask)
        value = float(case.point(moved).merit)
        if not value <= best + 1e-8 * (1 + abs(best)):
            yield f"merit is {value:.8g} at other sites and {best:.8g} at the solution, which does not maximise it."
            return


def _additive(case: _Case) -> Iterator[str]:
    """The merit is a sum over rows that may be computed in pieces; log_z is part of one piece."""
    if not case.method.has_merit:
        return
    likelihood, method, half = case.model.likelihood, case.method, _ROWS // 2

    merit = jax.jit(lambda data, q, sites: method.merit(likelihood, data, q, sites))

    def cut(at: slice, log_z: Any) -> jax.Array:
        data = jax.tree.map(lambda a: a[at], case.data)
        q = type(case.q).of_rows(tuple(row[at] for row in case.q.rows()), log_z)
        return merit(data, q, Sites(*(a[at] for a in case.solution.sites)))

    whole, first, second = (
        float(cut(at, log_z))
        for at, log_z in (
            (slice(None), case.q.log_z), (slice(half), case.q.log_z), (slice(half, None), jnp.zeros(())),
        )
    )  # fmt: skip
    if not close(first + second, whole, 1e-9, 1e-9):
        yield f"merit is {whole:.10g}, but the merits of two halves of the rows sum to {first + second:.10g}."


def _padding(case: _Case) -> Iterator[str]:
    cut, q, sites = jax.tree.map(
        lambda a: a[: case.rows] if np.ndim(a) else a, (case.data, case.q, case.solution.sites)
    )
    whole = case.propose(case.data, case.q, case.solution.sites)
    for name, gap in _differences(case, whole, case.propose(cut, q, sites), 1e-9):
        yield f"rows of weight 0 change the {name} that propose gives for other rows, {gap}."
    for name, gap in _differences(case, case.solution.sites, case.method.solve(case.model, cut).sites, 1e-6):
        yield f"rows of weight 0 change the {name} of other rows, {gap}."


def _copies(case: _Case) -> Iterator[str]:
    """A row of weight 2 is equivalent to two copies of the row."""
    n = case.rows
    X, y = np.asarray(case.data.X)[:n], np.asarray(case.data.y)[:n]
    weight = np.ones(n)
    weight[0] = 2.0
    twice = Data.of(np.concatenate([X, X[:1]]), np.concatenate([y, y[:1]]))
    weighted, copied = (case.method.solve(case.model, d.pad(_ROWS)).sites for d in (Data.of(X, y, weight), twice))
    for name, gap in _differences(case, weighted, copied, 1e-5):
        yield f"a row of weight 2 has a different {name} from each of two copies of the row, {gap}."


def _gradient(case: _Case) -> Iterator[str]:
    """The implicit gradient of θ ↦ evidence(θ, sites(θ)), which uses every derivative of propose."""
    method = dataclasses.replace(case.method, tol=1e-10)
    trainable = Trainable.of(case.model)
    # This evidence is not stationary in the sites of any method: every derivative of propose contributes.
    objective = Objective(method, evidence.loo, "implicit", trainable)
    start, vector = first_sites(case.model.likelihood, case.data), np.asarray(trainable.to_vector(case.model))

    def at(vector: np.ndarray) -> Evaluation:
        return profile(objective, case.model, case.data, vector, start)

    exact = np.asarray(at(vector).gradient)
    differences = slopes_by_differences(lambda v: at(v).value, vector)
    if not close(exact, differences, 1e-4, 1e-5):
        yield (
            f"the implicit gradient is {exact}, but finite differences give {differences}: a derivative of propose is "
            "wrong, or propose is not elementwise."
        )


def _gaussian(method: Inference) -> Iterator[str]:
    """The sites for Gaussian noise equal the factors of the likelihood."""
    data = problem("values", rows=_ROWS)
    sites = method.solve(Model.full(kernels.Matern52(0.9, 1.3), Gaussian(_NOISE_SD)), data).sites
    prec = np.full(data.rows, 1 / _NOISE_SD**2)
    for name, found, want in (("prec", sites.prec, prec), ("nat1", sites.nat1, prec * np.asarray(data.y))):
        if not close(found, want, 1e-6, 1e-7):
            yield f"for Gaussian noise sites must equal the factors of the likelihood: {name} is {worst(found, want)}."
