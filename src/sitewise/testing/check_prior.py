"""Checks that a prior structure satisfies the contract of `priors.base`.

Most laws follow from one fact: log_z(nat1, prec) = log ∫ p(f) Π t_i is the cumulant function of q, so that

    ∂log_z/∂nat1 = mean,     −2 ∂log_z/∂prec = var + mean²,     ∂mean/∂nat1 = Σ,     −∂var/∂prec = Σ∘Σ.

They are checked against differences of `condition`, for every structure.  A structure without residual variance is also
compared with dense algebra on its own covariance matrix, and one that computes on NumPy arrays too must give the same
on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import is_host, to_host
from sitewise.parameters import Trainable
from sitewise.priors import Gram, Marginals, Prior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.testing.check_posterior import check_posterior
from sitewise.testing.common import close, inputs, report, slopes_by_differences, worst

_ROWS = 7


# Compiled, these take a tenth of the time.
_gram = jax.jit(lambda prior, X: prior.gram(X))
_condition = jax.jit(lambda gram, sites: gram.condition(sites))
_condition_mean = jax.jit(lambda gram, sites: gram.condition_mean(sites)[0])
_with_rounding = jax.jit(lambda gram, sites, mask: _factor_and_rounding(gram, sites, mask))
_marginals = jax.jit(lambda prior, X, sites, new: prior.posterior(X, sites).marginals(new))
_joint = jax.jit(lambda prior, X, sites, new: prior.posterior(X, sites).joint(new))


def _factor_and_rounding(gram: Gram, sites: Sites, mask: jax.Array) -> tuple[Marginals, jax.Array]:
    q, factor = gram.condition_with_factor(sites, mask)
    return q, gram.rounding_error(sites, q, factor)


def _products(gram: Gram, sites: Sites, mask: Any, x: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    cov = gram.covariance(sites, gram.condition_with_factor(sites, mask)[1])
    return cov.times(x), cov.times_once(x), cov.squared_times(x)


_traced_products = jax.jit(_products)


class _Case:
    """The prior at some rows, with sites; the last row has none, like padding."""

    def __init__(self, prior: Prior, X: jax.Array) -> None:
        self.prior, self.X, self.gram = prior, X, _gram(prior, X)
        rng = np.random.default_rng(3)
        nat1, prec = rng.normal(size=len(X)), rng.uniform(0.3, 3.0, size=len(X))
        nat1[-1] = prec[-1] = 0.0
        self.sites = Sites(jnp.asarray(nat1), jnp.asarray(prec))
        self.q = _condition(self.gram, self.sites)


def check_prior(prior: Prior, X: Any = None) -> None:
    """Check a prior structure of your own, with one latent function per row, against dense algebra.

    Parameters
    ----------
    prior : Prior
        The prior.
    X : array of shape (n_rows, n_columns), default=None
        The inputs; None for seven rows of two columns.
    """
    with working_precision():
        case = _Case(prior, jnp.asarray(inputs(_ROWS) if X is None else np.asarray(X, float)))
        checks: tuple[Callable[[_Case], Iterator[str]], ...] = (
            _finite, _without_sites, _dense, _cumulants, _padding, _with_factor, _covariance, _pull, _posterior,
            _on_host,
        )  # fmt: skip
        report(type(prior).__name__, (check(case) for check in checks))
    check_posterior(prior, X)


def _finite(case: _Case) -> Iterator[str]:
    for name in ("kernel", "mean"):
        if not hasattr(case.prior, name):
            yield f"a prior needs the attribute {name}, which reports and estimators read."
    rows = case.X.shape[:1]
    for name in ("mean", "var", "resid", "prior_mean"):
        value = np.asarray(getattr(case.q, name))
        if value.shape != rows or not np.all(np.isfinite(value)):
            yield f"condition(sites).{name} must hold one finite number per row; it has the shape {value.shape}."
    if np.any(np.asarray(case.q.var) <= 0) or np.any(np.asarray(case.q.resid) < 0):
        yield "condition(sites) must give positive variances, and residuals of at least zero."
    if case.prior.exact and np.any(np.asarray(case.q.resid) != 0):
        yield "exact is True, but there is residual variance."


def _without_sites(case: _Case) -> Iterator[str]:
    nothing = Sites.zeros(len(case.X))
    q = _condition(case.gram, nothing)
    if abs(float(q.log_z)) > 1e-9:
        yield f"log_z is {float(q.log_z):.3g} without sites, where it must be 0."
    if not close(q.mean, q.prior_mean, 1e-9, 1e-9):
        yield f"without sites the mean is not the prior's, {worst(q.mean, q.prior_mean)}."
    mean, var = _marginals(case.prior, case.X, nothing, case.X)
    if not close(mean, q.mean, 1e-7, 1e-8) or not close(var, q.var + q.resid, 1e-6, 1e-7):
        yield "posterior(X, no sites).marginals(X) is not the prior that condition gives."


def _dense(case: _Case) -> Iterator[str]:
    """Comparison with N(μ, K) times the sites by dense algebra, with K as `joint` gives it without sites."""
    if not case.prior.exact:
        return
    mean, K = (np.asarray(a) for a in _joint(case.prior, case.X, Sites.zeros(len(case.X)), case.X))
    nat1, prec = (np.asarray(a) for a in case.sites)
    B = np.eye(len(K)) + prec[:, None] * K
    cov = np.linalg.solve(B.T, K).T  # K (I + W K)⁻¹ = (K⁻¹ + W)⁻¹
    shifted = nat1 - prec * mean
    want = mean + cov @ shifted, np.diag(cov)
    log_z = -0.5 * np.linalg.slogdet(B)[1] + 0.5 * shifted @ cov @ shifted + mean @ (nat1 - 0.5 * prec * mean)
    for name, value in zip(("mean", "var", "log_z"), (*want, log_z), strict=True):
        found = getattr(case.q, name)
        if not close(found, value, 1e-6, 1e-7):
            yield f"{name} is not that of the dense Gaussian with the same covariance, {worst(found, value)}."


def _cumulants(case: _Case) -> Iterator[str]:
    def log_z(nat1: np.ndarray, prec: np.ndarray) -> jax.Array:
        return _condition(case.gram, Sites(jnp.asarray(nat1), jnp.asarray(prec))).log_z

    nat1, prec = (np.asarray(a) for a in case.sites)
    by_nat1 = slopes_by_differences(lambda b: log_z(b, prec), nat1)
    if not close(case.q.mean, by_nat1, 1e-5, 1e-6):
        yield f"mean is not the derivative of log_z in nat1, {worst(case.q.mean, by_nat1)}."
    seen = prec > 0  # a precision cannot be moved below zero
    by_prec = -2 * slopes_by_differences(lambda w: log_z(nat1, np.where(seen, w, 0.0)), prec)[seen]
    square = np.asarray(case.q.var + case.q.mean**2)[seen]
    if not close(square, by_prec, 1e-5, 1e-6):
        yield f"var + mean² is not minus twice the derivative of log_z in prec, {worst(square, by_prec)}."


def _padding(case: _Case) -> Iterator[str]:
    """A row without a site changes nothing for the others."""
    fewer = _condition(_gram(case.prior, case.X[:-1]), Sites(case.sites.nat1[:-1], case.sites.prec[:-1]))
    if not close(case.q.log_z, fewer.log_z, 1e-9, 1e-9) or not close(case.q.mean[:-1], fewer.mean, 1e-8, 1e-9):
        yield "a row whose site is zero changes the other rows, or log_z."
    if not close(case.q.var[:-1], fewer.var, 1e-8, 1e-9):
        yield "a row whose site is zero changes the variances of other rows."


def _with_factor(case: _Case) -> Iterator[str]:
    mask = jnp.asarray(np.asarray(case.sites.prec) > 0)
    q, rounding = _with_rounding(case.gram, case.sites, mask)
    counted = np.asarray(mask)
    for name in ("mean", "var", "resid"):
        found, want = (np.asarray(getattr(one, name))[counted] for one in (q, case.q))
        if not close(found, want, 1e-8, 1e-9):
            yield f"condition_with_factor and condition differ in {name}, {worst(found, want)}."
    mean = _condition_mean(case.gram, case.sites)
    if not close(mean.mean, case.q.mean, 1e-8, 1e-9) or np.any(np.asarray(mean.var) < 0.999 * np.asarray(case.q.var)):
        yield "condition_mean must give the same mean, and variances that are not below the right ones."
    error = float(rounding)
    if not 0 <= error < 1e-6:
        yield f"rounding_error is {error:.3g} for a well-conditioned problem; it must be small and not negative."


def _covariance(case: _Case) -> Iterator[str]:
    seen = jnp.asarray(np.asarray(case.sites.prec) > 0)
    x = jnp.where(seen, jnp.asarray(np.random.default_rng(4).normal(size=len(case.X))), 0.0)
    step = 1e-6

    def moved(nat1: jax.Array, prec: jax.Array) -> Marginals:
        return _condition(case.gram, Sites(nat1, prec))

    b, w = case.sites
    by_nat1 = (moved(b + step * x, w).mean - moved(b - step * x, w).mean) / (2 * step)
    by_prec = -(moved(b, w + step * x).var - moved(b, w - step * x).var) / (2 * step)
    counted = np.asarray(seen)
    names = ("times(x)", "times_once(x)", "squared_times(x)")
    products = _traced_products(case.gram, case.sites, seen, x)
    for name, product, differences in zip(names, products, (by_nat1, by_nat1, by_prec), strict=True):
        found, want = np.asarray(product)[counted], np.asarray(differences)[counted]
        if not close(found, want, 1e-5, 1e-6):
            yield f"covariance(sites).{name} is not what differences of condition give, {worst(found, want)}."


def _pull(case: _Case) -> Iterator[str]:
    """The cotangent of the Gram, continued to the hyperparameters, against differences."""
    if not jax.tree.leaves(case.prior):
        return
    trainable = Trainable.of(case.prior)
    by_q = _cotangent(case)

    def total(vector: np.ndarray) -> jax.Array:
        q = trainable.from_vector(case.prior, jnp.asarray(vector)).gram(case.X).condition(case.sites)
        products = (jnp.sum(getattr(by_q, name) * getattr(q, name)) for name in q._fields if name != "jitter")
        return sum(products, jnp.zeros(()))

    start = np.asarray(trainable.to_vector(case.prior))
    exact = np.asarray(jax.jit(_pulled, static_argnums=0)(trainable, case.prior, case.X, case.sites, by_q))
    differences = slopes_by_differences(jax.jit(total), start)
    if not close(exact, differences, 1e-4, 1e-5 * (1 + float(np.max(np.abs(differences))))):
        yield (
            f"pull does not give the derivative in the hyperparameters ({', '.join(trainable.labels)}): {exact}, but "
            f"differences give {differences}."
        )


def _cotangent(case: _Case) -> Marginals:
    """Some derivatives of a function of q."""
    rng = np.random.default_rng(5)
    weights = {name: jnp.asarray(rng.normal(size=len(case.X))) for name in ("mean", "var", "resid", "prior_mean")}
    weights["var"] = jnp.where(case.sites.prec > 0, weights["var"], 0.0)
    weights["log_z"], weights["jitter"] = jnp.asarray(0.7), jnp.zeros(())
    return case.q._replace(**weights)


def _pulled(trainable: Trainable, prior: Prior, X: jax.Array, sites: Sites, by_q: Marginals) -> jax.Array:
    """The derivative in the hyperparameters that follows from these derivatives in q."""
    gram, pull = prior.gram_with_pull(X)
    q, factor = gram.condition_with_factor(sites, sites.prec > 0)
    return trainable.pull(trainable.to_vector(prior), pull(gram.pull(sites, factor, q, by_q)))


def _on_host(case: _Case) -> Iterator[str]:
    """The same numbers on NumPy arrays as in a traced program."""
    if not case.prior.host:
        return
    prior, X, sites, by_q = to_host((case.prior, case.X, case.sites, _cotangent(case)))
    gram = prior.gram(X)
    seen = sites.prec > 0
    x = np.where(seen, np.random.default_rng(4).normal(size=len(X)), 0.0)
    new = inputs(5, X.shape[1], seed=9)
    results: dict[str, tuple[Any, Any]] = {
        "condition": (gram.condition(sites), case.q),
        "condition_with_factor and rounding_error": (
            _factor_and_rounding(gram, sites, seen), _with_rounding(case.gram, case.sites, jnp.asarray(seen)),
        ),
        "condition_mean": (gram.condition_mean(sites)[0], _condition_mean(case.gram, case.sites)),
        "covariance": (
            _products(gram, sites, seen, x),
            _traced_products(case.gram, case.sites, jnp.asarray(seen), jnp.asarray(x)),
        ),
        "posterior.marginals": (
            prior.posterior(X, sites).marginals(new), _marginals(case.prior, case.X, case.sites, jnp.asarray(new)),
        ),
        "posterior.joint": (
            prior.posterior(X, sites).joint(new), _joint(case.prior, case.X, case.sites, jnp.asarray(new)),
        ),
    }  # fmt: skip
    if jax.tree.leaves(prior):
        trainable = Trainable.of(prior)
        traced = jax.jit(_pulled, static_argnums=0)(trainable, case.prior, case.X, case.sites, _cotangent(case))
        results["gram_with_pull"] = _pulled(trainable, prior, X, sites, by_q), traced
    for name, (found, want) in results.items():
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
            if not is_host(one):
                yield f"{name} of NumPy arrays must give NumPy arrays; it gives {type(one).__name__}."
                return
            if not close(one, other, 1e-8, 1e-8):
                yield f"{name} gives other numbers on NumPy arrays than in a traced program, {worst(one, other)}."


def _posterior(case: _Case) -> Iterator[str]:
    mean, var = _marginals(case.prior, case.X, case.sites, case.X)
    if not close(mean, case.q.mean, 1e-6, 1e-7):
        yield f"posterior.marginals at the training rows differs from q in the mean, {worst(mean, case.q.mean)}."
    if not close(var, case.q.var + case.q.resid, 1e-5, 1e-6):
        yield f"posterior.marginals at the training rows differs from q in the variance, {worst(var, case.q.var)}."
    new = jnp.asarray(inputs(5, case.X.shape[1], seed=9))
    joint_mean, cov = _joint(case.prior, case.X, case.sites, new)
    each_mean, each_var = _marginals(case.prior, case.X, case.sites, new)
    if not close(joint_mean, each_mean, 1e-8, 1e-9) or not close(np.diag(np.asarray(cov)), each_var, 1e-6, 1e-8):
        yield "posterior.joint and posterior.marginals disagree."
    alone = np.array([float(_marginals(case.prior, case.X, case.sites, new[i : i + 1])[1][0]) for i in range(len(new))])
    if not close(alone, each_var, 1e-8, 1e-10):
        yield "a prediction depends on the rows that are predicted with it."
