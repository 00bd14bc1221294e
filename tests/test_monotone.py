import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sitewise as sw
from sitewise import kernels, likelihoods, monotone
from sitewise.inference.solve import solve
from sitewise.predict import posterior
from sitewise.testing import check_kernel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
KERNEL = kernels.Slopes(kernels.RBF([0.9, 1.4], 1.7), 3.0)


def test_covariances_of_slopes_are_derivatives_of_those_of_f():
    rows = np.column_stack([X[:6], [0.0, 1, 2, 0, 1, 2]])
    check_kernel(KERNEL, rows)

    def k(a, b):
        return KERNEL.base.matrix(a[None], b[None])[0, 0]

    with jax.enable_x64(True):
        for a in rows[:3]:
            for b in rows[3:]:
                i, j = int(a[2]), int(b[2])
                f = k
                if j:
                    f = lambda p, q, f=f, j=j: 3.0 * jax.grad(f, argnums=1)(p, q)[j - 1]  # noqa: E731
                if i:
                    f = lambda p, q, f=f, i=i: 3.0 * jax.grad(f, argnums=0)(p, q)[i - 1]  # noqa: E731
                want = float(f(jnp.asarray(a[:2]), jnp.asarray(b[:2])))
                assert KERNEL.matrix(a[None], b[None])[0, 0] == pytest.approx(want, rel=1e-10, abs=1e-12)


def test_observed_signs_make_a_function_rise():
    y = np.where(0.3 * X[:, 0] + RNG.normal(size=30) > 0, 1.0, -1.0)
    model = sw.Model.full(KERNEL, likelihoods.BernoulliProbit())

    def falls(table, labels):
        """The share of steps to the right that lower the mean of f."""
        data = sw.Data.of(table, labels)
        q = posterior(model, data, solve(sw.EP(), model, data).sites)
        grid = np.column_stack([np.linspace(-1.5, 1.5, 30), np.zeros(30)])
        return np.mean(np.diff(q.f(monotone.values(grid))[0]) < 0)

    assert falls(monotone.values(X), y) > 0.2 > 0.04 > falls(*monotone.rows(X, y, {0: 1}, points=25))


def test_what_is_no_sign_is_refused():
    y = np.ones(30)
    for signs, labels in (({5: 1}, y), ({0: 2}, y), ({}, y), ({0: 1}, 0 * y)):
        with pytest.raises(ValueError):
            monotone.rows(X, labels, signs)
    with pytest.raises(ValueError, match="last column must be 0"):
        sw.VI().solve(
            sw.Model.full(KERNEL, likelihoods.BernoulliProbit()), sw.Data.of(np.column_stack([X, X[:, 0]]), y)
        )
