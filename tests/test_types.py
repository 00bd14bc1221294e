"""Modules are values that JAX can tell apart."""

import itertools

import jax
import numpy as np
import pytest

from sitewise import kernels, likelihoods, means
from sitewise.types import ArrayField, bounded, module, ordered, positive, real, simplex

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


@module
class Marked(means.Mean):
    """One parameter of every kind."""

    value: ArrayField = real(default=0.0)
    scale: ArrayField = positive(default=1.0)
    share: ArrayField = bounded(0.0, 1.0, default=0.5)
    weights: ArrayField = simplex(default=(0.25, 0.75))
    cuts: ArrayField = ordered(default=(-1.0, 1.0))


WRONG = {"value": np.nan, "scale": -1.0, "share": 1.0, "weights": [0.5, 0.6], "cuts": [1.0, -1.0]}


def test_numbers_become_arrays_in_double_precision():
    marked = Marked(weights=[0.5, 0.5])
    assert all(type(leaf) is np.ndarray and leaf.dtype == np.float64 for leaf in jax.tree.leaves(marked))
    assert repr(marked) == "Marked(value=0., scale=1., share=0.5, weights=[0.5, 0.5], cuts=[-1.,  1.])"


@pytest.mark.parametrize("name", WRONG)
def test_values_that_a_parameter_may_not_take_are_refused(name):
    with pytest.raises(ValueError, match=f"Marked: {name} must be .*, got"):
        Marked(**{name: WRONG[name]})


def test_rebuilding_never_validates():
    """JAX puts cotangents and placeholders in the places of parameters; none of these is a value that they may take."""
    wrong = jax.tree.map(lambda leaf: np.full(np.shape(leaf), -7.0), Marked())
    assert wrong.weights.tolist() == [-7.0, -7.0]
    assert jax.tree.unflatten(jax.tree.structure(Marked()), [object()] * 5).scale is not None
    slope = jax.grad(lambda marked: -marked.scale + marked.cuts[0])(jax.tree.map(jax.numpy.asarray, Marked()))
    assert float(slope.scale) == -1.0 and float(slope.share) == 0.0
