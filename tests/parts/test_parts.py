"""Parts of a latent function: Vecchia's approximation by brute force, scaled fields of areas, refusals."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

from sitewise import (
    EP,
    Data,
    GPClassifier,
    GPRegressor,
    Hyperparameters,
    Method,
    Model,
    evidence,
    kernels,
    likelihoods,
    parts,
    value_and_grad,
)
from sitewise.arrays.engine import to_host
from sitewise.numerics.sparse.forms import quadratic_forms
from sitewise.numerics.sparse.neighbours import coarse_to_fine, earlier_neighbours
from sitewise.parameters import values, with_values
from sitewise.parts_structure import Parts
from sitewise.process.precision import working_precision
from sitewise.sites import Sites


def test_the_order_starts_with_places_that_cover_the_region() -> None:
    places = np.random.default_rng(0).uniform(size=(400, 2))
    places[:200] *= 0.1  # a cluster
    order = coarse_to_fine(places)
    assert sorted(order) == list(range(400))
    first = places[order[:16]]
    gaps = np.linalg.norm(first[:, None] - first, axis=-1) + np.eye(16)
    assert gaps.min() > 0.05  # the mean distance of neighbours within the cluster is 0.004


@pytest.mark.parametrize("count", [1, 4])
def test_earlier_neighbours_are_the_nearest(count: int) -> None:
    places = np.random.default_rng(1).normal(size=(60, 2))
    found = earlier_neighbours(places, count)
    for i in range(60):
        distances = np.linalg.norm(places[:i] - places[i], axis=1)
        want = np.sort(distances)[:count]
        near = found[i][found[i] >= 0]
        np.testing.assert_allclose(np.sort(distances[near]), want)


TWO_AREAS = parts.Area(0, {0: [1], 1: []})
MANY_PAIRS = np.random.default_rng(0).uniform(size=(3000, 3))


def vecchia(prior: Model, X: np.ndarray, part: parts.Map) -> tuple[np.ndarray, np.ndarray]:
    """The dense covariance of places and their order, one conditional distribution after the other."""
    layout = part.layout(X)
    at = layout.positions
    K = np.asarray(part.kernel.matrix(at))
    cov = np.zeros((len(at), len(at)))
    for i in range(len(at)):
        near = layout.near[i][layout.near[i] >= 0]
        a = np.linalg.solve(K[np.ix_(near, near)], K[near, i])
        cov[i, :i] = cov[:i, i] = a @ cov[near, :i]
        cov[i, i] = K[i, i] - K[i, near] @ a + a @ cov[np.ix_(near, near)] @ a
    return cov, layout.index[:, 0]


def test_a_map_with_few_neighbours_equals_its_definition() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 4, (40, 2))
    X[-3:] = X[:3]  # repeated places
    part = parts.Map((0, 1), kernels.Matern32(0.8, 1.3), neighbours=4)
    model = to_host(Model.latent(part, likelihoods.Gaussian()))
    sites = Sites(rng.normal(size=40), rng.uniform(0.3, 2.0, 40))
    with working_precision():
        cov, place = vecchia(model, X, part)
        K = cov[np.ix_(place, place)]
        q = model.prior.gram(X).condition(sites)
        S = np.linalg.inv(np.eye(40) + K * sites.prec) @ K
        np.testing.assert_allclose(q.mean, S @ sites.nat1, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(q.var, np.diag(S), rtol=1e-6)
        log_z = -0.5 * np.linalg.slogdet(np.eye(40) + K * sites.prec)[1] + 0.5 * sites.nat1 @ S @ sites.nat1
        np.testing.assert_allclose(q.log_z, log_z, rtol=1e-7)
        mean, var = model.prior.posterior(X, sites).marginals(X)
        np.testing.assert_allclose(mean, q.mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(var, q.var, rtol=1e-8)
        both = model.prior.posterior(X, sites).joint(np.array([[1.0, 1.0], [1.0, 1.0], [1.01, 1.0]]))[1]
        assert abs(both[0, 1] - both[0, 0]) < 1e-8  # equal new places agree
        assert both[0, 2] / np.sqrt(both[0, 0] * both[2, 2]) > 0.9  # close ones are correlated beyond their neighbours


def test_the_gradient_of_a_map_with_few_neighbours_equals_differences() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 4, (30, 2))
    data = Data.of(X, np.where(rng.normal(size=30) + np.sin(X[:, 0]) > 0, 1.0, -1.0))
    part = parts.Map((0, 1), kernels.Matern52([0.8, 1.2], 1.3), neighbours=3)
    model = Model.latent([part, parts.Constant()], likelihoods.BernoulliProbit())
    at = value_and_grad(EP(tol=1e-12), evidence.ep)
    slope = at(model, data)[1].prior.kernel.parts[0].kernel
    for name, index, found in (("lengthscale", 1, slope.lengthscale[1]), ("variance", (), slope.variance)):
        path = f"kernel.parts.0.kernel.{name}"
        moved = []
        for sign in (1, -1):
            value = np.array(values(model)[path])
            value[index] += sign * 1e-5
            moved.append(float(at(with_values(model, {path: value}), data)[0]))
        np.testing.assert_allclose(found, (moved[0] - moved[1]) / 2e-5, rtol=1e-4)


def test_places_on_the_sphere_have_chords_as_distances() -> None:
    part = parts.Map((0, 1), kernels.Matern12(1000.0), sphere=True)
    with working_precision():
        places = np.array([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0], [180.0, 0.0], [-180.0, 0.0]])
        correlation = np.asarray(part.matrix(places))
    chord = 6371.0 * np.sqrt(2.0)
    np.testing.assert_allclose(correlation[0, 1:3], np.exp(-chord / 1000), rtol=1e-10)
    np.testing.assert_allclose(correlation[3, 4], 1.0, rtol=1e-10)  # the same place


def test_the_field_of_areas_is_the_scaled_inverse_of_the_laplacian() -> None:
    graph = parts.Graph.of({0: [1, 2], 1: [2], 2: [3], 3: [], 4: [5], 5: [], 6: []})
    R = np.zeros((7, 7))
    for i, j in graph.edges:
        R[i, j] = R[j, i] = -1.0
    R[np.diag_indices(7)] = -R.sum(axis=1)
    cov = np.linalg.pinv(R)
    for members in ([0, 1, 2, 3], [4, 5]):
        cov[np.ix_(members, members)] /= np.exp(np.mean(np.log(np.diag(cov)[members])))
    cov[6, 6] = 1.0  # an area without neighbours
    np.testing.assert_allclose(graph.field.covariance, cov, atol=1e-10)
    adjacency = (R < 0).astype(float)
    assert parts.Graph.of(adjacency) == graph
    assert hash(parts.Graph.of(adjacency)) == hash(graph)


def test_quadratic_forms_of_sparse_vectors_equal_solves() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 4, (50, 2))
    each = [
        parts.Map((0, 1), kernels.Matern32(0.8), neighbours=5),
        parts.Area(2, {0: [1], 1: [2], 2: []}, model="icar"),
    ]
    model = to_host(Model.latent(each, likelihoods.Gaussian()))
    X = np.column_stack([X, rng.integers(0, 3, 50)])
    with working_precision():
        factor = model.prior.gram(X).condition_with_factor(Sites(np.zeros(50), np.ones(50)), None)[1].factor
    index, weight = rng.integers(0, 50, (9, 4)), rng.normal(size=(9, 4))
    a = np.zeros((factor.analysis.size, 9))
    np.add.at(a, (index, np.arange(9)[:, None]), weight)
    np.testing.assert_allclose(quadratic_forms(factor, index, weight), np.sum(a * factor.solve(a), axis=0), rtol=1e-9)


def test_a_map_with_few_neighbours_says_where_it_is_computed() -> None:
    model = Model.latent(parts.Map((0, 1), neighbours=3), likelihoods.Gaussian())
    with pytest.raises(ValueError, match=r"outside of jax\.jit"):
        jax.jit(lambda X: model.prior.gram(X).mean)(np.zeros((9, 2)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Model.latent([], likelihoods.Gaussian()), "at least one part"),
        (lambda: Model.latent([kernels.RBF()], likelihoods.Gaussian()), "Map"),
        (lambda: parts.Map((0, 1), neighbours=0), "neighbours"),
        (lambda: parts.Map((0, 1, 2), sphere=True), "longitude"),
        (lambda: parts.Map(-1), "numbers of columns"),
        (lambda: parts.Area(0), "graph"),
        (lambda: parts.Area(0, {0: [5]}), "numbered from 0 to 0"),
        (lambda: parts.Area(0, np.zeros((2, 3))), "square"),
        (lambda: parts.Area(0, {0: []}, model="car"), "bym2"),
        (lambda: parts.Season(0, period=-1.0), "period"),
        (lambda: parts.Map("lon").check(3), "only an estimator"),
        (lambda: parts.Series(0, kernels.Matern32() + kernels.Constant()).check(2), "without noise"),
        (lambda: parts.Series(0, kernels.RBF()).check(2), "not a Markov process"),
        (lambda: parts.Levels(()).check(2), "levels"),
        (lambda: parts.Linear(()).check(2), "linear effects"),
        (lambda: parts.Map((0, 1)) * parts.Series(2), r"Write parts.Product\(\(a, b\)\)"),
        (lambda: parts.Product((parts.Map((0, 1)), kernels.Matern32())), "a pair of parts"),
        (lambda: parts.Product((parts.Map((0, 1)), parts.Series(2)), columns=3), "takes no columns"),
        (
            lambda: parts.Product((TWO_AREAS, TWO_AREAS)).layout(np.zeros((2, 2))),
            "Area in one",
        ),
        (
            lambda: parts.Product((parts.Map((0, 1)), parts.Series(2))).layout(MANY_PAIRS),
            "more than 20,000,000; round places or times",
        ),
        (lambda: parts.Product((parts.Map(("east", 1)), parts.Series(2))).check(3), "'east'"),
        (lambda: parts.Area(0, {0: [1], 1: []}).check_rows(np.array([[2.0]])), "areas 0 to 1"),
        (lambda: parts.Map((0, 1), sphere=True).check_rows(np.array([[10.0, 100.0]])), "latitude"),
    ],
)
def test_mistakes_are_named(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_levels_of_a_column_of_numbers_are_doubted() -> None:
    rng = np.random.default_rng(0)
    numbers, codes = rng.normal(size=(40, 1)), rng.integers(0, 6, (40, 1)).astype(float)
    structure = Parts.of([parts.Levels(0)])
    with pytest.warns(UserWarning, match=r"Levels\(0\) has 40 levels in 40 rows"):
        structure.own_kernel(numbers, [], 1.0)
    within = Parts.of([parts.Product((parts.Levels(0), parts.Linear(1)))])
    with pytest.warns(UserWarning, match=r"Levels\(0\) has 40 levels in 40 rows"):
        within.own_kernel(np.column_stack([numbers, numbers]), [], 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        structure.own_kernel(codes, [], 1.0)
        structure.own_kernel(np.arange(40.0)[:, None], [], 1.0)  # one effect per observation


def test_linear_effects_of_columns_far_from_zero_are_doubted() -> None:
    year = np.linspace(2000.0, 2020.0, 30)[:, None]
    with pytest.warns(UserWarning, match="the mean of column 0 is more than 10 standard deviations from zero"):
        Parts.of([parts.Linear(0)]).own_kernel(year, [], 1.0)
    with pytest.warns(UserWarning, match="the mean of column 1 is"):  # column 0 is constant
        Parts.of([parts.Linear((0, 1))]).own_kernel(np.column_stack([np.ones(30), year]), [], 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Parts.of([parts.Linear(0, centre=2010)]).own_kernel(year, [], 1.0)
        Parts.of([parts.Linear(0)]).own_kernel(year - 2000, [], 1.0)
    with pytest.raises(ValueError, match="centre has 2 numbers but there are 3 columns"):
        parts.Linear((0, 1, 2), centre=(1.0, 2.0)).check(3)


def test_centred_linear_effects_equal_those_of_centred_columns() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(3.0, 1.0, (30, 2)), rng.normal(size=30)
    given, moved = parts.Linear((0, 1), variance=2.0, centre=(3.0, -1.0)), parts.Linear((0, 1), variance=2.0)
    likelihood = likelihoods.Gaussian(0.3)
    one, other = (
        Model.latent([given, parts.Constant()], likelihood),
        Model.latent([moved, parts.Constant()], likelihood),
    )
    left, right = Data.of(X, y), Data.of(X - [3.0, -1.0], y)
    found, want = (EP().solve(model, data) for model, data in ((one, left), (other, right)))
    np.testing.assert_allclose(evidence.ep(one, left, found.sites), evidence.ep(other, right, want.sites), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(given.pairs(X, X)), np.asarray(moved.pairs(right.X, right.X)), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(given.diag(X)), np.diag(np.asarray(given.pairs(X, X))), rtol=1e-12)


def test_whitened_linear_effects_have_the_covariance_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    X, W, variance = rng.normal(size=(8, 3)), rng.normal(size=(3, 3)), np.array([1.0, 2.0, 3.0])
    part = parts.Linear((0, 1, 2), variance=variance, centre=0.5, whitening=W)
    covariance = (X - 0.5) @ (W * variance) @ W.T @ (X - 0.5).T
    np.testing.assert_allclose(part.matrix(X), covariance)
    np.testing.assert_allclose(part.variances(X), np.diagonal(covariance))
    y = rng.normal(size=8)
    model = GPRegressor(
        structure=[part], normalize_y=False, integrate=False,
        hyperparameters=Hyperparameters(fixed="*"), likelihood=likelihoods.Gaussian(0.3),
    ).fit(X, y)  # fmt: skip
    kernel = np.asarray(model.kernel_.matrix(X))
    want = kernel @ np.linalg.solve(kernel + 0.09 * np.eye(8), y)
    np.testing.assert_allclose(model.predict(X), want, atol=1e-9)
    with pytest.raises(ValueError, match=r"whitening has the shape \(2, 2\) but there are 3 columns"):
        parts.Linear((0, 1, 2), whitening=np.eye(2)).check(3)


def row_effects(model: GPRegressor | GPClassifier, groups: int, y: np.ndarray) -> list[str]:
    """The warnings of a fit with this many groups about effects per row."""
    X = np.column_stack([np.linspace(0, 1, len(y)), np.arange(len(y)) % groups])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.set_params(structure=[parts.Linear(0), parts.Levels(1)], method=Method("laplace", max_iter=1)).fit(X, y)
    return [str(one.message) for one in found if "as many levels as rows" in str(one.message)]


def test_effects_per_row_are_doubted_unless_the_observations_identify_them() -> None:
    y = np.random.default_rng(0).poisson(3.0, 30).astype(float)
    for model, target in ((GPRegressor(), y), (GPRegressor(likelihood="student_t"), y), (GPClassifier(), y > 2)):
        (message,) = row_effects(model, 30, target)
        assert message.startswith("Levels(1) has as many levels as rows")
        assert not row_effects(model, 15, target)
    assert not row_effects(GPRegressor(likelihood="poisson"), 30, y)  # overdispersed counts
    assert not likelihoods.ZeroInflatedPoisson().absorbs_row_effects
    assert not likelihoods.HeteroscedasticGaussian().absorbs_row_effects  # meta-analysis
    assert likelihoods.NegativeBinomial().absorbs_row_effects
    assert likelihoods.Switched([likelihoods.Poisson(), likelihoods.Gaussian()]).absorbs_row_effects


def test_repeated_rows_identify_an_effect_per_distinct_row() -> None:
    part, X = parts.Levels(0), np.arange(5.0)[:, None]
    assert part.is_effect_per_row(X, np.ones(5))
    assert not part.is_effect_per_row(X, np.full(5, 2.0))
    assert not parts.Levels(0, slope=1).is_effect_per_row(np.column_stack([X, X]), np.ones(5))


def test_rows_of_padding_do_not_change_a_map() -> None:
    """Padding repeats row 0 (`Data.pad`): the places, their order and the precision stay the same."""
    X = np.random.default_rng(1).uniform(size=(30, 2))
    part = parts.Map((0, 1), kernels.Matern32(0.3), neighbours=4)
    padded = Data.of(X, np.zeros(30)).pad(37).X
    plain, longer = part.layout(X), part.layout(np.asarray(padded))
    np.testing.assert_array_equal(longer.index[:30], plain.index)
    with working_precision():
        for one, other in zip(longer.precision(part), plain.precision(part), strict=True):
            np.testing.assert_array_equal(one, other)


def test_longitude_and_latitude_have_the_distance_of_the_chord() -> None:
    """By the haversine formula: chord = 2R √(sin²(Δlat/2) + cos lat cos lat' sin²(Δlon/2))."""
    rng = np.random.default_rng(6)
    A = np.column_stack([rng.uniform(-180, 180, 12), rng.uniform(-89, 89, 12)])
    east, north = np.radians(A).T
    half = np.sin((north[:, None] - north) / 2) ** 2
    half += np.cos(north)[:, None] * np.cos(north) * np.sin((east[:, None] - east) / 2) ** 2
    r = np.sqrt(3.0) * 2 * 6371.0 * np.sqrt(half) / 4000.0
    want = 1.3 * (1 + r) * np.exp(-r)
    part = parts.Map((0, 1), kernels.Matern32(4000.0, 1.3), neighbours=11, sphere=True)
    layout = part.layout(A)
    with working_precision():
        np.testing.assert_allclose(part.matrix(A), want, rtol=1e-9)
        values, log_det = layout.precision(part)
    Q = np.zeros((12, 12))
    Q[layout.i, layout.j] = Q[layout.j, layout.i] = values
    at = layout.index[:, 0]
    np.testing.assert_allclose(np.linalg.inv(Q)[np.ix_(at, at)], want, rtol=1e-8)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(want)[1], rtol=1e-8)


def test_a_small_map_has_a_dense_equivalent_for_mcmc() -> None:
    prior = Model.latent([parts.Map((0, 1), neighbours=19), parts.Levels(2)], likelihoods.Poisson()).prior
    assert prior.as_full(20).one_matrix
    assert not prior.as_full(21).one_matrix
    assert not prior.as_full().one_matrix


def test_a_map_with_as_many_neighbours_as_other_places_predicts_by_all_places() -> None:
    rng = np.random.default_rng(0)
    X, new = rng.uniform(size=(4, 2)), rng.uniform(size=(3, 2))
    part = parts.Map((0, 1), kernels.Matern32(0.5, 2.0), neighbours=3)
    with working_precision():
        found = part.layout(X).loads(part, new)
    assert found.variable.shape == (3, 4)
    K = np.asarray(part.pairs(X, X))
    want = np.diag(part.pairs(new, new) - part.pairs(new, X) @ np.linalg.solve(K, np.asarray(part.pairs(X, new))))
    np.testing.assert_allclose(found.residual, want, rtol=1e-7)
