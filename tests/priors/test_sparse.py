"""The sparse prior against dense formulas; blocks, padding and weights change nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import EP, VI, Data, Model, evidence, kernels, likelihoods, means, posterior
from sitewise.arrays.engine import to_host
from sitewise.inference.start import first_sites
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable
from sitewise.priors import SparsePrior
from sitewise.priors.inducing import has_lengthscales, select
from sitewise.priors.sparse import conditioning, sparse_prior
from sitewise.priors.sparse.sparse_prior import SparsePosterior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

pytestmark = pytest.mark.usefixtures("double")


RNG = np.random.default_rng(3)
N, M = 23, 6
X = RNG.normal(size=(N, 2))
Z = X[:M] + 0.1
Y = np.where(RNG.normal(size=N) > 0, 1.0, -1.0)
SITES = Sites(RNG.normal(size=N), RNG.uniform(0.1, 2.0, size=N))
KERNEL = kernels.Matern52(lengthscale=1.2, variance=2.5)
MEAN = means.Constant(0.4)


def dense(sites: Sites):
    """q of the projected process by dense algebra: prior covariance Q = K_xu K_uu⁻¹ K_ux."""
    Kuu = np.asarray(KERNEL.matrix(jnp.asarray(Z))) + 1e-9 * 2.5 * np.eye(M)
    Kxu = np.asarray(KERNEL.matrix(jnp.asarray(X), jnp.asarray(Z)))
    Q = Kxu @ np.linalg.solve(Kuu, Kxu.T)
    W = np.diag(sites.prec)
    G = np.linalg.inv(np.eye(N) + Q @ W)
    cov = G @ Q
    mu = np.full(N, 0.4)
    mean = mu + cov @ (sites.nat1 - sites.prec * mu)
    b = sites.nat1 - sites.prec * mu
    log_z = -0.5 * np.linalg.slogdet(np.eye(N) + Q @ W)[1] + 0.5 * b @ cov @ b + mu @ sites.nat1 - 0.5 * mu @ W @ mu
    return mean, cov, 2.5 - np.diag(Q), log_z


def storage(blocks: bool) -> dict[str, int]:
    return {"keep": 1, "block": 7 * M} if blocks else {}


@pytest.mark.parametrize("blocks", [False, True])
def test_condition_equals_dense_algebra(blocks):
    gram = SparsePrior(KERNEL, Z, MEAN, **storage(blocks)).gram(jnp.asarray(X))
    mean, cov, resid, log_z = dense(SITES)
    q, inner = gram.condition_with_factor(SITES, None)
    for marginals in (q, gram.condition(SITES)):
        np.testing.assert_allclose(marginals.mean, mean, atol=1e-10)
        np.testing.assert_allclose(marginals.var, np.diag(cov), atol=1e-10)
        np.testing.assert_allclose(marginals.resid, resid, atol=1e-10)
        np.testing.assert_allclose(marginals.log_z, log_z, atol=1e-10)
    x = RNG.normal(size=N)
    np.testing.assert_allclose(gram.covariance(SITES, inner).times(x), cov @ x, atol=1e-10)
    np.testing.assert_allclose(gram.covariance(SITES, inner).squared_times(x), cov**2 @ x, atol=1e-10)


LOG_Z = 0.7
SLOPES = {  # weights of mean, var and resid; the pullback leaves out sums over rows that the last two do not need
    "any": (RNG.normal(size=N), RNG.normal(size=N), RNG.normal(size=N)),
    "flat in var": (RNG.normal(size=N), np.zeros(N), RNG.normal(size=N)),
    "elbo": (RNG.normal(size=N), np.zeros(N), -0.5 * LOG_Z * SITES.prec),
}


@pytest.mark.slow
@pytest.mark.parametrize("slopes", SLOPES)
def test_pullback_equals_autodiff_of_dense_algebra_and_blocks_change_nothing(slopes):
    weights = SLOPES[slopes]

    def mixed(mean, var, resid, log_z):
        return sum(jnp.sum(w * a) for w, a in zip(weights, (mean, var, resid), strict=True)) + LOG_Z * log_z

    def dense_value(prior, sites):
        Kuu = prior.kernel.matrix(prior.inducing)
        Kuu = Kuu + prior.jitter * jnp.mean(jnp.diagonal(Kuu)) * jnp.eye(M)
        Kxu, mu = prior.kernel.matrix(jnp.asarray(X), prior.inducing), prior.mean(jnp.asarray(X))
        Q = Kxu @ jnp.linalg.solve(Kuu, Kxu.T)
        B = jnp.eye(N) + Q * sites.prec
        cov, b = jnp.linalg.solve(B, Q), sites.nat1 - sites.prec * mu
        log_z = -0.5 * jnp.linalg.slogdet(B)[1] + 0.5 * b @ cov @ b + mu @ (sites.nat1 - 0.5 * sites.prec * mu)
        return mixed(mu + cov @ b, jnp.diagonal(cov), prior.kernel.variances(jnp.asarray(X)) - jnp.diagonal(Q), log_z)

    def value(prior, sites):
        q = prior.gram(jnp.asarray(X)).condition(sites)
        return mixed(q.mean, q.var, q.resid, q.log_z)

    prior = SparsePrior(KERNEL, jnp.asarray(Z), MEAN)
    expected = jax.grad(dense_value, argnums=(0, 1))(prior, SITES)
    for kwargs in (storage(False), storage(True), {"block": 7 * M}):
        found = jax.grad(value, argnums=(0, 1))(SparsePrior(KERNEL, jnp.asarray(Z), MEAN, **kwargs), SITES)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8)


def test_padding_and_weights_are_exact():
    model = Model.sparse(KERNEL, likelihoods.BernoulliProbit(), Z, MEAN)
    twice = Data.of(X, Y, weight=np.where(np.arange(N) < 3, 2.0, 1.0))
    copies = Data.of(np.concatenate([X, X[:3]]), np.concatenate([Y, Y[:3]]))
    more = Sites(*(np.concatenate([a, a[:3]]) for a in SITES))
    padded = twice.pad(32)
    with_zero = Sites(*(np.concatenate([a, np.zeros(32 - N)]) for a in SITES))
    for e in (jax.jit(evidence.elbo), jax.jit(evidence.tight), jax.jit(evidence.collapsed)):
        value = e(model, twice, SITES)
        np.testing.assert_allclose(value, e(model, copies, more), atol=1e-9)
        np.testing.assert_allclose(value, e(model, padded, with_zero), atol=1e-10)


def test_posterior_equals_dense_algebra():
    model = Model.sparse(KERNEL, likelihoods.BernoulliProbit(), Z, MEAN)
    q = posterior(model, Data.of(X, Y), SITES)
    mean, cov, resid, _ = dense(SITES)
    for got, wanted in zip(q.f(jnp.asarray(X)), (mean, np.diag(cov) + resid), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-10)
    joint_mean, joint = q.f_joint(jnp.asarray(X))
    np.testing.assert_allclose(joint_mean, mean, atol=1e-10)
    np.testing.assert_allclose(np.diag(joint), np.diag(cov) + resid, atol=1e-10)


@pytest.mark.parametrize("how", ["kmeans", "greedy"])
def test_selection_is_deterministic(how):
    one, two = (select(X, how, 5, kernel=KERNEL, seed=1) for _ in range(2))
    assert one.shape == (5, 2)
    np.testing.assert_array_equal(one, two)


def test_greedy_sets_are_nested_and_few_rows_are_all_taken():
    np.testing.assert_array_equal(select(X, "greedy", 4, kernel=KERNEL), select(X, "greedy", 8, kernel=KERNEL)[:4])
    assert len(select(np.repeat(X[:3], 4, axis=0), "kmeans", 10)) == 3


def test_selection_says_what_is_wrong():
    with pytest.raises(ValueError, match="Unknown selection"):
        select(X, "random", 5)
    with pytest.raises(ValueError, match="needs a kernel"):
        select(X, "greedy", 5)
    with pytest.raises(ValueError, match="2 columns"):
        select(X, np.zeros((4, 3)))


def test_many_new_rows_are_predicted_in_blocks(monkeypatch):
    q = posterior(Model.sparse(KERNEL, likelihoods.BernoulliProbit(), Z, MEAN), Data.of(X, Y), SITES)
    new, sizes = RNG.normal(size=(17, 2)), []
    at_once = q.f(new)
    plain = SparsePosterior._marginals

    def counted(self, X_new):
        sizes.append(len(X_new))
        return plain(self, X_new)

    monkeypatch.setattr(SparsePosterior, "_marginals", counted)
    monkeypatch.setattr(sparse_prior, "CPU_BLOCK_SIZE", 5 * M)
    for got, wanted in zip(q.f(new), at_once, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-13)
    assert sizes == [5, 5, 5, 2]


@pytest.mark.parametrize("method, read", [(EP, evidence.ep), (VI, evidence.elbo)])
def test_sites_to_a_millionth_give_the_gradient_of_a_wide_prior(method, read):
    """The prior variance is 10⁴ times that of q: a remaining error of the sites must not be multiplied by that."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.sign(X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * rng.normal(size=400))
    model = Model.sparse(kernels.Matern52(30.0, 1e4), likelihoods.BernoulliProbit(), X[:20])
    with working_precision():
        model, data = to_host((model, Data.of(X, y)))
        trainable = Trainable.of(model)
        at, start = np.asarray(trainable.to_vector(model)), to_host(first_sites(model.likelihood, data))
        slopes = [
            profile(Objective(method(tol=tol), read, "fixed", trainable), model, data, at, start).gradient
            for tol in (1e-6, 1e-11)
        ]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=2e-6 * len(y))


def test_only_one_lengthscale_per_column_of_several_scales_the_clusters():
    """A kernel on chosen columns has its lengthscales in their order, and one column has one unit anyway."""
    assert has_lengthscales(kernels.RBF([0.5, 2.0]), 2)
    assert not has_lengthscales(kernels.RBF([0.5, 2.0], active_dims=(1, 0)), 2)
    assert not has_lengthscales(kernels.RBF([0.5]), 1)
    assert not has_lengthscales(kernels.RBF(0.5), 2) and not has_lengthscales(kernels.Linear(0.5), 2)


def test_precisions_that_need_jitter_give_finite_marginals_unless_one_is_negative():
    features = SparsePrior(KERNEL, Z, MEAN).gram(jnp.asarray(X)).features
    w = np.full(N, 0.5)
    w[0] = 1e40
    b = np.ones(N)
    found, _ = conditioning.condition(to_host(features), b, w)
    assert found.jitter > 0 and np.all(np.isfinite(found.mean)) and np.isfinite(found.log_z)
    w[1] = -0.5
    found, _ = conditioning.condition(to_host(features), b, w)
    assert np.all(np.isnan(found.mean))
