"""Laws of kernels of levels, of duels and of additive effects."""

import numpy as np
import pytest

import sitewise as sw
from cases import problem
from sitewise import evidence, kernels, likelihoods
from sitewise.inference.solve import solve
from sitewise.kernels.terms import level_columns
from sitewise.predict import posterior
from sitewise.priors.inducing import select

X, y = problem("probit", 14)
LEVELS = np.arange(14) % 2.0
GROUPED = np.column_stack([X, LEVELS])
NEW = np.column_stack([np.random.default_rng(3).normal(size=(5, 2)), [0.0, 1, 0, 1, 1]])
SMOOTH = kernels.Matern52(0.9, 1.4)
ON_X = kernels.Matern52(0.9, 1.4, active_dims=(0, 1))


def fitted(kernel, rows=X, target=y, likelihood=None, method=None):
    model, data = sw.Model.full(kernel, likelihood or likelihoods.BernoulliProbit()), sw.Data.of(rows, target)
    sites = solve(method or sw.EP(), model, data).sites
    return posterior(model, data, sites), float(evidence.ep(model, data, sites))


def test_levels_that_are_all_one_are_pooled():
    alike = kernels.Index(2, rank=1, levels=2, loadings=np.ones((2, 1)), kappa=1e-14)
    (q, log_z), (pooled, other) = fitted(ON_X * alike, GROUPED), fitted(SMOOTH)
    assert log_z == pytest.approx(other, abs=1e-8)
    for one, two in zip(q.f(NEW), pooled.f(NEW[:, :2]), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-8)


@pytest.mark.parametrize(
    "own", [kernels.Index(2), kernels.Index(2, rank=1, levels=2, loadings=np.zeros((2, 1)), kappa=[1.0, 1.0])]
)
def test_levels_without_covariance_are_separate_models(own):
    q, log_z = fitted(ON_X * own, GROUPED)
    total = 0.0
    for level in (0.0, 1.0):
        alone, part = fitted(SMOOTH, X[level == LEVELS], y[level == LEVELS])
        total += part
        here = NEW[:, 2] == level
        for one, two in zip(q.f(NEW[here]), alone.f(NEW[here, :2]), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-8)
    assert log_z == pytest.approx(total, abs=1e-8)


def test_new_levels_have_the_prior():
    kernel = kernels.Index(0, rank=2, levels=3, kappa=[0.2, 0.4, 0.6])
    B = kernel.matrix_of_levels
    rows = np.array([[0.0], [2.0], [7.0], [7.0], [-1.0], [0.5]])
    K = kernel.matrix(rows)
    np.testing.assert_allclose(K[:2, :2], B[np.ix_([0, 2], [0, 2])], atol=1e-14)
    np.testing.assert_allclose(np.diag(K)[2:], np.mean(np.diag(B)))
    assert K[2, 3] == K[2, 2] and not np.any(K[2, [0, 1, 4, 5]]) and not np.any(K[4:, :4])
    q, _ = fitted(ON_X * kernels.Index(2, kappa=0.7), GROUPED)
    mean, var = q.f([[0.1, 0.2, 9.0]])
    assert mean[0] == 0.0 and var[0] == pytest.approx(0.7 * 1.4, rel=1e-12)


def test_crossed_and_nested_levels():
    a, b = kernels.Index(0), kernels.Index(1)
    rows = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal((a * b).matrix(rows), np.eye(4))
    np.testing.assert_array_equal((a + a * b).matrix(rows), np.kron(np.eye(2), np.ones((2, 2))) + np.eye(4))


def test_levels_that_are_no_levels_are_refused():
    model = sw.Model.full(
        kernels.Index(0, rank=1, levels=2) * kernels.RBF(active_dims=1), likelihoods.BernoulliProbit()
    )
    with pytest.raises(ValueError, match="must hold the levels 0 to 1"):
        sw.VI().solve(model, sw.Data.of(X, y))
    with pytest.raises(ValueError, match="needs the number of levels"):
        kernels.Index(1, rank=2)
    with pytest.raises(ValueError, match="counted from 0 to 1"):
        kernels.Index(5).check(2)


def test_inducing_inputs_keep_levels():
    kernel = ON_X + kernels.Index(2)
    assert level_columns(kernels.Pairwise(kernel), range(6)) == {2, 5}
    Z = select(GROUPED, "kmeans", 6, kernel=kernel)
    assert set(Z[:, 2]) == {0.0, 1.0} and all(any(np.all(z == row) for row in GROUPED) for z in Z)
    centres = sw.Model.sparse(kernel, likelihoods.BernoulliProbit(), GROUPED[:3] + 0.25)
    with pytest.raises(ValueError, match="holds levels"):
        sw.VI().solve(centres, sw.Data.of(GROUPED, y))


DUELS = np.column_stack([X[:7], X[7:]])


def test_a_duel_is_antisymmetric_and_blind_to_a_constant():
    swapped = np.column_stack([X[7:], X[:7]])
    kernel = kernels.Pairwise(SMOOTH)
    np.testing.assert_allclose(kernel.matrix(swapped, DUELS), -kernel.matrix(DUELS), atol=1e-14)
    np.testing.assert_allclose(kernel.variances(np.column_stack([X, X])), 0.0, atol=1e-14)
    shifted = kernels.Pairwise(SMOOTH + kernels.Constant(50.0))
    np.testing.assert_allclose(shifted.matrix(DUELS), kernel.matrix(DUELS), atol=1e-12)
    q, _ = fitted(kernel, DUELS, y[:7])
    np.testing.assert_allclose(q.f(swapped)[0], -q.f(DUELS)[0], atol=1e-12)
    np.testing.assert_allclose(q.f(swapped)[1], q.f(DUELS)[1], atol=1e-12)
    np.testing.assert_allclose(q.probability(swapped) + q.probability(DUELS), 1.0, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_differences_of_utilities_are_the_duels(sparse):
    kernel, data = kernels.Pairwise(SMOOTH), sw.Data.of(DUELS, y[:7])
    probit = likelihoods.BernoulliProbit()
    model = sw.Model.sparse(kernel, probit, DUELS[:4]) if sparse else sw.Model.full(kernel, probit)
    q = posterior(model, data, solve(sw.VI(), model, data).sites)
    items = np.random.default_rng(1).normal(size=(6, 2))
    mean, cov = q.utility().f_joint(items)
    D = np.eye(6)[:3] - np.eye(6)[3:]
    duels = np.column_stack([items[:3], items[3:]])
    np.testing.assert_allclose(D @ mean, q.f_joint(duels)[0], atol=1e-10)
    np.testing.assert_allclose(D @ cov @ D.T, q.f_joint(duels)[1], atol=1e-10)
    with pytest.raises(ValueError, match="Pairwise"):
        fitted(SMOOTH)[0].utility()


def test_effects_have_the_mean_0_and_pairs_over_either_column():
    kernel = kernels.Additive.of(X, order=2)
    q, _ = fitted(kernel)
    nodes, share = kernel.effects[0].nodes[:, 0], kernel.effects[0].weight
    for other in (-0.7, 0.4):
        rows = np.column_stack([nodes, np.full(len(nodes), other)])
        for name in ("x0", "x0 × x1"):
            mean, cov = q.part(name).f_joint(rows)
            assert abs(share @ mean) < 1e-12 and share @ cov @ share < 1e-12
    assert q.terms() == ["offset", "x0", "x1", "x0 × x1"]
    assert fitted(kernels.Additive.of(X, order=1, columns=[1]))[0].terms(["a", "b"]) == ["offset", "b"]


def test_the_centred_kernel_is_the_process_given_its_mean():
    """Against conditioning f on Σ w f(nodes) = 0 by dense algebra."""
    base, nodes, w = kernels.RBF(0.8, 1.3), np.array([[-0.6], [0.4], [1.0]]), np.array([0.5, 0.2, 0.3])
    rows = np.linspace(-2, 2, 5)[:, None]
    K = base.matrix(np.concatenate([rows, nodes]))
    c = np.concatenate([np.zeros(5), w])
    want = (K - np.outer(K @ c, K @ c) / (c @ K @ c))[:5, :5]
    np.testing.assert_allclose(kernels.Centred(base, nodes, w).matrix(rows), want, atol=1e-13)
