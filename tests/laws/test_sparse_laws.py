"""Laws of sparse GPs: Z = X is the full GP; Titsias, FITC; nested sets; gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr

from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, posterior, resolve
from sitewise.inference.start import first_sites
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable
from sitewise.priors.inducing import select

pytestmark = pytest.mark.usefixtures("double")


RNG = np.random.default_rng(5)
N = 30
X = RNG.normal(size=(N, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = Data.of(X, np.where(F + 0.4 * RNG.normal(size=N) > 0, 1.0, -1.0))
NUMBERS = Data.of(X, F + 0.3 * RNG.normal(size=N))
KERNEL = kernels.Matern52(lengthscale=1.1, variance=3.0)
READ = evidence.ALL
TRACED = {name: jax.jit(e) for name, e in READ.items()}
PROBIT, NOISE = likelihoods.BernoulliProbit(), likelihoods.Gaussian(scale=0.3)


@pytest.mark.parametrize("method", [Laplace(), EP(), VI(), VI(tight=True)], ids=lambda m: m.name)
def test_inducing_inputs_at_all_rows_give_the_full_gp(method):
    full, sparse = Model.full(KERNEL, PROBIT), Model.sparse(KERNEL, PROBIT, X)
    a, b = method.solve(full, LABELS), method.solve(sparse, LABELS)
    assert a.outcome.ok and b.outcome.ok
    for name, read in READ.items():
        same = READ[{"collapsed": "ep", "tight": "elbo"}.get(name, name)]
        np.testing.assert_allclose(read(sparse, LABELS, b.sites), same(full, LABELS, a.sites), atol=1e-6)
    traced = TRACED["ep"](sparse, LABELS, b.sites)
    np.testing.assert_allclose(traced, READ["ep"](full, LABELS, a.sites), atol=1e-6)
    new = RNG.normal(size=(5, 2))
    for p, q in zip(posterior(full, LABELS, a.sites).f(new), posterior(sparse, LABELS, b.sites).f(new), strict=True):
        np.testing.assert_allclose(p, q, atol=1e-6)


NOISE_VAR = 0.09


def dense_gaussian(Z, power: float) -> tuple[float, np.ndarray]:
    """log N(y; 0, Q + s²I + a·diag(K − Q)), and K − Q on the diagonal."""
    Kuu = KERNEL.matrix(Z) + 1e-9 * 3.0 * np.eye(len(Z))
    Kxu = KERNEL.matrix(X, Z)
    Q = Kxu @ np.linalg.solve(Kuu, Kxu.T)
    gap = 3.0 - np.diag(Q)
    C = Q + NOISE_VAR * np.eye(N) + power * np.diag(gap)
    return -0.5 * (NUMBERS.y @ np.linalg.solve(C, NUMBERS.y) + np.linalg.slogdet(2 * np.pi * C)[1]), gap


def test_gaussian_noise_gives_titsias_and_its_tighter_bound():
    Z = X[:7]
    model, (value, gap) = Model.sparse(KERNEL, NOISE, Z), dense_gaussian(Z, 0.0)
    sites = VI().solve(model, NUMBERS).sites
    for read in (READ["elbo"], READ["collapsed"], TRACED["elbo"]):
        np.testing.assert_allclose(read(model, NUMBERS, sites), value - 0.5 * np.sum(gap) / NOISE_VAR, atol=1e-8)
    sites = VI(tight=True).solve(model, NUMBERS).sites
    for read in (READ["tight"], TRACED["tight"]):
        expected = value - 0.5 * np.sum(np.log1p(gap / NOISE_VAR))
        np.testing.assert_allclose(read(model, NUMBERS, sites), expected, atol=1e-8)


@pytest.mark.parametrize("power", [0.2, 0.5, 1.0])
def test_gaussian_noise_gives_power_ep_in_closed_form(power):
    """FITC at power 1; Bui, Yan & Turner 2017, eq. 12, at others."""
    Z = X[:7]
    model, (value, gap) = Model.sparse(KERNEL, NOISE, Z), dense_gaussian(Z, power)
    value -= 0.5 * (1 - power) / power * np.sum(np.log1p(power * gap / NOISE_VAR))
    sites, read = EP(power=power).solve(model, NUMBERS).sites, evidence.power_ep(power)
    np.testing.assert_allclose(read(model, NUMBERS, sites), value, atol=1e-8)
    if power == 1:
        np.testing.assert_allclose(TRACED["ep"](model, NUMBERS, sites), value, atol=1e-8)


def log_evidence_of_two_rows(K, log_prob) -> float:
    """log Z by the trapezoidal rule in whitened coordinates."""
    L, grid = np.linalg.cholesky(K), np.linspace(-9, 9, 901)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    log_joint = log_prob(0, L[0, 0] * a) + log_prob(1, L[1, 0] * a + L[1, 1] * b) - 0.5 * (a**2 + b**2)
    top = log_joint.max()
    return top + np.log(np.sum(np.exp(log_joint - top)) * (grid[1] - grid[0]) ** 2 / (2 * np.pi))


@pytest.mark.parametrize("likelihood", [PROBIT, likelihoods.Poisson()], ids=["probit", "poisson"])
def test_tight_lies_between_the_elbo_and_the_exact_evidence(likelihood):
    """Two rows with correlated residuals, at kernels from smooth to rough; for counts E log p is not convex in v."""
    rng = np.random.default_rng(1)
    for _ in range(8):
        rows = rng.normal(size=(2, 1))
        kernel = kernels.Matern52(np.exp(rng.uniform(-1, 1.5)), np.exp(rng.uniform(-1, 3)))
        y = rng.choice([-1.0, 1.0], 2) if likelihood is PROBIT else rng.poisson(2.0, 2).astype(float)
        data, model = Data.of(rows, y), Model.sparse(kernel, likelihood, rng.normal(size=(1, 1)))

        def log_prob(i, f, y=y):
            return log_ndtr(y[i] * f) if likelihood is PROBIT else y[i] * f - np.exp(f) - gammaln(y[i] + 1)

        exact = log_evidence_of_two_rows(kernel.matrix(rows), log_prob)
        elbo = READ["elbo"](model, data, VI().solve(model, data).sites)
        tight = READ["tight"](model, data, VI(tight=True).solve(model, data).sites)
        assert elbo < tight < exact


def test_without_inducing_inputs_in_reach_ep_knows_every_row_apart():
    """m → 0: nothing is shared, and the evidence of independent rows is exact for EP; the bounds reward no variance."""
    data = Data.of(X[:4], LABELS.y[:4])
    model = Model.sparse(KERNEL, PROBIT, X[:1] + 1e3)
    np.testing.assert_allclose(READ["ep"](model, data, EP().solve(model, data).sites), 4 * np.log(0.5), atol=1e-9)
    sites = VI(tight=True).solve(model, data).sites
    # max over v of E_{N(0, 3v)}[log Φ] − ½(v − 1 − log v)
    f, w = np.polynomial.hermite_e.hermegauss(100)
    v = np.linspace(0.05, 1, 20_000)
    expected = log_ndtr(np.sqrt(3 * v)[:, None] * f) @ (w / w.sum()) - 0.5 * (v - 1 - np.log(v))
    np.testing.assert_allclose(READ["tight"](model, data, sites), 4 * expected.max(), atol=1e-6)


def test_elbo_never_falls_when_inducing_inputs_are_added():
    Z = select(X, "greedy", 24, kernel=KERNEL)
    values = []
    for m in (2, 7, 24):
        model = Model.sparse(KERNEL, PROBIT, Z[:m])
        values.append(float(READ["elbo"](model, LABELS, VI().solve(model, LABELS).sites)))
    full = Model.full(KERNEL, PROBIT)
    values.append(float(READ["elbo"](full, LABELS, VI().solve(full, LABELS).sites)))
    assert np.all(np.diff(values) > -1e-8), values


def test_collapsed_lies_between_elbo_and_ep():
    """Averaging the residual inside the logarithm raises a tilted integral; expectations under q lower it."""
    model = Model.sparse(KERNEL, PROBIT, X[:7])
    sites = VI().solve(model, LABELS).sites
    for engine in (READ, TRACED):
        elbo, collapsed, ep = (float(engine[k](model, LABELS, sites)) for k in ("elbo", "collapsed", "ep"))
        assert elbo < collapsed < ep


@pytest.mark.parametrize("sigma", [3.0, 20.0, 60.0])
def test_collapsed_is_not_below_the_elbo_however_wide_the_residual(sigma):
    """log E_q[p̃/t] ≥ E_q[log p̃ − log t] (Jensen), at any sites."""
    model = Model.sparse(kernels.Matern52(0.5, sigma**2), PROBIT, X[:7])
    sites = VI().solve(model, LABELS).sites
    # The traced programs are those of the law above.
    elbo, collapsed = (float((TRACED if sigma == 60 else READ)[k](model, LABELS, sites)) for k in ("elbo", "collapsed"))
    assert collapsed > elbo - 1e-4 * abs(elbo)


def test_collapsed_quadrature_is_resolved():
    mean, var, resid = (np.array(a) for a in ([0.5, -3.0, 2.0, 0.0], [0.3, 4.0, 50.0, 1e-3], [0.0, 1.0, 30.0, 9.0]))
    y = np.array([1.0, 1.0, -1.0, 1.0])
    s = np.linspace(-1, 1, 20_001)[:, None] * 12 * np.sqrt(var) + mean
    inner = np.asarray(jax.jit(PROBIT.expected_log_prob)(y, s, np.maximum(resid, 1e-14)))
    weight = np.exp(-0.5 * (s - mean) ** 2 / var) / np.sqrt(2 * np.pi * var)
    expected = np.log(np.trapezoid(np.exp(inner) * weight, s, axis=0))
    np.testing.assert_allclose(jax.jit(PROBIT.log_expected_smoothed_prob)(y, mean, var, resid), expected, atol=2e-5)


PAIRS = [
    (VI(), evidence.collapsed),
    (VI(), evidence.elbo),
    (VI(tight=True), evidence.tight),
    (EP(), evidence.ep),
    (EP(power=0.5), evidence.power_ep(0.5)),
    (Laplace(), evidence.laplace),
]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0].name}-{p[1].name}")
def test_implicit_gradient_equals_finite_differences(pair):
    """In the kernel's parameters, and in the inducing inputs, where only the traced engine has it."""
    model = Model.sparse(KERNEL, PROBIT, X[:7] + 0.05)
    trainable = Trainable.of(model, train=("inducing",))
    start, vector = first_sites(PROBIT, LABELS), trainable.to_vector(model)

    def at(vector, arrays):
        return profile(
            Objective(*pair, "implicit", trainable), *jax.tree.map(arrays.asarray, (model, LABELS, vector, start))
        )

    def value(vector):
        moved = trainable.from_vector(model, vector)
        return float(pair[1](moved, LABELS, pair[0].solve(moved, LABELS).sites))

    here = at(vector, np).gradient
    if pair[0].name == "ep(0.5)":  # its program takes the longest to compile, and differs from that of "ep" in a number
        traced, entries = here, (0, 1)
    else:
        traced, entries = at(vector, jnp).gradient, (0, 1, 2, 9)
    for i in entries:
        step = np.zeros_like(vector)
        step[i] = 1e-4
        difference = (value(vector + step) - value(vector - step)) / 2e-4
        for slope in (here, traced) if i < 2 else (traced,):
            np.testing.assert_allclose(slope[i], difference, rtol=1e-5, atol=1e-5)


def test_hybrid_is_ep_on_a_sparse_prior():
    fit = resolve("hybrid").fit(Model.sparse(KERNEL, PROBIT, X[:7]), LABELS)
    assert fit.converged and fit.inference == "ep"
    np.testing.assert_allclose(fit.objective, fit.evidences["ep"], atol=1e-8)
