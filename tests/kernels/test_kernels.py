import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import KERNELS
from sitewise import kernels
from sitewise.arrays.engine import to_host
from sitewise.process.precision import working_precision

X = np.random.default_rng(0).normal(size=(9, 2))


@pytest.mark.parametrize("name", KERNELS)
def test_matrix_is_symmetric_semidefinite_and_agrees_with_its_diagonal(name):
    kernel = KERNELS[name]
    K = np.asarray(kernel.matrix(jnp.asarray(X)))
    np.testing.assert_allclose(K, K.T, atol=1e-13)
    np.testing.assert_allclose(np.diag(K), kernel.variances(jnp.asarray(X)), atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    np.testing.assert_allclose(kernel.matrix(jnp.asarray(X[:4]), jnp.asarray(X)), K[:4], atol=1e-12)


def test_formulas_on_one_pair():
    a, b = jnp.asarray([[0.3, -1.0]]), jnp.asarray([[1.0, 0.4]])
    r = float(np.sqrt((0.7 / 2) ** 2 + (1.4 / 2) ** 2))
    want = {
        kernels.RBF: np.exp(-(r**2) / 2),
        kernels.Matern12: np.exp(-r),
        kernels.Matern32: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
        kernels.Matern52: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
        kernels.RationalQuadratic: (1 + r**2 / 2) ** -1,
    }
    for kind, value in want.items():
        assert float(kind(2.0, 1.0).matrix(a, b)[0, 0]) == pytest.approx(value, rel=1e-12)
    periodic = np.exp(-2 * np.sum(np.sin(np.pi * np.array([0.7, 1.4]) / 3) ** 2) / 4)
    assert float(kernels.Periodic(2.0, 3.0).matrix(a, b)[0, 0]) == pytest.approx(periodic, rel=1e-12)


def test_unit_defaults_and_public_names():
    for name in ("Matern12", "Matern32", "Matern52", "RBF", "RationalQuadratic", "Periodic", "Linear", "Constant"):
        assert float(getattr(kernels, name)().variance) == 1.0


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_duplicates_are_at_distance_zero_at_every_scale(scale):
    rows = np.concatenate([X, X[:3]]) * scale + 3 * scale
    K = np.asarray(kernels.Matern12(scale).matrix(jnp.asarray(rows)))
    assert K[9, 0] == K[0, 0] == 1.0


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_finite_with_duplicates_and_constant_columns(name):
    rows = np.concatenate([X, X[:3]])
    rows[:, 1] = 1.0
    slope = jax.grad(lambda k: jnp.sum(jnp.sin(k.matrix(jnp.asarray(rows)))))(KERNELS[name])
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slope))


def test_bad_parameters_are_refused():
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="lengthscale must be positive and finite"):
            kernels.RBF(bad)


def test_tables_of_different_width_are_refused():
    """Columns of lengths 1 and d would broadcast."""
    with pytest.raises(ValueError, match="of 1 and of 2 columns"):
        kernels.Matern52().matrix(np.zeros((3, 1)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="one number, or one per column"):
        kernels.Matern52([1.0, 1.0, 1.0]).matrix(np.zeros((3, 2)))


def test_shrunk_is_isotropic_without_spread_and_ard_with_it():
    X = np.random.default_rng(0).normal(size=(9, 3))
    z = np.array([0.5, -1.0, 2.0])
    base = kernels.Matern52(0.8, 1.3)
    nearly = kernels.Shrunk(base, z, 1e-12)
    np.testing.assert_allclose(nearly.matrix(X), base.matrix(X), rtol=1e-9)
    free = kernels.Shrunk(base, z, 0.7, np.array([1.0, 2.0, 3.0]))
    lengths = 0.8 * np.array([1.0, 2.0, 3.0]) * np.exp(0.7 * z)
    np.testing.assert_allclose(free.lengthscale, lengths)
    np.testing.assert_allclose(free.matrix(X), kernels.Matern52(lengths, 1.3).matrix(X), rtol=1e-12)
    with pytest.raises(ValueError, match="one entry for each of the 3 columns"):
        kernels.Shrunk(base, [0.0, 0.0]).check(3)
    with pytest.raises(ValueError, match="one lengthscale, which all columns share"):
        kernels.Shrunk(kernels.RBF([1.0, 2.0, 3.0]), z).check(3)


@pytest.mark.parametrize("lengthscale", [1.3, [1.3, 0.7, 2.0]], ids=["shared", "columns"])
def test_a_matrix_of_many_pieces_and_its_pullback(lengthscale):
    """More entries than are computed at once, in the place of the distances; the matrix stays as it was returned."""
    rng = np.random.default_rng(6)
    A, B, bar = rng.normal(size=(400, 3)), rng.normal(size=(90, 3)), rng.normal(size=(400, 90))
    kernel = to_host(kernels.Matern52(lengthscale, 1.7))
    K, pull = kernel.matrix_with_pull(A, B)
    before = K.copy()
    found = pull(bar)
    np.testing.assert_array_equal(K, before)
    with working_precision():
        wanted, back = jax.vjp(lambda kernel: kernel.pairs(jnp.asarray(A), jnp.asarray(B)), kernel)
        by_kernel = back(jnp.asarray(bar))[0]
    np.testing.assert_allclose(K, wanted, rtol=1e-12)
    np.testing.assert_allclose(found.lengthscale, by_kernel.lengthscale, rtol=1e-9)
    np.testing.assert_allclose(found.variance, by_kernel.variance, rtol=1e-9)
