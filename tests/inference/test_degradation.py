"""Where a method does not converge: its fallbacks first, then an outcome that says which sites these are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import problem
from sitewise import EP, VI, Data, Model, Nested, Outcome, evidence, kernels, likelihoods, parameters
from sitewise.inference.solve import solve
from sitewise.sites import Sites
from sitewise.types import module

X, Y = problem("probit", 12)
MODEL, DATA = Model.full(kernels.Matern52(0.8, 4.0), likelihoods.BernoulliProbit()), Data.of(X, Y)


@dataclasses.dataclass(frozen=True)
class Stubborn(EP):
    """EP that finds its sites only with damped steps, or only at half the power, or never."""

    works: str = "never"

    def propose(self, likelihood, data, q, sites):
        if (self.works == "damped" and self.damping < 1) or (self.works == "half" and self.power < 1):
            return super().propose(likelihood, data, q, sites)
        return Sites(sites.nat1 + 1.0, sites.prec + 1.0)


@pytest.mark.parametrize(
    ("works", "outcome"),
    [("damped", Outcome.CONVERGED), ("half", Outcome.FRACTIONAL), ("never", Outcome.STEP_CAP)],
)
def test_damped_then_fractional_then_said(works, outcome):
    solution = Stubborn(works=works, max_steps=60).solve(MODEL, DATA)
    assert solution.outcome is outcome and len(outcome.advice) > 50
    if works != "never":
        right = EP(power=0.5 if works == "half" else 1.0).solve(MODEL, DATA)
        np.testing.assert_allclose(solution.sites.prec, right.sites.prec, atol=1e-6)


def test_a_learner_says_that_its_sites_are_fractional():
    fit = Nested(Stubborn(works="half", max_steps=60), evidence.ep, fixed=("*",)).fit(MODEL, DATA)
    assert fit.solution.outcome is Outcome.FRACTIONAL and not fit.converged
    assert "fractional EP" in fit.report()
    assert fit.objective == pytest.approx(fit.evidences["ep"], abs=1e-9)


def test_damped_steps_reach_the_same_sites():
    sharp, slow = VI().solve(MODEL, DATA), VI(damping=0.3, max_steps=400).solve(MODEL, DATA)
    assert slow.outcome is Outcome.CONVERGED and slow.stats.steps > sharp.stats.steps
    np.testing.assert_allclose(sharp.sites.prec, slow.sites.prec, atol=1e-6)


def test_a_bad_start_is_left_for_the_likelihoods_own():
    bad = Sites(jnp.full(12, np.nan), jnp.full(12, np.nan))
    assert solve(VI(), MODEL, DATA, bad).outcome is Outcome.CONVERGED


@module
class Broken(likelihoods.BernoulliProbit):
    def log_prob(self, y, f):
        return jax.numpy.nan * f


def test_a_start_that_is_not_finite_is_a_value_error_with_advice():
    with pytest.raises(ValueError, match=r"not finite at the starting point\. .* Check that the lengthscale matches"):
        Nested(VI(), evidence.elbo).fit(Model.full(kernels.Matern52(), Broken()), DATA)


def test_a_settled_point_replaces_a_start_that_is_not(monkeypatch):
    """The evidence of sites that are no solution may be anything; it must not be what learning is measured by."""
    from sitewise.learning import problem

    real, calls = problem.profile, []

    def first_is_garbage(*args):
        out = real(*args)
        calls.append(out)
        if len(calls) > 1:
            return out
        stats = out.solution.stats._replace(residual=jnp.asarray(1.0))
        unsettled = out.solution._replace(code=jnp.asarray(Outcome.STALLED), stats=stats)
        return out._replace(value=out.value + 1000.0, solution=unsettled)

    monkeypatch.setattr(problem, "profile", first_is_garbage)
    monkeypatch.setattr(problem, "solve_by_fallbacks", lambda method, model, data, failed: failed)
    fit = Nested(VI(), evidence.elbo).fit(MODEL, DATA)
    assert fit.converged and fit.objective < 0
    assert parameters.values(fit.model)["kernel.lengthscale"] != 0.8
