"""Kernels as Markov chains: the covariance that they imply, their noise at any step, and what has no such form."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from sitewise import Model, kernels, likelihoods
from sitewise.kernels.state_space import check_form, form, truncation_error
from sitewise.process.precision import working_precision
from sitewise.types import module

FORMS = {
    "matern12": kernels.Matern12(0.8, 1.3),
    "matern32": kernels.Matern32(0.8, 1.3),
    "matern52": kernels.Matern52([0.8], 1.3),
    "cosine": kernels.Cosine(1.7, 0.6),
    "constant": kernels.Constant(0.7),
    "linear": kernels.Linear(0.4),
    "periodic": kernels.Periodic(1.4, 2.3, 0.9),
    "sum": kernels.Matern32(0.8) + kernels.Linear(0.3) + kernels.Constant(0.4),
    "damped": 0.6 * (kernels.Cosine(2.0) * kernels.Matern32(1.5)),
    "quasi-periodic": kernels.Periodic(1.4, 2.3) * kernels.Matern12(3.0) + kernels.Matern52(0.5),
}
HARMONICS = 10


def forms(kernel, steps, times):
    """The kernel's form over each of these steps, to each of these times."""
    with working_precision():
        each = jax.vmap(lambda step, time: form(kernel, HARMONICS, step, time))
        return [np.asarray(a) for a in each(jnp.asarray(steps), jnp.asarray(times))]


@pytest.mark.parametrize("name", FORMS)
def test_it_has_the_covariance_of_its_kernel(name):
    kernel, steps = FORMS[name], np.array([0.0, 1e-9, 0.3, 2.0, 40.0, 1e9])
    P, A, Q, h = forms(kernel, steps, 0.5 + steps)
    start = forms(kernel, np.zeros(1), np.full(1, 0.5))[3][0]
    wanted = kernel.matrix(0.5 + steps[:, None], np.array([[0.5]]))[:, 0]
    # The turns of an oscillation in 1e9 are only known to 1e-7.
    np.testing.assert_allclose(np.einsum("ki,kij,kjl,l->k", h, A, P, start)[:-1], wanted[:-1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(np.einsum("ki,kij,kj->k", h, P, h), kernel.variances(0.5 + steps[:, None]), rtol=1e-9)
    np.testing.assert_allclose(Q, P - A @ P @ np.swapaxes(A, 1, 2), atol=1e-13 * np.max(np.abs(P)))
    assert np.all(np.isfinite(A)) and np.min(np.linalg.eigvalsh(Q)) > -1e-15


@pytest.mark.parametrize(("kernel", "size"), [(kernels.Matern12, 1), (kernels.Matern32, 2), (kernels.Matern52, 3)])
def test_the_noise_of_a_step_has_all_its_digits(kernel, size):
    """Against ∫₀ʳ of its definition in fifty digits: entries are of the size of powers of the step up to the fifth."""
    steps = [1e-9, 1e-3, 0.2, 0.55, 0.56, 1.0, 3.0, 30.0, 1e9]
    root = np.sqrt(2.0 * size - 1)
    _, _, Q, _ = forms(kernel(root), np.array(steps), np.zeros(len(steps)))
    mpmath.mp.dps = 50
    last = [[lambda u: 1], [lambda u: u, lambda u: 1 - u], [lambda u: u**2 / 2, lambda u: u - u**2 / 2,
            lambda u: 1 - 2 * u + u**2 / 2]][size - 1]  # fmt: skip
    density = [2, 4, mpmath.mpf(16) / 3][size - 1]
    for step, found in zip(steps, Q, strict=True):
        end = mpmath.mpf(min(step, 200.0))
        for i in range(size):
            for j in range(size):
                value = mpmath.quad(
                    lambda u, i=i, j=j: density * mpmath.exp(-2 * u) * last[i](u) * last[j](u), [0, end]
                )
                assert abs(found[i, j] - value) <= 2e-14 * abs(value) + 1e-15 * (step > 0.1), (step, i, j)


def test_what_a_truncated_periodic_kernel_leaves_out_is_known():
    kernel, at = kernels.Periodic(0.6, 2.3, 0.9), np.linspace(0, 2.3, 40)
    for harmonics in (2, 5):
        with working_precision():
            each = jax.vmap(lambda step, k=harmonics: form(kernel, k, step, step))
            P, A, _, h = (np.asarray(a) for a in each(jnp.asarray(at)))
        error = kernel.matrix(at[:, None], np.zeros((1, 1)))[:, 0] - np.einsum("ki,kij,kjl,kl->k", h, A, P, h)
        bound = 0.9 * truncation_error(2.0 * kernel, harmonics)
        assert np.max(np.abs(error)) == pytest.approx(bound, rel=1e-9)  # at lag 0 it is reached


def test_kernels_without_a_form_are_refused_by_name():
    @module
    class Own(kernels.Matern32):
        """One whose covariance may be another."""

    for kernel, name in ((kernels.RBF(), "RBF"), (2.0 * kernels.RationalQuadratic(), "RationalQuad"), (Own(), "Own")):
        with pytest.raises(ValueError, match=f"{name}.* is not a Markov process"):
            check_form(kernels.Matern32() + kernel)
    model = Model.markov(kernels.Periodic(0.2), likelihoods.Gaussian())
    with pytest.raises(ValueError, match="7 harmonics leave out"):
        model.prior.check(1, 1)
    with pytest.raises(ValueError, match="one column"):
        model.prior.check(3, 1)
