"""`value_and_grad` and the derivative of `solve`: against differences, on both engines, and what they refuse."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, means, value_and_grad
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 2))
Y = X[:, 0] + 0.2 * RNG.normal(size=9)
Y[3] += 4.0  # an outlier: Laplace's Hessian is negative there
DATA = Data.of(X, Y)


def _model(scale=0.4):
    return Model.full(kernels.Matern52([0.9, 1.2], 1.4), likelihoods.StudentT(scale), means.Constant(0.1))


MODEL = _model()
TRAINABLE = Trainable.of(MODEL)
PAIRS = {
    "laplace": (Laplace(tol=1e-11), evidence.laplace),
    "hybrid": (VI(tol=1e-11), evidence.ep),
    "ep, loo": (EP(tol=1e-11), evidence.loo),
}


def _differences(function, vector, step=1e-5):
    moves = step * np.eye(len(vector))
    return np.array([(function(vector + h) - function(vector - h)) / (2 * step) for h in moves])


@pytest.mark.parametrize("pair", ["laplace", "hybrid", pytest.param("ep, loo", marks=pytest.mark.slow)])
def test_the_gradient_is_that_of_the_profile(pair):
    objective, vector = value_and_grad(*PAIRS[pair]), TRAINABLE.to_vector(MODEL)
    value, slopes = objective(MODEL, DATA)
    want = _differences(lambda v: objective(TRAINABLE.from_vector(MODEL, v), DATA)[0], vector)
    np.testing.assert_allclose(TRAINABLE.pull(vector, slopes), want, rtol=1e-6, atol=1e-6)
    method, read = PAIRS[pair]
    assert value == pytest.approx(float(read(MODEL, DATA, method.solve(MODEL, DATA).sites)), abs=1e-9)
    assert jax.tree.structure(slopes) == jax.tree.structure(MODEL)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["laplace", "hybrid"])
def test_jit_vmap_and_reverse_mode_through_solve_agree(pair):
    method, read = PAIRS[pair]
    value, slopes = value_and_grad(method, read)(MODEL, DATA)
    others = jnp.stack([DATA.y, DATA.y[::-1]])
    with working_precision():
        stacked = dataclasses.replace(DATA, y=others)
        axes = dataclasses.replace(DATA, X=None, y=0, weight=None)
        values, many = jax.jit(jax.vmap(value_and_grad(method, read), in_axes=(None, axes)))(MODEL, stacked)
        through = jax.grad(lambda model: read(model, DATA, method.solve(model, DATA).sites))(MODEL)
    assert values[0] == pytest.approx(float(value), abs=1e-9)
    for here, mapped, by_hand in zip(*map(jax.tree.leaves, (slopes, many, through)), strict=True):
        np.testing.assert_allclose(mapped[0], here, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(by_hand, here, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", [Laplace(tol=1e-12), pytest.param(EP(tol=1e-12), marks=pytest.mark.slow)])
def test_solve_is_differentiable_in_the_data(method):

    def total(y):
        return jnp.sum(method.solve(MODEL, Data(X, y, np.ones(9))).sites.nat1)

    with working_precision():
        slope = np.asarray(jax.grad(total)(jnp.asarray(Y)))[:2]
    h = 1e-5 * np.eye(9)
    want = [(float(total(Y + h[i])) - float(total(Y - h[i]))) / 2e-5 for i in range(2)]
    np.testing.assert_allclose(slope, want, rtol=1e-5)


def test_forward_mode_is_refused_in_one_sentence():
    def value(scale):
        model = _model(scale)
        return evidence.laplace(model, DATA, Laplace().solve(model, DATA).sites)

    with pytest.raises(TypeError, match=r"no forward-mode derivative.*use jax\.grad"):
        jax.jvp(value, (0.4,), (1.0,))
    with pytest.raises(TypeError, match="is itself the gradient"):
        jax.grad(lambda scale: value_and_grad(Laplace(), evidence.laplace)(_model(scale), DATA)[0])(0.4)


def test_the_solution_comes_with_it_and_can_start_the_next_one():
    objective = value_and_grad(VI(), evidence.ep, has_aux=True)
    (value, solution), _ = objective(MODEL, DATA)
    (again, quick), _ = objective(MODEL, DATA, solution.sites)
    assert solution.outcome.ok and quick.stats.steps < solution.stats.steps
    assert again == pytest.approx(float(value), abs=1e-7)


def test_fixed_and_one_step_are_what_they_are_called():
    model, data = Model.full(kernels.RBF([0.9, 1.2], 1.4), likelihoods.BernoulliProbit()), Data.of(X, np.sign(Y))
    exact, held, one_step = (
        value_and_grad(VI(), evidence.elbo, gradient)(model, data)[1].prior.kernel.lengthscale
        for gradient in ("implicit", "fixed", "one_step")
    )
    np.testing.assert_allclose(held, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one_step, exact, rtol=1e-5, atol=1e-6)
    hybrid, paper = (value_and_grad(VI(), evidence.ep, g)(model, data)[1].prior.kernel for g in ("implicit", "fixed"))
    assert np.max(np.abs(hybrid.lengthscale - paper.lengthscale)) > 1e-4
    with pytest.raises(ValueError, match="gradient must be one of fixed, one_step, implicit"):
        value_and_grad(VI(), evidence.ep, "exact")


def test_inducing_inputs_have_a_gradient_too():
    model = Model.sparse(kernels.RBF(1.1), likelihoods.BernoulliProbit(), X[:3])
    data = Data.of(X, np.sign(Y))
    objective = value_and_grad(VI(tol=1e-11), evidence.elbo)
    slopes = objective(model, data)[1].prior.inducing
    moved = np.zeros((3, 2))
    moved[1, 0] = 1e-5
    values = [
        float(objective(Model.sparse(kernels.RBF(1.1), likelihoods.BernoulliProbit(), X[:3] + h), data)[0])
        for h in (moved, -moved)
    ]
    assert float(slopes[1, 0]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5)
