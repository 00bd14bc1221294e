"""Maxima of the profile objective, and the settings of the learner."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from cases import problem
from sitewise import Data, Laplace, Model, Nested, evidence, hyperpriors, kernels, likelihoods, resolve
from sitewise.arrays import programs
from sitewise.arrays.engine import traced

# Evidence per row, lengthscale, magnitude: ionosphere, fold 3 of seed 42.
MAXIMA = {
    "hybrid": (-0.262985, 11.99, 7.88),
    "vi": (-0.271620, 13.40, 6.81),
    "ep": (-0.26233, 11.97, 8.20),
    "laplace": (-0.267828, 14.55, 8.73),
}


@pytest.mark.parametrize("method", MAXIMA)
def test_maxima_on_ionosphere(method, ionosphere):
    X, y, _, _ = ionosphere
    fit = resolve(method).fit(Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6), Data.of(X, y))
    value, lengthscale, magnitude = MAXIMA[method]
    assert fit.converged
    assert fit.objective / len(y) == pytest.approx(value, abs=1e-5)
    assert fit.parameters["kernel.lengthscale"] == pytest.approx(lengthscale, rel=1e-2)
    assert fit.parameters["kernel.variance"] ** 0.5 == pytest.approx(magnitude, rel=1e-2)


def _vanilla_vi(X, y):
    """The paper's "vanilla VI": joint L-BFGS over a whitened mean, a full covariance factor, and θ."""
    n = len(y)
    likelihood = likelihoods.BernoulliProbit()
    lower = np.tril_indices(n)

    def unpack(v):
        return v[:2], v[2 : 2 + n], jnp.zeros((n, n)).at[lower].set(v[2 + n :])

    def negative(v):
        theta, mean, factor = unpack(v)
        kernel = kernels.Matern52(jnp.exp(theta[0]), jnp.exp(theta[1]))
        root = jnp.linalg.cholesky(kernel.matrix(jnp.asarray(X)) + 1e-6 * jnp.eye(n))
        m, S = root @ mean, root @ factor
        fit = jnp.sum(likelihood.expected_log_prob(jnp.asarray(y), m, jnp.sum(S * S, axis=1)))
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor) ** 2))
        return -(fit - 0.5 * (jnp.sum(factor * factor) + mean @ mean - n - log_det)) / n

    objective = jax.jit(jax.value_and_grad(negative))
    start = np.concatenate([np.zeros(2 + n), np.eye(n)[lower]])
    out = minimize(lambda v: [np.asarray(a) for a in objective(v)], start, jac=True, method="L-BFGS-B",
                   options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9})  # fmt: skip
    return -out.fun, np.exp(out.x[:2])


def test_nested_vi_equals_joint_optimisation():
    X, y = problem("probit", 30, seed=5)
    bound, theta = _vanilla_vi(X, y)
    fit = resolve("vi").fit(Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6), Data.of(X, y))
    assert fit.objective / 30 == pytest.approx(bound, abs=1e-5)
    assert fit.parameters["kernel.lengthscale"] == pytest.approx(theta[0], rel=1e-2)
    assert fit.parameters["kernel.variance"] == pytest.approx(theta[1], rel=1e-2)


@pytest.fixture(scope="module")
def small():
    X, y = problem("probit", 30, seed=5)
    return Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), Data.of(X, y)


def test_folds_share_compiled_programs(small):
    """No program depends on the number of rows, or of columns."""
    model, data = small
    resolve("hybrid", max_rounds=2).fit(model, data)
    before = programs._memory.cache_info()
    for drop in range(10):
        keep = np.delete(np.arange(30), [drop, drop + 5] + ([drop + 10] if drop % 2 else []))
        resolve("hybrid", max_rounds=2).fit(model, Data.of(np.repeat(data.X[keep], 1 + drop, axis=1), data.y[keep]))
    assert programs._memory.cache_info() == before


def test_traced_folds_share_compiled_programs(small):
    """Ten folds of 27 rows, of 28 and of 26: one program."""
    model, data = small
    with traced():
        resolve("hybrid", max_rounds=2).fit(model, data)
        before = programs._memory.cache_info()
        for drop in range(10):
            keep = np.delete(np.arange(30), [drop, drop + 5] + ([drop + 10] if drop % 2 else []))
            resolve("hybrid", max_rounds=2).fit(model, Data.of(data.X[keep], data.y[keep]))
        assert programs._memory.cache_info() - before <= 1


def test_fixed_bounds_priors_and_report(small):
    model, data = small
    held = resolve("hybrid", fixed=("kernel.lengthscale",)).fit(model, data)
    assert held.parameters["kernel.lengthscale"] == 1.0
    bounded = resolve("hybrid", bounds={"kernel.variance": (0.1, 2.0)}).fit(model, data)
    assert bounded.at_bound == ("kernel.variance",) and bounded.parameters["kernel.variance"] == pytest.approx(2.0)
    assert "ended at its bound" in bounded.report()
    free = resolve("hybrid").fit(model, data)
    pulled = resolve("hybrid", priors={"kernel.variance": hyperpriors.LogNormal(0.0, 0.1)}).fit(model, data)
    assert abs(np.log(pulled.parameters["kernel.variance"])) < abs(np.log(free.parameters["kernel.variance"]))
    for words in ("elbo", "EP evidence minus ELBO", "residual", "kernel.lengthscale"):
        assert words in free.report()


def test_restarts_never_do_worse(small):
    model, data = small
    one = resolve("laplace").fit(model, data)
    more = resolve("laplace", restarts=2).fit(model, data, seed=1)
    assert more.objective >= one.objective - 1e-9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gradient": "exact"}, "gradient must be one of"),
        ({"method": "magic"}, "Unknown method"),
        ({"method": "vi", "power": 0.5}, "power belongs to the ep evidence"),
        ({"evidence": "bic"}, "Unknown evidence"),
        ({"power": 0.0}, r"power must lie in \(0, 1\]"),
        ({"method": "hybrid-vem", "gradient": "implicit"}, "no gradient setting"),
    ],
)
def test_bad_settings_are_refused_in_words(settings, words):
    with pytest.raises(ValueError, match=words):
        resolve(**settings)


def test_unknown_parameter_names_are_refused(small):
    model, data = small
    with pytest.raises(ValueError, match=r"There is no parameter 'kernel\.scale'"):
        Nested(fixed=("kernel.scale",)).fit(model, data)
    with pytest.raises(ValueError, match="the trained parameters are"):
        Nested(bounds={"kernel.scale": (1, 2)}).fit(model, data)


def test_a_tolerance_of_zero_runs_all_rounds_and_still_reports_its_share():
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    shares = []
    X, y = problem("probit", 12)
    fit = Nested(Laplace(), evidence.laplace, tol=0.0, max_rounds=2).fit(
        model, Data.of(X, y), callback=lambda entry: shares.append(entry["share"])
    )
    assert fit.rounds == 2 and shares == sorted(shares) and 0 <= shares[-1] < 1
