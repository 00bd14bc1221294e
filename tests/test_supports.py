"""Every support obeys the laws of its maps, on NumPy and on JAX arrays, and refuses what lies outside it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise.arrays.engine import is_host
from sitewise.process.precision import working_precision
from sitewise.supports import Bounded, Ordered, Positive, Real, Simplex

# A support with values in it, and values that it must refuse.
CASES = {
    "real": (Real(), [-3.0, 0.0, 2.5], [np.nan]),
    "positive": (Positive(), [1e-4, 1.0, 300.0], [0.0]),
    "softplus": (Positive("softplus"), [1e-4, 1.0, 300.0], [-1.0]),
    "bounded": (Bounded(-1.0, 3.0), [-0.9999, 0.0, 2.7], [3.0]),
    "simplex": (Simplex(), [0.2, 0.5, 0.3], [0.2, 0.5, 0.4]),
    "simplexes": (Simplex(), [[0.2, 0.8], [0.999, 0.001]], [[0.2, 0.8], [1.0, 0.0]]),
    "ordered": (Ordered(), [-2.0, 0.1, 0.2], [0.0, 1.0, 1.0]),
    "ordered-rows": (Ordered(), [[-2.0, 0.1], [3.0, 5.0]], [[0.0, 1.0], [1.0, 0.5]]),
}


@pytest.fixture(params=CASES)
def case(request):
    support, value, _ = CASES[request.param]
    with working_precision():
        yield support, np.array(value)


def test_round_trip(case):
    support, value = case
    raw = support.forward(value)
    assert raw.shape == support.raw_shape(value.shape) and is_host(raw)
    np.testing.assert_allclose(support.backward(raw), value, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(support.forward(support.backward(raw)), raw, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jax.jit(support.backward)(jnp.asarray(raw)), value, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(jax.jit(support.forward)(jnp.asarray(value)), raw, rtol=1e-9, atol=1e-12)


def test_pull_is_the_vector_jacobian_product(case):
    support, value = case
    raw, bar = support.forward(value), np.random.default_rng(0).normal(size=value.shape)
    wanted = jax.vjp(support.backward, jnp.asarray(raw))[1](jnp.asarray(bar))[0]
    assert is_host(support.pull(raw, bar))
    np.testing.assert_allclose(support.pull(raw, bar), wanted, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(jax.jit(support.pull)(raw, bar), wanted, rtol=1e-10, atol=1e-14)


def test_log_volume_is_that_of_the_jacobian(case):
    support, value = case
    raw = jnp.asarray(support.forward(value))

    def free(raw):
        """All values but those that the others determine."""
        values = support.backward(raw)
        return jnp.ravel(values[..., :-1] if isinstance(support, Simplex) else values)

    jacobian = jax.jacobian(free)(raw).reshape(raw.size, raw.size)
    np.testing.assert_allclose(support.log_volume(raw), np.linalg.slogdet(jacobian)[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(support.log_volume(np.asarray(raw)), support.log_volume(raw), rtol=1e-13)


@pytest.mark.parametrize("transform", ["log", "softplus"])
def test_without_a_prior_a_positive_parameter_is_log_uniform(transform):
    support, value = Positive(transform), np.array([0.3, 2.0])
    raw = support.forward(value)
    np.testing.assert_allclose(support.log_flat(raw), support.log_volume(raw) - np.sum(np.log(value)), atol=1e-12)


@pytest.mark.parametrize("raw", [-800.0, -40.0, 40.0, 800.0])
@pytest.mark.parametrize("support", [Bounded(-1.0, 3.0), Simplex()])
def test_far_out_values_and_slopes_are_finite(support, raw):
    with np.errstate(all="raise", under="ignore"):
        value = support.backward(np.array([raw]))
        assert np.all(np.isfinite(value)) and np.all(np.isfinite(support.pull(np.array([raw]), np.ones_like(value))))
        assert np.isfinite(support.log_volume(np.array([raw])))


@pytest.mark.parametrize("name", CASES)
def test_values_outside_have_a_sentence(name):
    support, inside, outside = CASES[name]
    assert support.problem(np.array(inside)) == ""
    assert support.problem(np.array(outside)).startswith("must be ")


@pytest.mark.parametrize("support", [Simplex(), Ordered()])
def test_one_number_is_no_list(support):
    assert "list" in support.problem(np.array(1.0))


def test_equal_supports_are_one_key_and_different_ones_are_not():
    assert len({Bounded(0.0, 1.0), Bounded(0.0, 1.0)}) == 1
    kinds = [Real(), Positive(), Positive("softplus"), Bounded(0.0, 1.0), Bounded(0.0, 2.0), Simplex(), Ordered()]
    assert all(a != b for a, b in itertools.combinations(kinds, 2))
    assert [repr(kind) for kind in kinds[2:5]] == ["positive(softplus)", "bounded(0, 1)", "bounded(0, 2)"]


def test_ends_of_an_interval_are_checked():
    for low, high in ((1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)):
        with pytest.raises(ValueError, match="low < high"):
            Bounded(low, high)


def test_labels_say_what_the_raw_values_are():
    assert Real().labels("a", ()) == ["a"]
    assert Bounded(0.0, 1.0).labels("a", (2,)) == ["a[0]", "a[1]"]
    assert Simplex().labels("w", (3,)) == ["w[0]/w[2]", "w[1]/w[2]"]
    assert Ordered().labels("b", (2, 2)) == ["b[0]", "b[1]-b[0]", "b[2]", "b[3]-b[2]"]


def test_limits_are_in_the_units_of_the_parameter():
    np.testing.assert_allclose(Real().limits("a", (2,), (-1.0, 4.0)), [[-1.0, 4.0]] * 2)
    np.testing.assert_allclose(Positive().limits("a", (), (0.5, 4.0)), np.log([[0.5, 4.0]]))
    np.testing.assert_allclose(Positive().limits("a", (), None), np.log([[1e-5, 1e6]]))
    soft = Positive("softplus")
    np.testing.assert_allclose(soft.backward(soft.limits("a", (), (0.5, 4.0))), [[0.5, 4.0]])
    inside = Bounded(0.0, 2.0)
    np.testing.assert_allclose(inside.backward(inside.limits("a", (), (0.5, 9.0))), [[0.5, 2.0]], atol=1e-5)
    assert np.all(np.isfinite(inside.limits("a", (), None)))
    assert Simplex().limits("w", (3,), None).shape == (2, 2)
    assert np.all(np.isinf(Ordered().limits("b", (2,), None)) == [[True, True], [False, False]])


@pytest.mark.parametrize(
    ("support", "bounds", "words"),
    [
        (Real(), (1.0, 0.0), r"\(low, high\) with low < high"),
        (Real(), 3.0, r"\(low, high\) with low < high"),
        (Positive(), (1.0, 2.0, 3.0), r"\(low, high\) with low < high"),
        (Positive(), (-2.0, -1.0), "is positive"),
        (Bounded(0.0, 1.0), (2.0, 3.0), r"must overlap \(0, 1\)"),
        (Simplex(), (0.1, 0.9), "takes no bounds"),
        (Ordered(), (0.1, 0.9), "takes no bounds"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(support, bounds, words):
    with pytest.raises(ValueError, match=words):
        support.limits("a", (3,), bounds)
