"""The elimination order of sums of parts."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from sitewise import Model, Sites, likelihoods, parts
from sitewise.priors import Marginals
from sitewise.priors.precision import assembly
from sitewise.process.precision import working_precision


def crossed(rows: int, students: int, lecturers: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, students, rows), rng.integers(0, lecturers, rows)]).astype(float)


def prior(*chosen: Any) -> Any:
    return Model.latent([*chosen, parts.Constant()], likelihoods.BernoulliLogit()).prior


@pytest.mark.parametrize("larger", [0, 1])
def test_the_larger_of_crossed_groups_is_eliminated_first(larger: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marginals and log Z are the same as with both groups in the tree of fronts."""
    X = crossed(700, 150, 60)[:, [larger, 1 - larger]]
    rng = np.random.default_rng(1)
    sites = Sites(rng.normal(size=700), rng.uniform(0.0, 2.0, 700))
    chosen = parts.Levels(0, variance=0.7), parts.Levels(1, variance=2.0)
    with working_precision():
        gram = prior(*chosen).gram(X)
        found, solved = gram.condition_with_factor(sites, None)
        assert len(gram.assembly.analysis.first.variables) == len(np.unique(X[:, larger]))
        monkeypatch.setattr(assembly, "MAX_FIRST_NEIGHBOURS", 0)
        other = prior(*chosen[::-1]).gram(X)
        want, solved_want = other.condition_with_factor(sites, None)
        assert other.assembly.analysis.first is None
        by_q = found._replace(mean=sites.nat1, var=sites.prec, log_z=np.ones(()), prior_mean=0 * found.mean)
        slope, slope_want = (g.pull(sites, s, found, by_q).entries for g, s in ((gram, solved), (other, solved_want)))
    np.testing.assert_allclose(found.mean, want.mean, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.var, want.var, rtol=1e-10)
    np.testing.assert_allclose(found.log_z, want.log_z, rtol=1e-11)
    np.testing.assert_allclose(np.sort(slope), np.sort(slope_want), rtol=1e-8, atol=1e-9)


def test_a_few_large_groups_are_not_eliminated_first() -> None:
    """Each would join all places that it touches."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(size=(400, 2)), rng.uniform(size=400), rng.integers(0, 20, 400)])
    with working_precision():
        gram = prior(parts.Map((0, 1), neighbours=6), parts.Series(2), parts.Levels(3)).gram(X)
    assert gram.assembly.analysis.first is None


def test_maps_of_both_functions_are_dissected_together() -> None:
    X = np.random.default_rng(0).uniform(size=(600, 2))
    kept = [parts.Map((0, 1)), parts.Map((0, 1))]
    one = assembly.Assembly(kept[:1], X).analysis.factor_entries
    both = assembly.Assembly(kept, X, (0, 1)).analysis.factor_entries
    assert both < 4.2 * one  # fronts of twice the size have four times the entries
    apart = [parts.Map((0, 1)), parts.Map((0, 1), sphere=True)]  # other coordinates: by the graph
    assert assembly.Assembly(apart, X, (0, 1)).analysis.factor_entries > both


def test_without_a_factor_values_and_derivatives_are_nan() -> None:
    X = np.linspace(0.0, 1.0, 6)[:, None]
    with working_precision():
        gram, pull = prior(parts.Series(0)).gram_with_pull(X)
        sites = Sites(np.zeros(6), np.full(6, -1e3))
        q, factor = gram.condition_with_factor(sites, None)
        assert np.isnan(q.log_z)
        zeros = np.zeros(6)
        bar = gram.pull(sites, factor, q, Marginals(zeros, zeros, zeros, np.array(1.0), zeros, np.zeros(())))
        assert all(np.all(np.isnan(leaf)) for leaf in (bar.entries, bar.mean, bar.log_det))
        assert all(np.all(np.isnan(value)) for value in jax.tree.leaves(pull(bar).kernel))
