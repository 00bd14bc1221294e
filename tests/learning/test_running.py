"""A series that goes on: the sites and predictions of inference on all rows, at the cost of the new ones."""

import itertools

import numpy as np
import pytest

from cases import LIKELIHOODS, METHODS, observations
from sitewise import VI, Data, Model, kernels, likelihoods, means, posterior
from sitewise.learning import running
from sitewise.learning.running import Running
from sitewise.priors import MarkovPrior
from sitewise.sites import Sites

KERNEL = kernels.Matern52(0.6, 1.5)
NEW = np.array([-1.0, 2.02, 10.3, 39.5, 41.0])[:, None]


def series(likelihood, rows=330, seed=3):
    rng = np.random.default_rng(seed)
    time = rng.uniform(0, rows / 8, rows)
    time[7] = time[3]
    time = np.sort(time)
    return time[:, None], observations(likelihood, np.sin(2 * time), rng)


def same(found, wanted, tolerance=1e-7):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("likelihood", "method"), [("poisson", "vi"), ("probit", "ep"), ("student-t", "laplace")])
def test_pieces_give_the_sites_of_all_rows(monkeypatch, likelihood, method):
    monkeypatch.setattr(running, "FIRST_ROWS_BEFORE", 8)  # too few: more have to be taken
    X, y = series(likelihood)
    model, inference = Model.markov(KERNEL, LIKELIHOODS[likelihood], means.Constant(0.2)), METHODS[method]
    run = Running.of(inference, model, Data.of(X[:300], y[:300]))
    cuts = [300, 301, 302, 320, 330]
    for start, end in itertools.pairwise(cuts):
        part = np.random.default_rng(end).permutation(np.arange(start, end))
        run = run.append(Data.of(X[part], y[part]))
        assert run.outcome.ok and 8 < run.solved < end and run.moved < 1e-9
    wanted = inference.solve(model, Data.of(X, y)).sites
    same(run.sites, wanted)
    q = posterior(model, Data.of(X, y), wanted)
    same(run.posterior.f(NEW), q.f(NEW))
    same(run.posterior.f_joint(NEW), q.f_joint(NEW))
    assert likelihood != "student-t" or np.min(wanted.prec) < 0


def test_the_cost_does_not_depend_on_the_rows_before():
    solved = []
    for rows in (310, 1010):
        X, y = series("poisson", rows)
        run = Running.of(VI(), Model.markov(KERNEL, LIKELIHOODS["poisson"]), Data.of(X[:-10], y[:-10]))
        solved.append(run.append(Data.of(X[-10:], y[-10:])).solved)
    assert solved[0] == solved[1] == 138


def test_a_process_that_never_forgets_is_solved_for_in_full():
    X, y = series("poisson", 200)
    model = Model.markov(KERNEL + kernels.Constant(0.5), LIKELIHOODS["poisson"])
    run = Running.of(VI(), model, Data.of(X[:190], y[:190])).append(Data.of(X[190:], y[190:]))
    assert run.solved == 200
    same(run.sites, VI().solve(model, Data.of(X, y)).sites)


def test_rows_between_and_rows_of_several_series_are_right():
    X, y = series("poisson", 60)
    order = np.random.default_rng(1).permutation(60)
    for model, rows in (
        (Model.markov(KERNEL, LIKELIHOODS["poisson"]), X),
        (Model.markov(KERNEL, LIKELIHOODS["poisson"], series=1), np.column_stack([X, np.arange(60) % 3])),
        (Model.full(KERNEL, LIKELIHOODS["poisson"]), X),
    ):
        run = Running.of(VI(), model, Data.of(rows[order[:50]], y[order[:50]]))
        run = run.append(Data.of(rows[order[50:]], y[order[50:]]))
        assert run.solved == 60
        q = posterior(model, Data.of(rows, y), VI().solve(model, Data.of(rows, y)).sites)
        same(run.posterior.f(rows[::7]), q.f(rows[::7]))


def test_other_rows_are_refused():
    X, y = series("poisson", 20)
    run = Running.of(VI(), Model.markov(KERNEL, likelihoods.Poisson()), Data.of(X, y))
    with pytest.raises(ValueError, match="counts 0, 1, 2"):
        run.append(Data.of(X + 50, y + 0.5))


@pytest.mark.parametrize(("kernel", "most"), [(kernels.Matern12(0.6, 1.5), 1.001), (KERNEL, 2.0)])
def test_the_bound_is_the_divergence_of_all_rows_that_are_held(kernel, most):
    """√(2 KL) of the posteriors of the first eight rows before and after a small change behind them, by matrices.

    It is that of the states, of which the rows of the second kernel are a part.
    """
    rng = np.random.default_rng(2)
    X, cut = np.sort(rng.uniform(0, 2, (14, 1)), axis=0), 8
    prior, b, w = MarkovPrior(kernel), rng.normal(size=14), rng.gamma(1.0, 2.0, 14)
    changed = Sites(np.where(np.arange(14) < cut, b, b + 1e-3), np.where(np.arange(14) < cut, w, 1.001 * w))
    q = prior.posterior(X, Sites(b, w))
    of = q.tail(cut, np.zeros((0, 1)))
    tail = Sites(*(a[cut:] for a in changed))
    out = of.gram.condition_with_factor(tail, None)[1]
    K = kernel.matrix(X)

    def exact(b, w):
        cov = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
        return (cov @ b)[:cut], cov[:cut, :cut]

    (m0, V0), (m1, V1) = exact(b, w), exact(*changed)
    inside = np.linalg.solve(V0, V1)
    twice = np.trace(inside) - cut - np.linalg.slogdet(inside)[1] + (m1 - m0) @ np.linalg.solve(V0, m1 - m0)
    assert 0.999 < of.moved(out) / np.sqrt(twice) < most
    again = of.joined(tail, out)
    same(again.marginals(X), prior.posterior(X, changed).marginals(X), 1e-3)
    same([a[cut:] for a in again.marginals(X)], [a[cut:] for a in prior.posterior(X, changed).marginals(X)], 1e-10)
