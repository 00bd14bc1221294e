"""The sparse prior on NumPy arrays: the numbers of a traced program, and nothing is compiled for a number of rows."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import EP, VI, Data, Model, evidence, kernels, likelihoods, means, methods, value_and_grad
from sitewise.arrays import engine
from sitewise.inference.start import first_sites
from sitewise.kernels import Kernel
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable
from sitewise.priors import FullPrior, Marginals, SparsePrior
from sitewise.priors.inducing import select
from sitewise.sites import Sites
from sitewise.types import module, replace

pytestmark = pytest.mark.usefixtures("double")


MEAN = means.Linear(slope=np.array([0.3, -0.2]), offset=0.4)
KERNEL = kernels.Matern52(lengthscale=np.array([1.2, 0.7]), variance=2.5) + kernels.Linear(variance=0.3)


def storage(n: int, m: int, keep: bool) -> dict[str, int]:
    """Several blocks, of which the last one has fewer rows."""
    return {"block": m * (3 if n < 50 else 45)} | ({} if keep else {"keep": 1})


def case(n, m, seed=0):
    """Inputs, inducing inputs, sites of which some are zero, and a vector."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    seen = np.arange(n) % 5 != 2
    return X, Z, Sites(seen * rng.normal(size=n), seen * rng.uniform(0.1, 2.0, size=n)), rng.normal(size=n)


def cotangents(sites, seed=1):
    """Some derivatives of a function of q: any, and those of an ELBO, for which the pullback leaves out sums."""
    rng = np.random.default_rng(seed)
    n = len(sites.prec)
    by = Marginals(*rng.normal(size=(3, n)), np.float64(0.7), rng.normal(size=n), np.float64(0.0))
    return by, by._replace(var=np.zeros(n), resid=-0.35 * sites.prec)


def results(prior, X, sites, x, by_each, new):
    gram, pull = prior.gram_with_pull(X)
    q, factor = gram.condition_with_factor(sites, sites.prec > 0)
    cov = gram.covariance(sites, factor)
    bars = [gram.pull(sites, factor, q, by) for by in by_each]
    pulled = [pull(bar) for bar in bars]
    posterior = prior.posterior(X, sites)
    return {
        "gram": [replace(found, features=replace(found.features, phi=None)) for found in (gram, prior.gram(X))],
        "condition": gram.condition(sites),
        "condition_with_factor": (q, factor),
        "times": cov.times(x),
        "squared_times": cov.squared_times(x),
        "pull_to_sites": [cov.pull_to_sites(q, by) for by in by_each],
        "gram.pull": [(bar.features.whitened.kernel, bar.features.K_uu, bar.mean) for bar in bars],
        "pull": [(bar.kernel, bar.mean) for bar in pulled],
        "rounding_error": gram.rounding_error(sites, q, factor),
        "marginals": posterior.marginals(new),
        "joint": posterior.joint(new),
    }


def assert_same(found, wanted, atol=1e-9):
    for name in wanted:
        pairs = zip(jax.tree.leaves(found[name]), jax.tree.leaves(wanted[name]), strict=True)
        for one, other in pairs:
            assert engine.is_host(one), f"{name} is {type(one)}"
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=atol, err_msg=name)


def on_device(tree):
    return jax.tree.map(jnp.asarray, tree)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("m", [5, 20])
@pytest.mark.parametrize("n", [7, 300])
def test_every_result_equals_that_of_a_traced_program(n, m, keep):
    X, Z, sites, x = case(n, m)
    prior = SparsePrior(KERNEL, Z, MEAN, **storage(n, m, keep))
    assert (prior.gram(X).features.phi is None) != keep
    arguments = prior, X, sites, x, cotangents(sites), X[:4] + 0.3
    assert_same(results(*arguments), jax.jit(results)(*on_device(arguments)))


@pytest.mark.parametrize("which", [0, 1])
def test_pull_equals_the_derivative_of_a_traced_program(which):
    X, Z, sites, _ = case(300, 20)
    prior, by = SparsePrior(KERNEL, Z, MEAN, block=20 * 70), cotangents(sites)[which]
    gram, pull = prior.gram_with_pull(X)
    q, factor = gram.condition_with_factor(sites, None)
    found = pull(gram.pull(sites, factor, q, by))
    traced = jax.jit(lambda prior, X, sites, by: jax.vjp(lambda p: p.gram(X).condition(sites), prior)[1](by)[0])
    wanted = traced(*on_device((prior, X, sites, by)))
    assert_same({"prior": (found.kernel, found.mean)}, {"prior": (wanted.kernel, wanted.mean)})
    np.testing.assert_array_equal(found.inducing, np.zeros(Z.shape))


def test_with_all_rows_as_inducing_inputs_it_is_the_full_prior():
    X, _, sites, x = case(40, 1)
    kernel = kernels.Matern12(lengthscale=0.8, variance=1.5)
    sparse, full = SparsePrior(kernel, X, MEAN, jitter=0.0, block=40 * 9), FullPrior(kernel, MEAN)
    by = cotangents(sites)[0]._replace(resid=np.zeros(40))

    def of(prior):
        gram, pull = prior.gram_with_pull(X)
        q, factor = gram.condition_with_factor(sites, None)
        cov = gram.covariance(sites, factor)
        bar = pull(gram.pull(sites, factor, q, by))
        joint = prior.posterior(X, sites).joint(X[:5] + 0.1)
        return {"q": q, "products": (cov.times(x), cov.squared_times(x)), "pull": (bar.kernel, bar.mean), "f": joint}

    assert_same(of(sparse), of(full))


def test_numpy_features_with_sites_of_jax():
    X, Z, sites, x = case(60, 5)
    prior = SparsePrior(KERNEL, Z, MEAN, block=5 * 7)
    gram, traced_sites = prior.gram(X), on_device(sites)
    q, factor = gram.condition_with_factor(sites, None)
    slopes = jax.jit(jax.grad(lambda sites: gram.condition(sites).log_z))(traced_sites)
    np.testing.assert_allclose(slopes.nat1, q.mean, atol=1e-10)
    np.testing.assert_allclose(slopes.prec, -0.5 * (q.var + q.mean**2), atol=1e-10)
    traced_q, traced_factor = jax.jit(lambda sites: gram.condition_with_factor(sites, None))(traced_sites)
    np.testing.assert_allclose(traced_q.var, q.var, atol=1e-12)
    cov = gram.covariance(sites, factor)
    for other in (cov, gram.covariance(traced_sites, traced_factor)):
        np.testing.assert_allclose(jax.jit(other.times)(jnp.asarray(x)), cov.times(x), atol=1e-12)
        np.testing.assert_allclose(jax.jit(other.squared_times)(jnp.asarray(x)), cov.squared_times(x), atol=1e-12)
    posterior, new = prior.posterior(X, sites), X[:3] + 0.1
    for one, other in zip(posterior.marginals(jnp.asarray(new)), posterior.marginals(new), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@module
class Bumpy(Kernel):
    """A kernel as a user writes it, with JAX's functions and variances that differ between rows."""

    height: jax.Array = 1.5

    def pairs(self, A, B):
        return self.height * self._bump(A)[:, None] * self._bump(B) * jnp.exp(-jnp.abs(A[:, :1] - B[:, 0]))

    def diag(self, A):
        return self.height * self._bump(A) ** 2

    def _bump(self, A):
        return 1 + 0.5 * jnp.tanh(A[:, 1])


def test_a_kernel_of_a_user():
    X, Z, sites, x = case(90, 5)
    arguments = SparsePrior(Bumpy(height=np.float64(1.5)), Z, MEAN), X, sites, x, cotangents(sites), X[:4] + 0.3
    assert_same(results(*arguments), jax.jit(results)(*on_device(arguments)))


@contextlib.contextmanager
def compilations():
    """The list of what JAX traces and compiles inside."""
    events = []

    def note(event, seconds, **_):
        if event.startswith("/jax/core/compile"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


@pytest.mark.parametrize("keep", [True, False])
def test_another_number_of_rows_compiles_nothing(keep):
    # Not a mean with a slope, whose pullback JAX computes operation by operation.
    kernel = KERNEL + Bumpy(height=np.float64(1.5))
    prior = SparsePrior(kernel, case(1, 5)[1], means.Constant(0.4), **storage(300, 5, keep))

    def run(n):
        X, _, sites, x = case(n, 5)
        results(prior, X, sites, x, cotangents(sites), X[:4] + 0.3)

    run(301)
    with compilations() as events:
        run(207)
    assert events == []


@pytest.mark.parametrize("method", ["hybrid", "vi", "ep", "laplace"])
def test_a_fit_is_the_same_on_both_engines(method):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 2))
    # So noisy that the variance has an optimum: where labels can be separated it ends anywhere below its bound.
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 2.0 * rng.normal(size=80) > 0, 1.0, -1.0)
    model, data = Model.sparse(kernels.RBF(), likelihoods.BernoulliProbit(), X[:6]), Data.of(X, y)
    found = methods.resolve(method).fit(model, data)
    with engine.traced():
        wanted = methods.resolve(method).fit(model, data)
    assert found.converged and wanted.converged
    np.testing.assert_allclose(found.objective, wanted.objective, atol=1e-8)
    for one, other in zip(jax.tree.leaves(found.model), jax.tree.leaves(wanted.model), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        np.testing.assert_allclose(*((a if a.ndim else np.log(a)) for a in (one, other)), atol=1e-8)
    np.testing.assert_allclose(found.solution.sites.prec, wanted.solution.sites.prec, atol=1e-7)


def test_greedy_selection_compiles_nothing_for_another_number_of_rows():
    X = case(90, 1)[0]
    chosen = select(X, "greedy", 10, kernel=KERNEL)
    with compilations() as events:
        again = select(X[:73], "greedy", 10, kernel=KERNEL)
    assert events == []
    for table, rows in ((X, chosen), (X[:73], again)):
        for k in range(1, 10):  # each row is that of largest variance given those before it
            left = SparsePrior(KERNEL, rows[:k], jitter=0.0).gram(table).features.resid
            np.testing.assert_allclose(left[np.all(table == rows[k], axis=1)], np.max(left), rtol=1e-8)


def test_the_profile_has_the_gradient_in_the_inducing_inputs():
    """The host engine has none: on NumPy arrays too it must be that of the traced engine, and not zeros."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    data = Data.of(X, np.where(np.sin(2 * X[:, 0]) > 0, 1.0, -1.0))
    model = Model.sparse(kernels.RBF(), likelihoods.BernoulliProbit(), X[:3])
    trainable = Trainable.of(model, train=("inducing",))
    objective = Objective(VI(), evidence.elbo, "fixed", trainable)
    start, vector = first_sites(model.likelihood, data), np.asarray(trainable.to_vector(model))
    found = profile(objective, model, data, vector, start)
    at = trainable.labels.index("inducing[0]")
    step = 1e-5 * np.eye(len(vector))[at]
    up, down = (float(profile(objective, model, data, vector + sign * step, start).value) for sign in (1, -1))
    assert abs(found.gradient[at]) > 1e-3
    np.testing.assert_allclose(found.gradient[at], (up - down) / 2e-5, rtol=1e-4)


INPUT_KERNELS = {
    "shared": kernels.Matern52(1.2, 2.5),
    "columns": kernels.RBF(np.array([1.2, 0.7]), 1.5),
    "own parameter": kernels.RationalQuadratic(1.1, 2.0, 0.7),
    "shrunk": kernels.Shrunk(kernels.Matern32(1.2, 2.0), np.array([0.4, -0.3])),
    "sum": KERNEL,
    "one column": kernels.Matern52(0.9, 2.0, active_dims=(1,)),
}


@pytest.mark.parametrize("kernel", INPUT_KERNELS.values(), ids=list(INPUT_KERNELS))
@pytest.mark.parametrize("pair", [(EP(tol=1e-10), evidence.ep), (VI(tol=1e-10), evidence.elbo)], ids=["ep", "vi"])
def test_derivative_in_inducing_inputs_is_that_of_differences(kernel, pair):
    X, Z, _, _ = case(40, 6)
    data = Data.of(X, np.where(X[:, 0] > 0.1, 1.0, -1.0))
    model = Model.sparse(kernel, likelihoods.BernoulliProbit(), Z, block=6 * 9)
    both = value_and_grad(*pair, "fixed")
    found = both(model, data)[1].prior.inducing
    assert isinstance(found, np.ndarray)  # by the host engine

    def value(Z):
        return float(both(replace(model, prior=replace(model.prior, inducing=Z)), data)[0])

    step = 1e-4
    for j, k in ((0, 0), (3, 1), (5, 0)):
        move = np.zeros_like(Z)
        move[j, k] = step
        wanted = (value(Z + move) - value(Z - move)) / (2 * step)
        assert found[j, k] == pytest.approx(wanted, abs=1e-5 * (1 + np.abs(found).max()))
