import jax
import numpy as np
import pytest

from sitewise import Model, kernels, likelihoods, means
from sitewise.parameters import Trainable, values, with_values

MODEL = Model.full(
    kernels.Matern52([0.5, 2.0], 3.0) + kernels.Linear(0.7), likelihoods.StudentT(0.2, 4.0), means.Constant(-1.0)
)


def test_names_are_paths():
    assert set(values(MODEL)) == {
        "kernel.parts.0.lengthscale", "kernel.parts.0.variance", "kernel.parts.1.variance",
        "mean.value", "likelihood.scale", "likelihood.df",
    }  # fmt: skip


@pytest.mark.parametrize("transform", ["log", "softplus"])
def test_vector_round_trip(transform):
    trainable = Trainable.of(MODEL, train=("likelihood.df",), transform=transform)
    vector = trainable.to_vector(MODEL)
    assert vector.shape == (7,) == (len(trainable.labels),)
    back = values(trainable.from_vector(MODEL, vector))
    for name, value in values(MODEL).items():
        np.testing.assert_allclose(back[name], value, rtol=1e-12)


def test_held_by_default_by_name_and_by_pattern():
    assert "likelihood.df" not in Trainable.of(MODEL).labels
    assert Trainable.of(MODEL, fixed=("kernel.*",)).labels == ["mean.value", "likelihood.scale"]


def test_values_can_be_replaced_and_models_are_pytrees():
    other = with_values(MODEL, {"likelihood.scale": 9.0})
    assert values(other)["likelihood.scale"] == 9.0 and values(MODEL)["likelihood.scale"] == 0.2
    assert len(jax.tree.leaves(MODEL)) == 6
