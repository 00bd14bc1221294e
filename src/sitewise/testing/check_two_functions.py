"""Conformance test of a likelihood with two latent functions at given observations.

    from sitewise.testing import check_two_functions
    check_two_functions(VaryingParameter(MyLikelihood(), "scale"), y=[0.0, 1.0, 5.0])

Expectations are compared with a product trapezoidal rule of `log_prob` over both functions, which uses none of the
likelihood's closed forms, and derivatives are compared with finite differences.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from sitewise.likelihoods import TwoFunctions
from sitewise.numerics.dense.directions import along, variances_of_blocks
from sitewise.process.precision import working_precision
from sitewise.testing.common import close, report, slopes_by_differences, worst

_REACH, _POINTS = 8.0, (161, 81)  # of the trapezoidal rule in standard deviations, and its points per function
_MAX_ERROR = 1e-5  # of an expectation, relative to the larger of 1 and its absolute value
_CDF_GAUSSIAN = 2  # the Gaussian at which `expected_cdf` is compared: incomplete gamma functions take long
_DRAWS = 10_000
# Per Gaussian: mean and sd of f in widths of the landmark, mean and sd of g from its start, correlation.
_GAUSSIANS = (
    (0.4, 0.3, 0.1, 1e-4, 0.0), (-0.7, 1.0, 0.3, 0.3, 0.0), (0.4, 0.3, 0.0, 0.7, 0.6), (1.2, 1.0, 0.2, 0.5, -0.8),
)  # fmt: skip


def check_two_functions(likelihood: TwoFunctions, y: Any, *, bad_y: Any = ()) -> None:
    """Check a likelihood with two latent functions at given observations.

    Parameters
    ----------
    likelihood : TwoFunctions
        The likelihood.
    y : array of shape (n_rows,) or (n_rows, n_values)
        Observations: numbers, or rows of a table if the likelihood has several columns.
    bad_y : array, default=()
        Observations that `check` must refuse.
    """
    if not isinstance(likelihood, TwoFunctions):
        raise ValueError("check_two_functions is for likelihoods of two latent functions; use check_likelihood.")
    with working_precision():
        at = _Case(likelihood, jnp.asarray(y, jnp.float64))
        checks: tuple[Callable[[_Case], Iterator[str]], ...] = (
            _accepts, _elementwise, _derivatives, _expectations, _slopes, _distribution, _draws,
        )  # fmt: skip
        report(type(likelihood).__name__, (*(check(at) for check in checks), _refuses(at, bad_y)))


class _Case:
    """A likelihood with its observations, and Gaussians around the landmark of each observation."""

    def __init__(self, likelihood: TwoFunctions, y: jax.Array) -> None:
        self.likelihood, self.y = likelihood, y
        self.log_prob = jax.jit(likelihood.log_prob)
        self.landmark = tuple(np.asarray(a) for a in jax.jit(likelihood.landmark)(y))

    def gaussian(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return means (n, 2) and covariances (n, 2, 2)."""
        shift, spread, second, sd, correlation = _GAUSSIANS[number]
        centre, width = self.landmark
        mean = np.stack([centre[0] + shift * width[0], centre[1] + second + 0 * centre[0]], axis=1)
        sds = np.stack([spread * width[0], sd + 0 * centre[0]], axis=1)
        block = np.array([[1.0, correlation], [correlation, 1.0]])
        return mean, block * sds[:, :, None] * sds[:, None, :]

    def grid(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes (2, nodes, n) and log weights (nodes, 1) of a product trapezoidal rule for the Gaussian."""
        mean, cov = self.gaussian(number)
        first, second = (np.linspace(-_REACH, _REACH, count) for count in _POINTS)
        z = np.stack([a.ravel() for a in np.meshgrid(first, second, indexing="ij")])
        root = np.linalg.cholesky(cov)
        f = mean.T[:, None] + np.einsum("nab,bk->akn", root, z)
        logs = -0.5 * np.sum(z**2, axis=0)
        return f, (logs - logsumexp(logs))[:, None]

    def show(self, i: int) -> str:
        return f"y = {np.asarray(self.y[i]).tolist()}"


def _accepts(at: _Case) -> Iterator[str]:
    if len(at.likelihood.functions) != 2:
        yield f"functions must name both latent functions, got {at.likelihood.functions!r}."
    try:
        at.likelihood.check(np.asarray(at.y))
    except ValueError as problem:
        yield f"check(y) refuses the given y ({problem})"
    centre, width = at.landmark
    if centre.shape != (2, len(at.y)) or width.shape != centre.shape or not np.all((width > 0) & np.isfinite(centre)):
        yield "landmark(y) must give finite centres and positive widths of shape (2, rows)."


def _elementwise(at: _Case) -> Iterator[str]:
    f = jnp.asarray(at.gaussian(1)[0].T)
    values = np.asarray(at.log_prob(at.y, f))
    if values.shape != f.shape[1:] or not np.all(np.isfinite(values)):
        yield f"log_prob(y, f) must give one finite number per row for f of shape (2, rows), got {values.tolist()}."
        return
    alone = np.array([at.log_prob(at.y[i : i + 1], f[:, i : i + 1])[0] for i in range(len(values))])
    more = np.asarray(at.log_prob(at.y, jnp.stack([f, f], axis=1)))
    if not close(alone, values, 1e-12, 1e-12) or not close(more, np.stack([values, values]), 1e-12, 1e-12):
        yield "log_prob is not elementwise, or does not broadcast y against an f with another axis before the rows."


def _derivatives(at: _Case) -> Iterator[str]:
    f = jnp.asarray(at.gaussian(1)[0].T)
    slope, hessian = jax.jit(at.likelihood.derivatives)(at.y, f)
    for i in range(len(at.y)):
        value, own = _of_row(at, i)
        point = np.asarray(f[:, i])
        want = slopes_by_differences(value, point)
        if not close(slope[:, i], want, 1e-5, 1e-5):
            yield f"the gradient of log_prob is {np.asarray(slope[:, i])} for {at.show(i)}, differences give {want}."
        bends = np.stack([slopes_by_differences(functools.partial(own, a), point) for a in range(2)])
        if not close(hessian[i], bends, 1e-5, 1e-5):
            yield f"the Hessian of log_prob is off from differences for {at.show(i)}, {worst(hessian[i], bends)}."


def _of_row(at: _Case, i: int) -> tuple[Callable[[np.ndarray], Any], Callable[[int, np.ndarray], Any]]:
    """Return log_prob of one row as a function of (f_1, f_2), and the entries of its gradient."""
    row = at.y[i : i + 1]
    gradient = jax.jit(lambda x: at.likelihood.derivatives(row, x[:, None])[0][:, 0])
    return lambda x: at.log_prob(row, jnp.asarray(x)[:, None])[0], lambda a, x: gradient(jnp.asarray(x))[a]


def _along(mean: Any, cov: Any) -> tuple[jax.Array, jax.Array]:
    """Return means and variances along f_1, f_2 and f_1 + f_2."""
    return along(jnp.asarray(mean).T), variances_of_blocks(jnp.asarray(cov))


def _expectations(at: _Case) -> Iterator[str]:
    lik = at.likelihood
    expected, tilted = jax.jit(lik.expected_log_prob), jax.jit(lik.log_expected_prob)
    half = jax.jit(lambda y, m, v: lik.log_expected_prob(y, m, v, 0.5))
    moments = jax.jit(lik.tilted_moments)
    cdf = jax.jit(lik.expected_cdf)
    for number in range(len(_GAUSSIANS)):
        mean, cov = at.gaussian(number)
        f, logs = at.grid(number)
        values = np.asarray(at.log_prob(at.y, jnp.asarray(f)))
        found = {
            "expected_log_prob": (expected(at.y, *_along(mean, cov)), np.sum(np.exp(logs) * values, axis=0)),
            "log_expected_prob": (tilted(at.y, jnp.asarray(mean), jnp.asarray(cov)), logsumexp(logs + values, axis=0)),
            "log_expected_prob with power 0.5": (
                half(at.y, jnp.asarray(mean), jnp.asarray(cov)), logsumexp(logs + 0.5 * values, axis=0)),
        }  # fmt: skip
        if number == _CDF_GAUSSIAN:
            try:
                shares = np.asarray(jax.jit(lik.cdf)(at.y, jnp.asarray(f)))
                got = cdf(at.y, jnp.asarray(mean), jnp.asarray(cov))
                found["expected_cdf"] = got, np.sum(np.exp(logs) * shares, axis=0)
            except NotImplementedError:
                pass
        yield from _moments(at, f, logs + values, mean, cov, moments(at.y, jnp.asarray(mean), jnp.asarray(cov)))
        for name, (got, want) in found.items():
            error = np.abs(np.asarray(got) - want) / np.maximum(1.0, np.abs(want))
            for i in np.flatnonzero(~(error <= _MAX_ERROR))[:1]:
                yield (
                    f"{name} is {float(got[i]):.10g} for {at.show(i)} under N({mean[i].tolist()}, {cov[i].tolist()}), "
                    f"but brute force gives {want[i]:.10g}."
                )


def _moments(
    at: _Case, f: np.ndarray, logs: np.ndarray, mean: np.ndarray, cov: np.ndarray, found: tuple[Any, Any]
) -> Iterator[str]:
    """Compare tilted moments with sums over nodes f of these log weights, in standard deviations of the Gaussian."""
    share = np.exp(logs - logsumexp(logs, axis=0))
    want = np.sum(share * f, axis=1)
    about = f - want[:, None]
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    shift = (np.asarray(found[0]) - (want.T - mean)) / sd
    block = (np.asarray(found[1]) - np.einsum("kn,akn,bkn->nab", share, about, about)) / sd[:, :, None] / sd[:, None]
    for name, error in (("mean", shift), ("covariance", block)):
        size = np.max(np.abs(error).reshape(len(error), -1), axis=1)
        for i in np.flatnonzero(~(size <= _MAX_ERROR))[:1]:
            yield (
                f"the {name} of tilted_moments is off for {at.show(i)} under N({mean[i].tolist()}, {cov[i].tolist()}), "
                f"by {size[i]:.1e} standard deviations."
            )


def _slopes(at: _Case) -> Iterator[str]:
    """Derivatives in the moments equal finite differences, and are finite in the parameters, as learning requires."""
    lik = at.likelihood

    def total(likelihood: TwoFunctions, mean: jax.Array, cov: jax.Array) -> jax.Array:
        over = likelihood.expected_log_prob(at.y, *_along(mean, cov))
        return jnp.sum(over + likelihood.log_expected_prob(at.y, mean, cov))

    mean, cov = (jnp.asarray(a) for a in at.gaussian(2))
    by_parameters, by_mean, by_cov = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(lik, mean, cov)
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(by_parameters)):
        yield "the derivatives of the expectations in the likelihood's parameters are not finite."
    value = jax.jit(total)
    for name, got, want in (
        ("means", by_mean, slopes_by_differences(lambda x: value(lik, jnp.asarray(x), cov), np.asarray(mean))),
        (
            "covariances",
            by_cov,
            slopes_by_differences(lambda x: value(lik, mean, jnp.asarray(x)), np.asarray(cov), 1e-6),
        ),
    ):
        scale = 1 + np.max(np.abs(want))
        if not close(np.asarray(got) / scale, want / scale, 0.0, 1e-4):
            yield f"derivatives of the expectations in the {name} are off from differences, {worst(got, want)}."


def _distribution(at: _Case) -> Iterator[str]:
    """P(Y ≤ y | f) rises with y."""
    f = jnp.asarray(at.gaussian(1)[0].T)
    value = at.y[..., 0] if at.y.ndim > 1 else at.y
    try:
        low, high = (np.asarray(at.likelihood.cdf(at.likelihood.row(value + step), f)) for step in (0.0, 1.0))
    except NotImplementedError:
        return
    if not np.all((low >= -1e-12) & (high <= 1 + 1e-12) & (low <= high + 1e-12)):
        yield "cdf(y, f) must rise with y from 0 to 1."


def _draws(at: _Case) -> Iterator[str]:
    """E_{y ~ p(·|f)}[p(y|f')/p(y|f)] = 1 for f' that differs from f in either function; draws have the moments."""
    lik, (centre, width) = at.likelihood, at.landmark
    f = jnp.asarray(np.repeat(centre[:, -1:], _DRAWS, axis=1))
    try:
        y = lik.sample(jax.random.key(0), f)
        rows = lik.row(y)
    except NotImplementedError:
        return
    for number, name in enumerate(lik.functions):
        near = f.at[number].add(0.2 * width[number, -1])
        ratio = np.exp(np.asarray(at.log_prob(rows, near) - at.log_prob(rows, f)))
        if not abs(np.mean(ratio) - 1) <= 5 * np.std(ratio) / np.sqrt(_DRAWS) + 1e-9:
            yield f"sample does not draw from log_prob: p(y|f')/p(y|f) has the mean {np.mean(ratio):.4f} in {name}."
    drawn, moments = np.asarray(y), (lik.response_mean(f[:, :1]), lik.response_var(f[:, :1]))
    mean, var = (float(a[0]) for a in moments)
    if np.isfinite(mean) and not abs(np.mean(drawn) - mean) <= 5 * np.std(drawn) / np.sqrt(_DRAWS) + 1e-9:
        yield f"response_mean is {mean:.6g}, but draws have the mean {np.mean(drawn):.6g}."
    squares = (drawn - mean) ** 2
    if np.isfinite(var) and not abs(np.mean(squares) - var) <= 8 * np.std(squares) / np.sqrt(_DRAWS) + 1e-9:
        yield f"response_var is {var:.6g}, but draws have the variance {np.mean(squares):.6g}."


def _refuses(at: _Case, bad_y: Any) -> Iterator[str]:
    for bad in bad_y:
        try:
            at.likelihood.check(np.asarray([bad], float))
        except ValueError:
            continue
        yield f"check(y) accepts y = {bad}, which is outside the support; raise a ValueError that says so."
