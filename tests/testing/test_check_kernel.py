"""Every kernel obeys `check_kernel`, and it finds what is wrong with a broken one."""

import jax
import jax.numpy as jnp
import pytest

from cases import KERNELS
from faulty import wrong_slope
from sitewise.kernels import Matern52, Stationary
from sitewise.testing import check_kernel
from sitewise.testing.check_kernel import _semidefinite
from sitewise.types import module, positive


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_the_librarys_own(name):
    check_kernel(KERNELS[name])


@module
class Right(Stationary):
    def shape(self, d2):
        return jnp.exp(-0.5 * d2)


FAULTS = {
    "must be (rows of A, rows of B)": {"diag": lambda self, A: jnp.asarray(1.0)},
    "not finite": {"shape": lambda self, d2: jnp.log(-d2)},
    "differ": {"pairs": lambda self, A, B: Matern52().pairs(A, B) * (1 + A[:, :1])},
    "not the diagonal": {"diag": lambda self, A: jnp.full(A.shape[0], 2.0)},
    "only row of A": {"pairs": lambda self, A, B: Matern52().pairs(A - jnp.mean(A, 0), B - jnp.mean(B, 0))},
    "not a covariance matrix": {"shape": lambda self, d2: jnp.where(d2 < 4, 1.0, 0.0)},
    "differences give": {"shape": lambda self, d2: jnp.exp(-0.5 * wrong_slope(d2))},
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_every_fault_has_its_sentence(sentence):
    check_kernel(Right())
    wrong = module(type("Wrong", (Right,), FAULTS[sentence]))
    with pytest.raises(AssertionError, match="Wrong: ") as caught:
        check_kernel(wrong())
    assert sentence in str(caught.value)


def test_a_parameter_without_effect_on_the_diagonal_is_still_checked():
    @module
    class Shifted(Stationary):
        depth: jax.Array = positive(default=0.5)

        def shape(self, d2):
            return jnp.exp(-self.depth * d2)

    check_kernel(Shifted())


def test_a_covariance_of_zeros_is_one():
    """Eigenvalues of 0 are not negative, also if no eigenvalue is positive."""
    zero = module(type("Zero", (Right,), {"shape": lambda self, d2: 0.0 * d2}))()
    assert list(_semidefinite(zero, jnp.ones((3, 2)))) == []
