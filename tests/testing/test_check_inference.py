"""Every inference method obeys `check_inference`, and it finds what is wrong with a broken one."""

import dataclasses

import jax.numpy as jnp
import pytest

from cases import METHODS
from faulty import wrong_slope
from sitewise import EP, VI, likelihoods
from sitewise.sites import Sites
from sitewise.testing import check_inference
from sitewise.testing.common import problem


@pytest.mark.parametrize("name", METHODS)
def test_the_librarys_own(name):
    check_inference(METHODS[name])


@pytest.mark.slow
def test_other_powers_and_likelihoods():
    check_inference(EP(power=0.5))
    check_inference(VI(tight=True))
    check_inference(VI(), likelihoods.BernoulliLogit(), problem("classes"), exact=False)


def propose(change):
    def method(self, likelihood, data, q, sites):
        return change(self, VI.propose(self, likelihood, data, q, sites), likelihood, data, q, sites)

    # `propose_with_merit` of VI computes both at once: here it has to ask the changed `propose`.
    both = {"propose_with_merit": lambda self, *a: (self.propose(*a), VI.merit(self, *a))}
    return {"propose": method, **both}


def _coupled(self, t, likelihood, data, q, sites):
    return Sites(t.nat1 + 0.01 * jnp.mean(data.y), t.prec)


def _sees_sites(self, t, likelihood, data, q, sites):
    return Sites(0.5 * (t.nat1 + sites.nat1), 0.5 * (t.prec + sites.prec))


def _wrong_for_gaussian(self, t, likelihood, data, q, sites):
    return Sites(*(1.1 * a for a in t)) if isinstance(likelihood, likelihoods.Gaussian) else t


def _only_propose(self, likelihood, data, q, sites):
    """As a user would write it: the update of VI that is computed together with its merit stays the old one."""
    target = VI.propose(self, likelihood, data, q, sites)
    return Sites(1.2 * target.nat1, target.prec)


def _counts_rows(self, t, likelihood, data, q, sites):
    return Sites(t.nat1 * (1 + 1e-3 * (len(data.weight) - 16)), t.prec)


def _weighs_itself(self, t, likelihood, data, q, sites):
    return Sites(t.nat1 * jnp.maximum(data.weight, 1.0) ** 0.1, t.prec)


FAULTS = {
    "at the solution, propose gives": {"propose": _only_propose},
    "rows of weight 0 change": propose(_counts_rows),
    "a row of weight 2 has": propose(_weighs_itself),
    "solve ends": propose(lambda self, t, lik, d, q, s: Sites(t.nat1 + jnp.nan, t.prec)),
    "it must be elementwise": propose(_coupled),
    "mean_only is True": {"mean_only": True},
    "uses_sites is False": propose(_sees_sites),
    "does not maximise it": {
        "merit": lambda self, *a: -VI.merit(self, *a),
        "propose_with_merit": lambda self, *a: (self.propose(*a), VI.merit(self, *a) * 0 - jnp.sum(a[3].prec ** 2)),
    },
    "the implicit gradient is": propose(lambda self, t, lik, d, q, s: Sites(t.nat1, wrong_slope(t.prec))),
    "halves of the rows sum to": {
        "merit": lambda self, *a: VI.merit(self, *a) - 1e-3 * VI.merit(self, *a) ** 2 / 100,
    },
    "factors of the likelihood": propose(_wrong_for_gaussian),
}


@pytest.mark.slow
@pytest.mark.parametrize("sentence", FAULTS)
def test_every_fault_has_its_sentence(sentence):
    wrong = dataclasses.dataclass(frozen=True)(type("Wrong", (VI,), {"__annotations__": {}, **FAULTS[sentence]}))
    with pytest.raises(AssertionError, match="Wrong: ") as caught:
        check_inference(wrong())
    assert sentence in str(caught.value)


def test_a_method_without_a_name_is_called_by_its_class():
    @dataclasses.dataclass(frozen=True)
    class Mine(VI):
        pass

    assert (Mine().name, VI().name) == ("mine", "vi")
