"""The laws of studies/fuzzing/series.py on a few cases; studies/markov_fuzz.py runs a thousand."""

import numpy as np
import pytest

import markov_fuzz
from fuzzing import series
from fuzzing.inference import Broken
from sitewise.numerics.markov import filtering


def numbered(likelihood, method, more=lambda case: True):
    """The first case of this pair."""
    return next(
        c for c in map(series.drawn, range(2000)) if (c.likelihood, c.method) == (likelihood, method) and more(c)
    )


@pytest.mark.parametrize("tag", ["nearly equal", "far apart"])
def test_the_laws_hold(tag):
    row = series.check(numbered("gaussian", "laplace", lambda c: tag in c.tags and c.data.rows > 10))
    assert row["status"] == "converged" and row["goes_on"] < 1e-6


def test_a_broken_law_is_reported(monkeypatch):
    real = filtering.condition

    def wrong(*args):
        out = real(*args)
        return out._replace(var=1.001 * out.var)

    monkeypatch.setattr(filtering, "condition", wrong)
    with pytest.raises(Broken, match=r"marginals are wrong by 1\.0e-03"):
        series.check(numbered("gaussian", "laplace", lambda c: c.data.rows > 10))


def test_cases_are_a_function_of_their_number_and_meet_every_pair():
    one, other = series.drawn(77), series.drawn(77)
    assert np.array_equal(one.data.X, other.data.X) and np.array_equal(one.data.y, other.data.y)
    pairs = {(c.likelihood, c.method) for c in map(series.drawn, range(59))}
    assert len(pairs) == len(series.LIKELIHOODS) * len(series.METHODS) - 1 == 59


def test_the_page_counts_rows():
    good = {"method": "ep", "status": "converged", "decided": False, "gap": 1e-9, "gradient": 2e-8, "goes_on": 3e-9}
    page = markov_fuzz.render([good, {"seed": 4, "status": "broken", "words": "a law"}])
    assert (
        "2 cases: 1 converged, 0 flagged, 0 refused, 1 broken, 0 failed." in page
        and "| ep | 1 | 1 | 0 | 0 | 0 |" in page
    )
