"""Rows spread over devices give the same numbers.  In a process of its own, which sees four CPU devices."""

import os
import subprocess
import sys

SCRIPT = """
import jax
import numpy as np
from jax.sharding import Mesh

jax.config.update("jax_enable_x64", True)
from sitewise import Data, Model, VI, evidence, kernels, likelihoods
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable

rng = np.random.default_rng(0)
X = rng.normal(size=(130, 2))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=130) > 0, 1.0, -1.0)
model = Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), X[:8], keep=0, block=8 * 44)
one = Data.of(X, y).pad(132)
four = Data.of(X, y).shard(Mesh(np.array(jax.devices()), ("rows",)))
assert len(four.X.sharding.device_set) == 4
assert four.rows == 132
try:
    Data.of(X, y).shard(4)
    raise AssertionError("a number is no mesh")
except ValueError as problem:
    assert "one axis" in str(problem)
trainable = Trainable.of(model)
start = trainable.to_vector(model)
found = []
for data in (jax.tree.map(jax.numpy.asarray, one), four):
    sites = VI().solve(model, data).sites
    found.append(profile(Objective(VI(), evidence.elbo, "implicit", trainable), model, data, start, sites))
assert len(found[1].solution.sites.nat1.sharding.device_set) == 4
assert all(f.solution.outcome.ok for f in found)
for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(found[1]), strict=True):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-8, atol=1e-8)
print("same")
"""


def test_four_devices_give_what_one_gives():
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "same" in done.stdout
