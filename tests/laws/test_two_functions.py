"""Laws of models with two latent functions per row: brute force, the ELBO over all Gaussians, constants, gradients."""

import itertools

import numpy as np
import pytest
from scipy import optimize
from scipy.special import logsumexp

import gradients
from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, means, posterior, value_and_grad
from sitewise.likelihoods import VaryingParameter
from sitewise.numerics.dense import block_sites, directions
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.testing import check_posterior
from sitewise.testing.common import slopes_by_differences

KERNELS = [kernels.RBF(0.8, 1.2), kernels.Matern52(1.5, 0.6)]
MEANS = [means.Constant(0.1), means.Constant(-0.7)]


def noisy(rows, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, rows))[:, None]
    return Data.of(X, np.sin(2 * X[:, 0]) + np.exp(-1 + 0.5 * X[:, 0]) * rng.normal(size=rows))


def gaussian_model(kernel=KERNELS, mean=MEANS):
    return Model.full(kernel, VaryingParameter(likelihoods.Gaussian(0.5), "scale"), mean)


def dense(model, data):
    """Prior mean and covariance of (f, g) at the rows, f first, by the kernels alone."""
    X, n = np.asarray(data.X), data.rows
    K = np.zeros((2 * n, 2 * n))
    for k, one in enumerate(model.prior.functions):
        K[k * n : (k + 1) * n, k * n : (k + 1) * n] = np.asarray(one.kernel.matrix(X))
    return np.concatenate([np.asarray(one.mean.at(X)) for one in model.prior.functions]), K


def test_coordinates_of_blocks_are_dual():
    rng = np.random.default_rng(1)
    for size in (2, 3):
        W, C = rng.normal(size=(2, 4, size, size))
        W, C = W + W.swapaxes(1, 2), C @ C.swapaxes(1, 2)
        prec, var = directions.precisions_of_blocks(W), directions.variances_of_blocks(C)
        np.testing.assert_allclose(directions.blocks_of_precisions(prec), W, atol=1e-12)
        np.testing.assert_allclose(directions.blocks_of_variances(var), C, atol=1e-12)
        np.testing.assert_allclose(np.sum(prec * var, axis=0), np.einsum("nab,nba->n", W, C), atol=1e-12)


@pytest.mark.parametrize("indefinite", [False, True])
def test_conditioning_is_dense_algebra(indefinite):
    rng = np.random.default_rng(2)
    data, model = noisy(5), gaussian_model()
    root = 0.6 * rng.normal(size=(5, 2, 2))
    W = root @ root.swapaxes(1, 2) - (0.3 if indefinite else 0.0) * np.eye(2)
    assert np.any(np.linalg.eigvalsh(W) < 0) == indefinite
    sites = Sites(rng.normal(size=(3, 5)), directions.precisions_of_blocks(W))
    q = model.prior.gram(np.asarray(data.X)).condition(sites)
    mu, K = dense(model, data)
    b = np.concatenate(directions.combined(sites.nat1))
    whole = np.einsum("nab,nm->anbm", W, np.eye(5)).reshape(10, 10)
    P = np.linalg.inv(K) + whole
    Sigma = np.linalg.inv(P)
    mean = Sigma @ (np.linalg.solve(K, mu) + b)
    log_z = 0.5 * (mean @ P @ mean - mu @ np.linalg.solve(K, mu) - np.linalg.slogdet(K)[1] - np.linalg.slogdet(P)[1])
    np.testing.assert_allclose(q.mean[:2], mean.reshape(2, 5), atol=1e-8)
    np.testing.assert_allclose(q.log_z, log_z, atol=1e-8)
    blocks = Sigma.reshape(2, 5, 2, 5)[:, np.arange(5), :, np.arange(5)]
    np.testing.assert_allclose(directions.blocks_of_variances(q.var), blocks, atol=1e-8)
    # The cavity of a row is the posterior without its site.
    others = Sites(*(np.where(np.arange(5) == 3, 0.0, a) for a in sites))
    left, cav = model.prior.gram(np.asarray(data.X)).condition(others), q.cavity(sites, 1.0)
    np.testing.assert_allclose(cav.mean[3], left.mean[:2, 3], atol=1e-6)
    np.testing.assert_allclose(cav.var[3], directions.blocks_of_variances(left.var)[3], atol=1e-6)
    np.testing.assert_allclose(cav.log_site[3], q.log_z - left.log_z, atol=1e-6)


def test_a_cavity_that_is_no_gaussian_is_nan():
    cov, W = np.array([[[1.0, 0.2], [0.2, 1.0]]]), np.array([[[2.0, 0.0], [0.0, 0.1]]])
    assert np.isnan(block_sites.without_block(np.zeros((1, 2)), cov, np.zeros((1, 2)), W).log_z[0])


def test_posterior_contract():
    check_posterior(gaussian_model().prior.__class__.of(KERNELS, MEANS, 0.0), latents=2)


def brute_force(model, data):
    """log Z, and mean and covariance of (f, g) per row: exact in f given g, and a product Gauss–Hermite rule over g."""
    mu, K = dense(model, data)
    n, (z, w) = data.rows, np.polynomial.hermite_e.hermegauss(24)
    nodes = np.array(list(itertools.product(z, repeat=n)))
    logs = np.log(np.array(list(itertools.product(w / np.sum(w), repeat=n)))).sum(axis=1)
    g = mu[n:] + nodes @ np.linalg.cholesky(K[n:, n:]).T
    K_f = np.broadcast_to(K[:n, :n], (len(g), n, n))
    cov = K_f + np.exp(2 * g)[:, :, None] * np.eye(n)
    gap = np.broadcast_to(np.asarray(data.y) - mu[:n], g.shape)
    solved = np.linalg.solve(cov, gap[..., None])[..., 0]
    log_p = logs - 0.5 * (np.sum(gap * solved, axis=1) + np.linalg.slogdet(cov)[1] + n * np.log(2 * np.pi))
    log_z = logsumexp(log_p)
    share = np.exp(log_p - log_z)
    f = mu[:n] + np.einsum("kab,kb->ka", K_f, solved)
    own = np.diagonal(K_f - K_f @ np.linalg.solve(cov, K_f), axis1=1, axis2=2)
    both = np.stack([f, g], axis=-1)
    mean = np.einsum("k,kna->na", share, both)
    second = np.einsum("k,kna,knb->nab", share, both - mean, both - mean)
    second[:, 0, 0] += share @ own
    return log_z, mean, second


FEW = [[0.0], [0.7], [-0.4]], [0.4, -0.5, 0.2]


@pytest.mark.parametrize("rows", [2, 3])
def test_evidences_beside_brute_force(rows):
    data, model = Data.of(FEW[0][:rows], FEW[1][:rows]), gaussian_model()
    want, *_ = brute_force(model, data)
    sites, matched = (method.solve(model, data).sites for method in (VI(), EP()))
    elbo, ep = (float(e(model, data, sites)) for e in (evidence.elbo, evidence.ep))
    assert elbo < want
    assert abs(ep - want) < 0.5 * (want - elbo)
    assert abs(float(evidence.ep(model, data, matched)) - want) < 0.2 * (want - elbo)


@pytest.mark.parametrize("rows", [2, 3])
def test_moments_of_ep_beside_brute_force(rows):
    """EP's means are exact to 0.02 standard deviations, and its standard deviations are closer to exact than VI's."""
    data, model = Data.of(FEW[0][:rows], FEW[1][:rows]), gaussian_model()
    _, mean, cov = brute_force(model, data)
    sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
    gaps, ratios = {}, {}
    for method in (EP(), EP(power=0.5), VI()):
        found, block = map(np.asarray, posterior(model, data, method.solve(model, data).sites).f(data.X))
        gaps[method.name] = np.max(np.abs(found - mean) / sd)
        ratios[method.name] = np.sqrt(np.diagonal(block, axis1=1, axis2=2)) / sd
    errors = {name: np.max(np.abs(ratio - 1)) for name, ratio in ratios.items()}
    assert gaps["ep"] < 0.02 and gaps["ep"] < gaps["vi"]
    assert errors["ep"] < 0.13 and errors["ep"] < 0.5 * errors["vi"] and errors["ep(0.5)"] < errors["vi"]


def test_sites_of_ep_match_the_tilted_moments():
    """At EP's fixed point, cavity × p has the marginal's moments: exact in f given g, a trapezoidal rule over g."""
    data, model = noisy(6), gaussian_model()
    sites = EP(tol=1e-10).solve(model, data).sites
    q = model.prior.gram(np.asarray(data.X)).condition(sites)
    with working_precision():
        left = q.cavity(sites, 1.0)
    for i, y in enumerate(np.asarray(data.y)):
        (m, m_g), V = np.asarray(left.mean[i]), np.asarray(left.var[i])
        g = m_g + np.sqrt(V[1, 1]) * np.linspace(-12, 12, 2001)
        at, var = m + V[0, 1] / V[1, 1] * (g - m_g), V[0, 0] - V[0, 1] ** 2 / V[1, 1]
        total = var + np.exp(2 * g)
        log_p = -0.5 * ((g - m_g) ** 2 / V[1, 1] + (y - at) ** 2 / total + np.log(total))
        share = np.exp(log_p - logsumexp(log_p))
        both = np.stack([at + var / total * (y - at), g], axis=1)
        cov = np.cov(both, rowvar=False, aweights=share, ddof=0) + np.diag([share @ (var - var**2 / total), 0.0])
        np.testing.assert_allclose(q.mean[:2, i], share @ both, atol=1e-7)
        np.testing.assert_allclose(directions.blocks_of_variances(q.var)[i], cov, atol=1e-7)


def test_laplace_is_the_expansion_at_the_mode():
    """log p(y, m) + n log 2π − ½ log|H| with the mode m and the Hessian H of the joint density, by differences."""
    data, model = Data.of([[0.0], [0.7], [-0.4]], [0.4, -0.5, 0.2]), gaussian_model()
    mu, K = dense(model, data)
    y, n = np.asarray(data.y), data.rows

    def minus_log_joint(x):
        fit = -0.5 * np.log(2 * np.pi) - x[n:] - 0.5 * (y - x[:n]) ** 2 * np.exp(-2 * x[n:])
        prior = (x - mu) @ np.linalg.solve(K, x - mu) + np.linalg.slogdet(2 * np.pi * K)[1]
        return 0.5 * prior - np.sum(fit)

    sites = Laplace().solve(model, data).sites
    start = np.asarray(posterior(model, data, sites).f(data.X)[0]).T.ravel()
    mode = optimize.minimize(minus_log_joint, start, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(mode, start, atol=1e-5)
    gradient = lambda x: slopes_by_differences(minus_log_joint, x)  # noqa: E731
    H = np.stack([slopes_by_differences(lambda x, i=i: gradient(x)[i], mode, 1e-4) for i in range(2 * n)])
    want = n * np.log(2 * np.pi) - minus_log_joint(mode) - 0.5 * np.linalg.slogdet(H)[1]
    np.testing.assert_allclose(float(evidence.laplace(model, data, sites)), want, atol=1e-4)


def test_vi_is_the_best_gaussian_of_all():
    """The site form loses nothing: a Gaussian with free mean and covariance reaches the same ELBO."""
    data, model = Data.of([[0.0], [0.7]], [0.4, -0.5]), gaussian_model()
    mu, K = dense(model, data)
    y, n = np.asarray(data.y), data.rows
    lower = np.tril_indices(2 * n)

    def minus_elbo(x):
        L = np.zeros((2 * n, 2 * n))
        L[lower] = x[2 * n :]
        m, C = x[: 2 * n], L @ L.T
        f, g, vf, vg, c = m[:n], m[n:], np.diag(C)[:n], np.diag(C)[n:], np.diag(C[:n, n:])
        fit = -0.5 * np.log(2 * np.pi) - g - 0.5 * np.exp(2 * vg - 2 * g) * ((y - f + 2 * c) ** 2 + vf)
        trace = np.trace(np.linalg.solve(K, C)) + (m - mu) @ np.linalg.solve(K, m - mu) - 2 * n
        return -np.sum(fit) + 0.5 * (trace + np.linalg.slogdet(K)[1] - 2 * np.sum(np.log(np.abs(np.diag(L)))))

    start = np.concatenate([mu, (0.7 * np.linalg.cholesky(K))[lower]])
    best = optimize.minimize(minus_elbo, start, method="BFGS", options={"gtol": 1e-7})
    sites = VI().solve(model, data).sites
    np.testing.assert_allclose(float(evidence.elbo(model, data, sites)), -best.fun, atol=1e-7)


def test_a_constant_scale_is_gaussian_noise():
    base = likelihoods.Gaussian(0.4)
    two, y = VaryingParameter(base, "scale"), [0.3, -1.0, 0.8]
    data = Data.of([[-0.5], [0.2], [0.9]], y)
    second = means.Constant(two.start_level())
    model = Model.full([KERNELS[0], kernels.RBF(1.0, 1e-9)], two, [MEANS[0], second])
    plain = Model.full(KERNELS[0], base, MEANS[0])
    pairs = (VI(), evidence.elbo), (VI(), evidence.loo), (EP(), evidence.ep), (Laplace(), evidence.laplace)
    for method, reading in pairs:
        found = float(reading(model, data, method.solve(model, data).sites))
        want = float(reading(plain, data, method.solve(plain, data).sites))
        np.testing.assert_allclose(found, want, atol=2e-6)
    X, value = [[0.4], [2.0]], [y[1], y[0]]
    both, one = (posterior(m, data, VI().solve(m, data).sites) for m in (model, plain))
    np.testing.assert_allclose(both.log_density(X, value), one.log_density(X, value), atol=1e-6)
    np.testing.assert_allclose(both.y_mean(X), one.y_mean(X), rtol=1e-5)
    np.testing.assert_allclose(both.y_var(X), one.y_var(X), rtol=1e-4)
    np.testing.assert_allclose(both.quantile(X, [0.2, 0.9]), one.quantile(X, [0.2, 0.9]), rtol=1e-5, atol=1e-5)


def test_ep_with_a_constant_scale_is_ep_of_one_function():
    base, y = likelihoods.StudentT(0.4, 3.0), [0.3, -0.4, 0.8]
    two, data = VaryingParameter(base, "scale"), Data.of([[-0.5], [0.2], [0.9]], y)
    model = Model.full([KERNELS[0], kernels.RBF(1.0, 1e-9)], two, [MEANS[0], means.Constant(two.start_level())])
    plain = Model.full(KERNELS[0], base, MEANS[0])
    for power in (1.0, 0.5):
        sites, alone = (EP(power=power).solve(m, data).sites for m in (model, plain))
        reading = evidence.power_ep(power)
        np.testing.assert_allclose(float(reading(model, data, sites)), float(reading(plain, data, alone)), atol=1e-6)
        np.testing.assert_allclose(sites.prec[0] + sites.prec[2], alone.prec, atol=1e-5)


@pytest.mark.parametrize(
    "method, reading, gradient",
    [
        (VI(), evidence.elbo, "fixed"),
        (EP(), evidence.ep, "fixed"),
        (EP(), evidence.elbo, "implicit"),
        (VI(), evidence.ep, "implicit"),
        (Laplace(), evidence.laplace, "implicit"),
    ],
    ids=["vi-elbo", "ep", "ep-elbo", "vi-ep", "laplace"],
)
def test_gradients_are_finite_differences(method, reading, gradient):
    data, model = noisy(8), gaussian_model()
    both = value_and_grad(method, reading, gradient)
    gradients.equals_differences(both, model, data)


@pytest.mark.parametrize("method, reading", [(VI(), evidence.elbo), (EP(), evidence.ep)], ids=["vi", "ep"])
def test_both_engines_agree(method, reading):
    data, model = noisy(8), gaussian_model()
    both = value_and_grad(method, reading, "implicit")
    gradients.engines_agree(both, model, data)


def test_a_weight_is_a_number_of_copies():
    data, model = noisy(6), gaussian_model()
    X, y = np.asarray(data.X), np.asarray(data.y)
    copies = Data.of(np.concatenate([X, X[:2]]), np.concatenate([y, y[:2]]))
    weighted = Data.of(X, y, [2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    for method, reading in ((VI(), evidence.elbo), (VI(), evidence.ep), (EP(), evidence.ep)):
        one, other = (reading(model, d, method.solve(model, d).sites) for d in (copies, weighted))
        np.testing.assert_allclose(one, other, atol=1e-7)
