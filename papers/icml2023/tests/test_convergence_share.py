"""The stored fits of the paper's folds: all converged or said that they did not, and few of them had to."""

import pytest

from convergence_share import STORE, shares
from sitewise_icml2023 import store


@pytest.fixture(scope="module")
def found():
    return shares(store.read(STORE))


@pytest.mark.parametrize("protocol", ["published", "clean"])
@pytest.mark.parametrize("method", ["laplace", "ep", "vi", "hybrid"])
def test_every_fit_converged_or_said_so(found, protocol, method):
    share = found[protocol, method]
    assert (share.sets, share.fits, share.silent) == (27, 135, 0)
    assert share.flagged <= 0.01 * share.fits


def test_a_fit_that_says_nothing_is_counted():
    row = {"seed": 42, "protocol": "clean", "method": "vi", "set": "trains", "test_loglik": -1.0, "objective": -2.0,
           "evidences": {"elbo": -2.0}, "converged": True, "reason": "converged"}  # fmt: skip
    silent = [{**row, "converged": False, "reason": ""}, {**row, "objective": float("nan")}]
    assert shares([row, *silent])["clean", "vi"][2:] == (1, 0, 2)
