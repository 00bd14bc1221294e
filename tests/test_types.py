"""Modules are values that JAX can tell apart."""

import itertools

import jax
import numpy as np
import pytest

from sitewise import kernels, likelihoods

TWO_PARAMETERS = (kernels.RBF, kernels.Matern12, kernels.Matern32, kernels.Matern52)


@pytest.mark.parametrize(
    ("one", "other"),
    list(
        itertools.combinations([*(k() for k in TWO_PARAMETERS), likelihoods.Poisson(), likelihoods.BernoulliLogit()], 2)
    ),
    ids=lambda v: type(v).__name__,
)
def test_different_classes_have_different_structures(one, other):
    assert jax.tree.structure(one) != jax.tree.structure(other)


def test_one_compiled_function_serves_each_kernel_with_its_own_program():
    """With equal structures the program of the first kernel would be run for all of them."""
    X = np.linspace(0.0, 1.0, 3)[:, None]
    matrix = jax.jit(lambda kernel, X: kernel.matrix(X))
    for kernel in [k(lengthscale=0.5) for k in TWO_PARAMETERS] * 3:
        np.testing.assert_allclose(matrix(kernel, X), kernel.matrix(X), rtol=1e-6)


def test_flattening_keeps_names_values_and_settings():
    kernel = kernels.Matern52(0.3, 2.0, active_dims=(1,))
    leaves, structure = jax.tree.flatten(kernel)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is kernels.Matern52
    assert again.active_dims == (1,)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(kernel)]
    assert paths == [".lengthscale", ".variance"]
