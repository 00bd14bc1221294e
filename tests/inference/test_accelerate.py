"""Combined updates lead to the fixed point of plain ones, in fewer steps, and give way where they do not help."""

import numpy as np
import pytest

from sitewise import EP, VI, Data, Model, kernels, likelihoods
from sitewise.inference import accelerate, loop
from sitewise.priors.sparse.sparse_prior import SparseCovariance

RNG = np.random.default_rng(2)
X = RNG.normal(size=(200, 2))
F = 2 * np.sin(2 * X[:, 0]) + X[:, 1]
TARGETS = {
    "labels": (likelihoods.BernoulliProbit(), np.sign(F + 0.3 * RNG.normal(size=200))),
    "counts": (likelihoods.Poisson(), RNG.poisson(np.exp(0.5 * F)).astype(float)),
    "outliers": (likelihoods.StudentT(), F + RNG.standard_t(2, size=200)),
}


def problem(name: str, variance: float = 4.0) -> tuple[Model, Data]:
    likelihood, y = TARGETS[name]
    return Model.sparse(kernels.Matern52(1.5, variance), likelihood, X[:15]), Data.of(X, y)


def products(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts products with Σ∘Σ, which only Newton's directions need."""
    seen: list[int] = []
    plain = SparseCovariance.squared_times
    monkeypatch.setattr(SparseCovariance, "squared_times", lambda self, x: (seen.append(1), plain(self, x))[1])
    return seen


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", [EP(), VI()], ids=["ep", "vi"])
def test_the_same_sites_as_without(monkeypatch, method, name):
    model, data = problem(name)
    found = method.solve(model, data)
    monkeypatch.setattr(accelerate, "with_point", lambda seen, point: None)
    plain = method.solve(model, data)
    assert found.outcome.ok and plain.outcome.ok
    for one, other in zip(found.sites, plain.sites, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_near_the_solution_no_direction_of_newton_is_needed(monkeypatch):
    model, data = problem("labels")
    start = EP().solve(model, data).sites
    moved = Model.sparse(kernels.Matern52(1.4, 5.0), model.likelihood, X[:15])
    seen = products(monkeypatch)
    assert EP(tol=1e-6).solve(moved, data, start).outcome.ok and not seen


def test_fewer_steps_than_by_plain_updates(monkeypatch):
    model, data = problem("outliers", 20.0)
    found = VI(tol=1e-6).solve(model, data)
    monkeypatch.setattr(accelerate, "direction", lambda seen, var: seen[-1].gap)
    assert found.outcome.ok and found.stats.steps + 3 < VI(tol=1e-6).solve(model, data).stats.steps


def test_newton_follows_where_four_steps_do_not_halve_the_residual(monkeypatch):
    model, data = problem("labels")
    monkeypatch.setattr(accelerate, "direction", lambda seen, var: type(seen[-1].gap)(*(0 * g for g in seen[-1].gap)))
    seen = products(monkeypatch)
    found = EP().solve(model, data)
    assert found.outcome.ok and seen  # steps that lead nowhere were left


def test_of_joint_classes_and_full_priors_nothing_is_combined(monkeypatch):
    def refuse(*_):
        raise AssertionError("combined")

    monkeypatch.setattr(accelerate, "direction", refuse)
    classes = Data.of(X, RNG.integers(3, size=200))
    assert VI().solve(Model.sparse(kernels.RBF(), likelihoods.Softmax(3), X[:8]), classes).outcome.ok
    full = Model.full(kernels.RBF(), TARGETS["labels"][0])
    assert EP().solve(full, Data.of(X, TARGETS["labels"][1])).outcome.ok


def test_the_update_at_predicted_marginals_is_near_the_solution():
    """The prediction of other rows is what the cavity of a row is like."""
    model, data = problem("labels")
    half = Data.of(X[::2], np.asarray(data.y)[::2])
    posterior = model.prior.posterior(half.X, EP().solve(model, half).sites)
    mean, var = posterior.marginals(X)
    q = model.prior.gram(np.asarray(data.X)).condition(EP().solve(model, data).sites)._replace(
        mean=mean, var=var, resid=np.zeros(200)
    )  # fmt: skip
    start = loop.update_at(EP(), model.likelihood, data, q)
    assert EP().solve(model, data, start).stats.steps < EP().solve(model, data).stats.steps
