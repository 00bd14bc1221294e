"""What a method's name in a task stands for."""

import numpy as np
import pytest

from sitewise import VEM, Nested
from sitewise.errors import UserError
from sitewise_icml2023 import variants

X = np.random.default_rng(0).normal(size=(30, 3))


@pytest.mark.parametrize("name", variants.KNOWN)
def test_every_known_name_has_a_learner(name: str) -> None:
    learner = variants.learner(variants.parse(name), "classification", "trains")
    assert isinstance(learner, VEM if name == "hybrid-vem" else Nested)


def test_modifiers() -> None:
    assert variants.parse("vi@ard@m500") == variants.Method("vi", ard=True, inducing=500)
    alone = ("ep-frozen", "mcmc", "mcmc-narrow", "laplace-softplus", "vi-joint", "vi@ard")
    assert not any(variants.shares_programs(name) for name in alone)
    assert variants.parse("ep@from-hybrid") == variants.Method("ep", start="hybrid")
    for text, message in (
        ("magic", "Unknown method"),
        ("ep@from-mcmc", "Unknown modifier"),
        ("vi@m0", "Unknown modifier"),
        ("vi-joint@m50", "full models"),
        ("vi-joint@from-hybrid", "one start"),
    ):
        with pytest.raises(UserError, match=message):
            variants.parse(text)


@pytest.mark.parametrize(
    ("name", "read"), [("hybrid@m5", "collapsed"), ("hybrid-ep@m5", "ep"), ("vi@m5", "elbo"), ("laplace@m5", "laplace")]
)
def test_sparse_models_are_learned_with_loose_sites(name: str, read: str) -> None:
    """Whichever pair of inference and evidence the learner takes on a sparse prior."""
    method = variants.parse(name)
    learner = variants.learner(method, "classification", "titanic")
    pair = learner.pair(variants.model(method, "classification", X))
    assert (pair.evidence.name, pair.inference.tol, learner.tol) == (read, 1e-6, 3e-5)
    assert learner.bounds == variants.SPARSE_BOUNDS


def test_models_start_where_the_paper_starts() -> None:
    full = variants.model(variants.parse("vi@ard"), "classification", X)
    np.testing.assert_array_equal(full.prior.kernel.lengthscale, np.ones(3))
    sparse = variants.model(variants.parse("vi@m5"), "classification", X)
    assert float(sparse.prior.kernel.lengthscale) == pytest.approx(np.sqrt(3)) and len(sparse.prior.inducing) == 5
    robust = variants.model(variants.parse("hybrid-vem"), "regression", X)
    assert type(robust.likelihood).__name__ == "StudentT" and robust.likelihood.quadrature.points == 20
