"""Conformance test of a likelihood at given observations.

    from sitewise.testing import check_likelihood
    check_likelihood(MyLikelihood(), y=[0.0, 1.0, 5.0])

This call runs every check below and raises one AssertionError with one message per failure.  Only `log_prob` is
required; checks of other methods are skipped if the likelihood does not define them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.likelihoods import Likelihood
from sitewise.likelihoods.base import SUPPORTS
from sitewise.likelihoods.landmarks import find_landmarks
from sitewise.process.precision import working_precision
from sitewise.testing.expectations import brute_force, brute_force_of_angles, unresolved

# Points of the f axis, in widths from the landmark; uneven numbers, such that no point is at a kink.
_F_POINTS = np.array([-3.3, -1.71, -0.63, -0.17, 0.29, 1.13, 2.21, 3.7])
_DRAWS = 10_000
# Gaussians narrower and wider than the likelihood: mean in units of the larger of width and sd, and sd in widths.
_GAUSSIANS = (
    (0.4, 0.05), (-1.3, 1.0), (2.9, 1.0), (-1.3, 10.0), (0.4, 10.0), (2.9, 10.0),
    (-5.7, 30.0), (0.4, 100.0), (-2.1, 100.0), (6.1, 100.0), (0.4, 1000.0), (-2.1, 1000.0),
)  # fmt: skip
_SUPPORT_PROBES = (-1.0, 0.0, 0.5, 1.0, 2.0)  # observations that may lie outside the support


def check_likelihood(likelihood: Likelihood, y: Any, *, bad_y: Any = ()) -> None:
    """Check a likelihood of your own at given observations.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood.
    y : array of shape (n_rows,) or (n_rows, n_values)
        Observations: numbers, or rows of a table if the likelihood has several columns.
    bad_y : array, default=()
        Observations that `check` must refuse, in addition to observations at which log_prob is not finite.
    """
    if likelihood.functions:
        raise ValueError("check_likelihood is for one latent function per row; use check_two_functions.")
    with working_precision():
        at = _Case(likelihood, jnp.asarray(y, jnp.float64))
        checks: tuple[Callable[[_Case], Iterator[str]], ...] = (
            _accepts, _landmark, _finite, _vectorised, _derivatives, _expectations, _slopes, _learnable,
            _concave, _distribution, _draws,
        )  # fmt: skip
        found: list[str] = []
        for check in checks:
            # A value that is not finite or has the wrong shape makes every later check fail: report only the first.
            if not found:
                found += check(at)
        found += _refuses(at, bad_y)
    if found:
        raise AssertionError("\n".join(f"{type(likelihood).__name__}: {message}" for message in found))


class _Case:
    """A likelihood and its observations, with values of f around the landmark of each observation."""

    def __init__(self, likelihood: Likelihood, y: jax.Array) -> None:
        self.likelihood = likelihood
        self.log_prob = jax.jit(likelihood.log_prob)  # compiled: a tenth of the time
        self.cdf = jax.jit(likelihood.cdf)
        self._landmark = jax.jit(likelihood.landmark)
        self.table = len(likelihood.columns) > 1
        self.y = y
        if y.ndim != 1 + self.table or len(y) == 0 or (self.table and y.shape[1] != len(likelihood.columns)):
            wanted = f"a table with the columns {', '.join(likelihood.columns)}" if self.table else "a list of numbers"
            raise ValueError(f"y must be {wanted}, with at least one row; got shape {y.shape}.")

    @property
    def landmark(self) -> tuple[jax.Array, jax.Array]:
        return self._landmark(self.y)

    def grid(self) -> tuple[jax.Array, jax.Array]:
        """Return (y, f) with one row per observation and one column per point of f; y is repeated."""
        centre, width = self.landmark
        f = centre[:, None] + width[:, None] * _F_POINTS
        return jnp.repeat(self.y[:, None], len(_F_POINTS), axis=1), f

    def show(self, i: int) -> str:
        return f"y = {np.asarray(self.y[i]).tolist()}"


def _close(a: Any, b: Any, rtol: float, atol: float) -> np.ndarray:
    return np.abs(np.asarray(a) - np.asarray(b)) <= atol + rtol * np.abs(np.asarray(b))


def _defined(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the value of the function, or None if the likelihood does not define the method."""
    try:
        return function(*arguments)
    except NotImplementedError:
        return None


def _accepts(at: _Case) -> Iterator[str]:
    if at.likelihood.support not in SUPPORTS:
        yield f"support must be one of {', '.join(SUPPORTS)}, got {at.likelihood.support!r}."
    try:
        at.likelihood.check(np.asarray(at.y))
    except ValueError as problem:
        yield f"check(y) refuses the given y ({problem})"


def _finite(at: _Case) -> Iterator[str]:
    y, f = at.grid()
    values = np.asarray(at.log_prob(y, f))
    if values.shape != f.shape:
        yield f"log_prob(y, f) has the shape {values.shape} where f has {f.shape}; it must be elementwise in f."
        return
    for i in np.flatnonzero(~np.all(np.isfinite(values), axis=1))[:1]:
        yield f"log_prob is not finite for {at.show(i)} near f = {float(at.landmark[0][i]):.4g}."


def _vectorised(at: _Case) -> Iterator[str]:
    y, f = at.grid()
    whole = np.asarray(at.log_prob(y, f))
    single = np.array([[at.log_prob(y[i, j], f[i, j]) for j in (0, -1)] for i in range(len(f))])
    if not np.all(_close(whole[:, [0, -1]], single, 1e-12, 1e-12)):
        yield "log_prob gives a different value for a row alone than in a table; it must be elementwise."
    turned = np.asarray(at.log_prob(at.y, f.T))
    if turned.shape != f.T.shape or not np.all(_close(turned.T, whole, 1e-12, 1e-12)):
        yield "log_prob(y, f) does not broadcast y against an f with a leading axis, which quadrature needs."


def _landmark(at: _Case) -> Iterator[str]:
    centre, width = (np.asarray(a) for a in at.landmark)
    rows = at.y.shape[:1]
    if centre.shape != rows or width.shape != rows:
        yield (
            f"landmark(y) must give one centre and one width per row, shape {rows}, got {centre.shape}, {width.shape}."
        )
    elif not (np.all(np.isfinite(centre)) and np.all(np.isfinite(width)) and np.all(width > 0)):
        yield "landmark(y) must give finite centres and positive, finite widths."


def _derivatives(at: _Case) -> Iterator[str]:
    """First and second derivative in f, by JAX, compared with finite differences."""
    y, f = at.grid()
    step = 1e-3 * jnp.broadcast_to(at.landmark[1][:, None], f.shape)

    def slope(f: jax.Array) -> jax.Array:
        return jax.jvp(lambda f: at.likelihood.log_prob(y, f), (f,), (jnp.ones_like(f),))[1]

    first, second = jax.jit(slope), jax.jit(lambda f: jax.jvp(slope, (f,), (jnp.ones_like(f),))[1])
    for name, exact, function in (
        ("first", first(f), lambda f: at.log_prob(y, f)),
        ("second", second(f), first),
    ):
        if not np.all(np.isfinite(exact)):
            yield f"the {name} derivative of log_prob in f is not finite."
            continue
        # Fourth-order central differences, whose error is far below the limit except at a kink.
        wide = (function(f + 2 * step) - function(f - 2 * step)) / (4 * step)
        near = (function(f + step) - function(f - step)) / (2 * step)
        differences = np.asarray((4 * near - wide) / 3)
        scale = np.max(np.abs(differences), axis=1, keepdims=True) + 1e-6
        wrong = np.abs(np.asarray(exact) - differences) > 1e-4 * scale
        for i, j in np.argwhere(wrong)[:1]:
            yield (
                f"the {name} derivative of log_prob in f is {float(exact[i, j]):.6g} for {at.show(i)}, "
                f"f = {float(f[i, j]):.4g}, but finite differences give {differences[i, j]:.6g}."
            )


def _expectations(at: _Case) -> Iterator[str]:
    """expected_log_prob and log_expected_prob equal brute force for Gaussians of all widths."""
    lik = at.likelihood
    readings = {
        "expected_log_prob": jax.jit(lik.expected_log_prob),
        "log_expected_prob": jax.jit(lik.log_expected_prob),
        "log_expected_prob with power 0.5": jax.jit(lambda y, m, v: lik.log_expected_prob(y, m, v, 0.5)),
    }
    shift, spread = np.array(_GAUSSIANS).T
    found = np.asarray(jax.jit(lambda y: find_landmarks(lambda f: lik.log_prob(y, f), at.landmark[0]))(at.y)[0])
    for i, (centre, width) in enumerate(zip(*(np.asarray(a) for a in at.landmark), strict=True)):
        mean, sd = centre + shift * width * np.maximum(1.0, spread), spread * width
        y = jnp.repeat(at.y[i : i + 1], len(mean), axis=0)
        centres = np.append(found[:, i], centre)
        of_f = functools.partial(at.log_prob, at.y[i])
        if lik.period is None:
            wanted = brute_force(of_f, mean, sd, centres, width)
        else:
            wanted = brute_force_of_angles(of_f, mean, sd, lik.period)
        for (name, function), want in zip(readings.items(), wanted, strict=True):
            got = np.asarray(function(y, jnp.asarray(mean), jnp.asarray(sd**2)))
            yield from unresolved(f"{name} is", at.show(i), mean, sd**2, got, want)


def _slopes(at: _Case) -> Iterator[str]:
    """Compare the derivatives on NumPy arrays, where they are defined, with derivatives by JAX."""
    centre, width = at.landmark
    mean, var = centre + 0.3 * width, width**2
    y, likelihood = np.asarray(at.y), at.likelihood
    functions = {
        "log_prob": (lambda m, v: likelihood.log_prob(at.y, m), (mean,), 4),
        "expected_log_prob": (lambda m, v: likelihood.expected_log_prob(at.y, m, v), (mean, var), 5),
        "log_expected_prob": (lambda m, v: likelihood.log_expected_prob(at.y, m, v), (mean, var), 4),
    }
    for name, (function, arguments, count) in functions.items():
        found = getattr(likelihood, f"{name}_slopes")(y, *map(np.asarray, arguments))
        if found is None:
            continue
        wanted = [function]
        for _ in range(count - 1):
            wanted.append(_by_mean(wanted[-1]))
        if name == "log_expected_prob":
            wanted += [_by_var(one) for one in wanted[1:3]]
            wanted += [functools.partial(_by_parameter, likelihood, at.y, k) for k in range(len(_numbers(likelihood)))]
        values = np.stack([np.asarray(one(mean, var)) for one in wanted])
        if np.shape(found) != values.shape or not np.all(_close(found, values, 1e-6, 1e-8)):
            yield f"{name}_slopes differs from {name} and its derivatives; the first row is the function itself."


def _by_mean(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Return the derivative of an elementwise function in its first argument."""
    return lambda m, v: jax.jvp(lambda m: function(m, v), (m,), (jnp.ones_like(m),))[1]


def _by_var(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Return the derivative of an elementwise function in its second argument."""
    return lambda m, v: jax.jvp(lambda v: function(m, v), (v,), (jnp.ones_like(v),))[1]


def _numbers(likelihood: Likelihood) -> list[jax.Array]:
    return [jnp.asarray(leaf) for leaf in jax.tree.leaves(likelihood)]


def _by_parameter(likelihood: Likelihood, y: jax.Array, k: int, mean: jax.Array, var: jax.Array) -> jax.Array:
    """Return the derivative of `log_expected_prob` in the parameter number k."""
    numbers, structure = _numbers(likelihood), jax.tree.structure(likelihood)
    along = [jnp.full_like(number, float(i == k)) for i, number in enumerate(numbers)]

    def value(given: list[jax.Array]) -> jax.Array:
        return jax.tree.unflatten(structure, given).log_expected_prob(y, mean, var)

    return jax.jvp(value, (numbers,), (along,))[1]


def _learnable(at: _Case) -> Iterator[str]:
    """The expectations have finite derivatives in the Gaussian and in the parameters, as learning requires."""
    centre, width = at.landmark

    def total(likelihood: Likelihood, mean: jax.Array, var: jax.Array) -> jax.Array:
        return jnp.sum(likelihood.expected_log_prob(at.y, mean, var) + likelihood.log_expected_prob(at.y, mean, var))

    parts = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(at.likelihood, centre + 0.3 * width, width**2)
    for name, part in zip(("the likelihood's parameters", "the mean", "the variance"), parts, strict=True):
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(part)):
            yield f"the derivatives of the expectations in {name} are not finite."


def _concave(at: _Case) -> Iterator[str]:
    if not at.likelihood.log_concave:
        return
    y, f = at.grid()
    far = jnp.concatenate([f, at.landmark[0][:, None] + 5 * (f - at.landmark[0][:, None])], axis=1)
    y = jnp.concatenate([y, y], axis=1)
    step = 0.05 * at.landmark[1][:, None]
    values = [np.asarray(at.log_prob(y, far + k * step)) for k in (-1, 0, 1)]
    bend = values[0] + values[2] - 2 * values[1]
    for i, j in np.argwhere(bend > 1e-9 * (1 + np.abs(values[1])))[:1]:
        yield f"log_concave is True, but log_prob is convex for {at.show(i)} near f = {float(far[i, j]):.4g}."


def _distribution(at: _Case) -> Iterator[str]:
    """P(Y ≤ y) jumps by p(y) if y is discrete, and rises at the rate p(y) if y is continuous."""
    lik, (centre, width) = at.likelihood, at.landmark
    value = at.y[..., 0] if at.table else at.y
    value = jnp.where(jnp.isfinite(value), value, centre)
    plain = _defined(lik.row, value)
    f = centre + 0.31 * width

    def rows(value: jax.Array) -> jax.Array:
        """y with default side information, or with the given side information if `row` is not defined."""
        return at.y.at[..., 0].set(value) if plain is None else lik.row(value)

    here = _defined(at.cdf, rows(value), f)
    if here is None:
        return
    p = np.exp(np.asarray(at.log_prob(rows(value), f)))
    step = 1e-5 * np.minimum(1.0, np.minimum(np.abs(value), np.abs(1 - value)) + 1e-3)
    below, above = (np.asarray(at.cdf(rows(value + k * step), f)) for k in (-1, 1))
    if not np.all((here >= -1e-12) & (here <= 1 + 1e-12) & (below <= above + 1e-12)):
        yield "cdf(y, f) must rise with y from 0 to 1."
        return
    jump, rate = np.asarray(here) - below, (above - below) / (2 * step)
    fits = _close(jump, p, 1e-5, 1e-7) | _close(rate, p, 1e-3, 1e-5)
    for i in np.flatnonzero(~fits)[:1]:
        yield (
            f"cdf and log_prob disagree for {at.show(i)}, f = {float(f[i]):.4g}: the probability is {p[i]:.6g}, but "
            f"the cdf jumps by {jump[i]:.6g} and rises at the rate {rate[i]:.6g}."
        )


def _draws(at: _Case) -> Iterator[str]:
    """Draws agree with the cdf, the moments and log_prob: E_{y ~ p(·|f)}[p(y|f')/p(y|f)] = 1 for every f'."""
    lik, (centre, width) = at.likelihood, at.landmark
    for i in (0, len(centre) - 1):
        f = jnp.full(_DRAWS, centre[i])
        drawn = _defined(lik.sample, jax.random.key(0), f)
        if drawn is None:
            return
        y = np.asarray(drawn)
        rows = _defined(lik.row, drawn)
        if rows is None:
            return
        near = f + 0.2 * width[i]
        ratio = np.exp(np.asarray(at.log_prob(rows, near) - at.log_prob(rows, f)))
        error = 5 * np.std(ratio) / np.sqrt(_DRAWS) + 1e-9
        if not abs(np.mean(ratio) - 1) <= error:
            share = f"E[p(y|f')/p(y|f)] is {np.mean(ratio):.4f}, not 1"
            yield f"sample does not draw from log_prob at f = {float(f[0]):.4g}: {share}."
        shares = _defined(at.cdf, rows[:400], f[:400])
        if shares is not None:
            below = np.mean(y[:, None] <= y[:400], axis=0)
            if not np.max(np.abs(below - np.asarray(shares))) <= 2.5 / np.sqrt(_DRAWS):
                yield f"sample does not draw from cdf at f = {float(f[0]):.4g}."
        mean, var = _defined(lik.response_mean, f[:1]), _defined(lik.response_var, f[:1])
        if mean is not None and np.isfinite(mean[0]):
            error = 5 * np.std(y) / np.sqrt(_DRAWS) + 1e-9
            if not abs(np.mean(y) - float(mean[0])) <= error:
                seen = f"at f = {float(f[0]):.4g}, but draws have the mean {np.mean(y):.6g}"
                yield f"response_mean is {float(mean[0]):.6g} {seen}."
            if var is not None and np.isfinite(var[0]):
                squares = (y - float(mean[0])) ** 2
                error = 6 * np.std(squares) / np.sqrt(_DRAWS) + 1e-9
                if not abs(np.mean(squares) - float(var[0])) <= error:
                    yield (
                        f"response_var is {float(var[0]):.6g} at f = {float(f[0]):.4g}, but draws have the variance "
                        f"{np.mean(squares):.6g}."
                    )


def _refuses(at: _Case, bad_y: Any) -> Iterator[str]:
    """`check` raises ValueError for `bad_y`, and for observations at which log_prob is not finite."""
    lik = at.likelihood
    candidates = [np.asarray(bad, float) for bad in bad_y]
    for probe in _SUPPORT_PROBES:
        row = np.array(at.y[0])
        if at.table:
            row[0] = probe
        else:
            row = np.asarray(probe)
        if not np.isfinite(np.asarray(at.log_prob(jnp.asarray(row), jnp.zeros(())))):
            candidates.append(row)
    for bad in candidates:
        try:
            lik.check(bad[None])
        except ValueError:
            continue
        yield f"check(y) accepts y = {bad.tolist()}, which is outside the support; raise a ValueError that says so."
