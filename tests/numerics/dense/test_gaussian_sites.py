import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise.numerics.dense import gaussian_sites, triangular


def problem(rows: int):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    K = jnp.asarray(3 * np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=-1)))
    w = rng.gamma(0.5, 4.0, rows)
    w[::7] = 0.0  # rows without precision, some of them with a slope
    return K, jnp.asarray(rng.normal(size=rows)), jnp.asarray(w)


def test_mean_alone_is_the_mean_and_its_variances_are_upper_limits():
    K, b, w = problem(30)
    whole, _ = gaussian_sites.condition_on_sites(K, b, w)
    mean, _ = gaussian_sites.mean_on_sites(K, b, w)
    np.testing.assert_allclose(mean.mean, whole.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mean.log_z, whole.log_z, rtol=1e-12)
    assert np.all(mean.var >= whole.var)


def test_inverse_by_halves():
    L = np.tril(np.random.default_rng(1).normal(size=(150, 150))) / 20 + np.eye(
        150
    )  # two levels, halves of unequal size
    np.testing.assert_allclose(triangular.lower_inverse(jnp.asarray(L)) @ L, np.eye(150), atol=1e-11)


@pytest.mark.parametrize("rows", [50, 150, 500])
def test_inverse_on_numpy_arrays(rows):
    L = np.tril(np.random.default_rng(1).normal(size=(rows, rows))) / rows + np.eye(rows)
    kept, found = L.copy(), triangular.lower_inverse(L)
    np.testing.assert_allclose(found @ L, np.eye(rows), atol=1e-12)
    assert np.array_equal(L, kept) and not np.any(np.triu(found, 1))


def test_pullback_is_autodiff():
    """Also where the derivative in the variances is small, zero, or alone."""
    K, b, w = problem(30)
    rng = np.random.default_rng(2)
    by_mean, by_var = rng.normal(size=(2, 30))

    def plain(K, b, w):
        return gaussian_sites.condition_on_sites(K, b, w)[0]

    for scales in ((1.0, 1.0, 1.0), (1.0, 0.0, 1.0), (0.0, 1e-12, 0.0), (1.0, 1e-6, 1.0)):

        def value(function, K, b, w, scales=scales):
            out = function((K + K.T) / 2, b, w)
            return scales[0] * by_mean @ out.mean + scales[1] * by_var @ out.var + scales[2] * out.log_z

        def slopes(function, value=value):
            return jax.grad(lambda *args: value(function, *args), argnums=(0, 1, 2))(K, b, w)

        for found, expected in zip(slopes(gaussian_sites.gaussian_sites), slopes(plain), strict=True):
            seen = np.asarray(w) > 0  # autodiff's derivative in a precision of zero is not that of √w
            if found.ndim == 1 and found.shape == w.shape and expected is not None:
                found, expected = found[seen], expected[seen]
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.max(np.abs(expected)))


def test_the_cheap_way_is_the_same():
    """With every row well determined by its site, with one that is not, and with rows that do not count."""
    K, b, w = problem(30)
    rng = np.random.default_rng(3)
    bar = gaussian_sites.Conditioned(*map(jnp.asarray, rng.normal(size=(2, 30))), jnp.asarray(0.7), jnp.asarray(0.0))
    everyone, counting = jnp.ones(30, bool), w > 0
    for precisions, mask, determined in (
        (w + 0.01, everyone, True),
        (w, counting, True),
        (w, everyone, False),
        ((w + 0.01).at[3].set(1e-9), everyone, False),
    ):
        whole, parts = gaussian_sites.condition_on_sites(K, b, precisions)
        cheap, factors = gaussian_sites.condition_on_sites(K, b, precisions, mask)
        assert bool(factors.determined) == determined
        np.testing.assert_allclose(cheap.var[mask], whole.var[mask], rtol=1e-9)
        np.testing.assert_allclose(cheap.mean, whole.mean)
        sigma, expected = (gaussian_sites.covariance(K, precisions, f) for f in (factors, parts))
        np.testing.assert_allclose(sigma[mask][:, mask], expected[mask][:, mask], atol=1e-9)
        only = bar._replace(var=jnp.where(mask, bar.var, 0.0))
        pulled = gaussian_sites.pull_prior(K, precisions, cheap, factors, only)
        for found, right in zip(pulled, gaussian_sites.pull_prior(K, precisions, whole, parts, only), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-8, atol=1e-9)
