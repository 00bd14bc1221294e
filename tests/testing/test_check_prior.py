"""Every prior structure obeys `check_prior`, its defaults suffice, and it finds what is wrong with a broken one."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from cases import CLASS_PRIORS, INPUTS, PRIORS, problem
from sitewise import VI, Data, Model, Nested, evidence, kernels, likelihoods, means
from sitewise.kernels import Kernel
from sitewise.learning import stages
from sitewise.priors import FullPrior, Gram, LatentPosterior, Marginals, Prior
from sitewise.sites import Sites
from sitewise.testing import check_posterior, check_prior
from sitewise.types import fixed, module

# The longest checks; other priors of the same kinds remain in the quick tests.
SLOW = ("precision", "markov-product", "markov-series", "sparse-blocks", "full-jitter")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PRIORS])
def test_the_librarys_own(name):
    check_prior(PRIORS[name], INPUTS.get(name))


@pytest.mark.parametrize("name", CLASS_PRIORS)
def test_the_librarys_own_of_several_functions(name):
    check_posterior(CLASS_PRIORS[name], latents=3)


@module
class DenseGram(Gram):
    """Conditioning by plain algebra and nothing else: all the rest are the contract's defaults."""

    K: jax.Array = fixed()
    mu: jax.Array = fixed()

    def condition(self, sites: Sites) -> Marginals:
        B = jnp.eye(len(self.K)) + sites.prec[:, None] * self.K
        cov = jnp.linalg.solve(B.T, self.K).T
        b = sites.nat1 - sites.prec * self.mu
        mean = cov @ b
        log_z = -0.5 * jnp.linalg.slogdet(B)[1] + 0.5 * b @ mean
        log_z = log_z + self.mu @ (sites.nat1 - 0.5 * sites.prec * self.mu)
        zero = jnp.zeros(len(self.K))
        return Marginals(self.mu + mean, jnp.diagonal(cov), zero, log_z, self.mu, jnp.zeros(()))


@module
class Dense(Prior):
    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Constant(0.3))

    structure = "dense"
    gram_class = DenseGram

    def gram(self, X: jax.Array) -> Gram:
        return self.gram_class(self.kernel.matrix(X) + 1e-9 * jnp.eye(len(X)), self.mean(X))

    def posterior(self, X: jax.Array, sites: Sites) -> LatentPosterior:
        return FullPrior(self.kernel, self.mean, 1e-9).posterior(X, sites)


def test_the_defaults_of_the_contract_suffice():
    check_prior(Dense(kernels.Matern52(0.8, 1.3)))


def test_a_structure_that_is_not_dense_learns_the_same_and_is_not_refused_for_memory(monkeypatch):
    monkeypatch.setattr(stages, "can_guess", lambda _: False)  # three rounds from the same first step
    learner = Nested(VI(), evidence.ep, fixed=("mean.*",), max_rounds=3)
    data, likelihood = Data.of(*problem("probit", 12)), likelihoods.BernoulliProbit()
    own = FullPrior(kernels.Matern52(0.8, 1.3), means.Constant(0.3), 1e-9)
    known = learner.fit(Model(own, likelihood), data)
    monkeypatch.setenv("SITEWISE_MEMORY", "1e-9")
    with pytest.raises(ValueError, match="needs about"):
        learner.fit(Model(own, likelihood), data)
    found = learner.fit(Model(Dense(kernels.Matern52(0.8, 1.3)), likelihood), data)
    assert found.objective == pytest.approx(known.objective, abs=1e-7)


def changed(**fields):
    """A Gram whose `condition` is wrong by these functions of the right value."""

    class Wrong(DenseGram):
        def condition(self, sites):
            q = DenseGram.condition(self, sites)
            return q._replace(**{k: f(getattr(q, k), self, sites) for k, f in fields.items()})

    return {"gram_class": module(Wrong)}


def with_method(name, method):
    return {"gram_class": module(type("Wrong", (DenseGram,), {name: method}))}


class _Far(LatentPosterior):
    def marginals(self, X):
        return jnp.zeros(len(X)), jnp.ones(len(X))

    def joint(self, X):
        return jnp.zeros(len(X)), jnp.eye(len(X))


def _wrong_pull(self, sites, factor, q, by_q):
    right = Gram.pull(self, sites, factor, q, by_q)
    return dataclasses.replace(right, K=1.1 * right.K)


def inexact(**fields):
    """The same with residual variance, where only the laws that hold for every structure can tell."""
    return {**changed(resid=lambda r, g, s: r + 1e-12, **fields), "exact": False}


def _neighbours(self, X, sites):
    right = FullPrior(self.kernel, self.mean, 1e-9).posterior(X, sites)

    class Wrong(LatentPosterior):
        def joint(self, new):
            return right.joint(new)

        def marginals(self, new):
            mean, var = right.marginals(new)
            return mean, var * (1 + 1e-4 * (len(new) != len(X)) * (len(new) - 1))

    return Wrong()


def posterior_with(**methods):
    """A posterior of which these methods, called with the right posterior and their arguments, are wrong."""

    class Wrong(LatentPosterior):
        def __init__(self, right):
            self.right = right

        def marginals(self, new):
            return self.right.marginals(new)

        def joint(self, new):
            return self.right.joint(new)

    for name, method in methods.items():
        setattr(Wrong, name, lambda self, *args, method=method: method(self.right, *args))
    return {"posterior": lambda self, X, sites: Wrong(FullPrior(self.kernel, self.mean, 1e-9).posterior(X, sites))}


class _WrongTail:
    """A tail that forgets the rows before the cut."""

    def __init__(self, X, prior):
        self.X, self.prior, self.gram = X, prior, prior.gram(X)

    def moved(self, factor):
        return 0.0

    def joined(self, sites, factor):
        return FullPrior(self.prior.kernel, self.prior.mean, 1e-9).posterior(self.X, sites)


def _appends_wrongly(moved=None):
    def tail(right, cut, X):
        found = _WrongTail(jnp.concatenate([right.X[cut:], X]), right.prior)
        if moved is not None:
            found.moved = lambda factor: moved
        return found

    return posterior_with(appends=lambda right, X: True, tail=tail)


FAULTS = {
    "the variance of posterior.sums": posterior_with(
        sums=lambda right, X, w: (right.sums(X, w)[0], 1.01 * right.sums(X, w)[1])
    ),
    "the mean of posterior.sums": posterior_with(sums=lambda right, X, w: (0.5, right.sums(X, w)[1])),
    "posterior.uncorrelated() is True": posterior_with(uncorrelated=lambda right: True),
    "posterior_from(gram, factor, X, sites) is not": {
        "posterior_from": lambda self, gram, factor, X, sites: self.posterior(X, Sites(sites.nat1, 1.001 * sites.prec))
    },
    "joined is not the posterior of all rows": _appends_wrongly(),
    "moved must be a finite number": _appends_wrongly(moved=jnp.nan),
    "order(X) must hold": {"order": lambda self, X: [0] * len(X)},
    "with_inputs(Z).inputs": {"inputs": jnp.zeros((2, 2)), "with_inputs": lambda self, Z: self},
    "given_values must know f": {
        "one_matrix": True,
        "gram": lambda self, X: FullPrior(self.kernel, self.mean, 1e-9).gram(X),
        "given_values": lambda self, X, root, white, counted: FullPrior(self.kernel).posterior(X, Sites.zeros(len(X))),
    },
    "is not the prior's": changed(mean=lambda m, g, s: m + 1.0),
    "derivative of log_z in nat1": inexact(mean=lambda m, g, s: m + 0.1 * s.nat1),
    "derivative of log_z in prec": inexact(var=lambda v, g, s: v * (1 + 0.1 * (s.prec > 0))),
    "a row whose site is zero changes": inexact(log_z=lambda z, g, s: z + 0.01 * (len(s.nat1) - 7)),
    "condition_mean must give": with_method(
        "condition_mean", lambda self, s: (self.condition(s)._replace(mean=self.mu), None)
    ),
    "squared_times(x) is not": with_method("covariance", lambda self, sites, factor: _Thrice(self, sites)),
    "marginals disagree": {"posterior": _neighbours},
    "one finite number per row": changed(var=lambda v, g, s: jnp.full_like(v, jnp.nan)),
    "exact is True": changed(resid=lambda r, g, s: r + 0.1),
    "without sites, where it must be 0": changed(log_z=lambda z, g, s: z + 1.0),
    "dense Gaussian": changed(var=lambda v, g, s: jnp.where(jnp.any(s.prec > 0), 0.9 * v, v)),
    "times(x) is not what differences": with_method("covariance", lambda self, sites, factor: _Twice(self, sites)),
    "pull does not give": with_method("pull", _wrong_pull),
    "rounding_error is": with_method("rounding_error", lambda self, sites, q, factor: jnp.asarray(0.5)),
    "condition_with_factor and condition": with_method(
        "condition_with_factor", lambda self, s, mask: (self.condition(s)._replace(mean=self.mu), None)
    ),
    "the prior that condition gives": {"posterior": lambda self, X, sites: _Far()},
}


class _Thrice:
    def __init__(self, gram, sites):
        self.right = Gram.covariance(gram, sites, None)
        self.times = self.times_once = self.right.times

    def squared_times(self, x):
        return 3 * self.right.squared_times(x)


class _Twice:
    def __init__(self, gram, sites):
        self.right = Gram.covariance(gram, sites, None)

    def times(self, x):
        return 2 * self.right.times(x)

    times_once = times

    def squared_times(self, x):
        return self.right.squared_times(x)


@pytest.mark.parametrize("sentence", FAULTS)
def test_every_fault_has_its_sentence(sentence):
    wrong = module(type("Wrong", (Dense,), FAULTS[sentence]))
    with pytest.raises(AssertionError, match="Wrong: ") as caught:
        check_prior(wrong(kernels.Matern52(0.8, 1.3)))
    assert sentence in str(caught.value)
