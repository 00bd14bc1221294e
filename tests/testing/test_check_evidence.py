"""Every evidence obeys `check_evidence`, and it finds what is wrong with a broken one."""

import jax.numpy as jnp
import pytest

from faulty import wrong_slope
from sitewise import evidence
from sitewise.evidence import Evidence
from sitewise.testing import check_evidence


@pytest.mark.slow
@pytest.mark.parametrize("name", evidence.ALL)
def test_the_librarys_own(name):
    check_evidence(evidence.ALL[name])


@pytest.mark.slow
def test_a_power_between():
    check_evidence(evidence.power_ep(0.5))


def wrong(change):
    def terms(likelihood, data, q, sites, power):
        return change(evidence.elbo.terms(likelihood, data, q, sites, power), data, q, sites)

    return Evidence("wrong", terms)


FAULTS = {
    "one finite number per row": wrong(lambda t, data, q, s: t * jnp.nan),
    "must be elementwise": wrong(lambda t, data, q, s: t + 0.01 * jnp.mean(data.y)),
    "not equivalent to two copies": wrong(lambda t, data, q, s: t / data.weight.clip(1)),
    "the derivative in": wrong(lambda t, data, q, s: wrong_slope(t)),
    "log p(y) is": wrong(lambda t, data, q, s: t - 0.1),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_every_fault_has_its_sentence(sentence):
    with pytest.raises(AssertionError, match="wrong: ") as caught:
        check_evidence(FAULTS[sentence])
    assert sentence in str(caught.value)


def test_padding_that_counts_is_found():
    class Counting(Evidence):
        def total(self, data, q, terms):
            return jnp.sum(terms) + q.log_z

    with pytest.raises(AssertionError, match="rows of weight 0"):
        check_evidence(Counting("wrong", evidence.elbo.terms))
