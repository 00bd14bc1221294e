"""The laws of studies/fuzzing/sums.py and part_fits.py on a few cases; studies/parts_fuzz.py runs a thousand."""

import dataclasses

import numpy as np
import pytest

import parts_fuzz
from fuzzing import part_fits, sums
from fuzzing.inference import Broken
from sitewise.priors.precision import precision_gram


def numbered(likelihood, method, more=lambda case: True):
    """The first case of this pair."""
    return next(c for c in map(sums.drawn, range(2000)) if (c.likelihood, c.method) == (likelihood, method) and more(c))


@pytest.mark.parametrize("part", ["Map", "Area"])
def test_the_laws_hold(part):
    case = numbered("gaussian", "laplace", lambda c: part in [type(p).__name__ for p in c.parts] and c.seed % 2)
    row = sums.check(case)
    assert row["status"] == "converged" and row["gap"] < 1e-6 and row["gradient"] < 1e-4


def test_a_broken_law_is_reported(monkeypatch):
    real = precision_gram.inverse_on_pattern
    monkeypatch.setattr(precision_gram, "inverse_on_pattern", lambda factor: 1.001 * real(factor))
    with pytest.raises(Broken, match=r"marginals are wrong by 1\.0e-03"):
        sums.check(numbered("gaussian", "laplace", lambda c: c.data.rows > 10 and "large regressor" not in c.tags))


def test_a_fit_with_wrong_terms_is_reported(monkeypatch):
    case = next(c for c in map(part_fits.drawn, range(0, 2000, 5)) if c.likelihood == "gaussian" and len(c.X) == 7)
    case = dataclasses.replace(case, method="laplace")
    assert part_fits.check(case)["status"] in ("converged", "flagged")
    real = part_fits.GPRegressor.predict_terms

    def moved(terms):
        return dataclasses.replace(terms, mean=terms.mean + 1.0)

    monkeypatch.setattr(part_fits.GPRegressor, "predict_terms", lambda self, X: moved(real(self, X)))
    with pytest.raises(Broken, match="terms sum to"):
        part_fits.check(case)


def test_cases_are_a_function_of_their_number():
    one, other = sums.drawn(77), sums.drawn(77)
    assert np.array_equal(one.data.X, other.data.X) and np.array_equal(one.data.y, other.data.y)
    kinds = {type(part).__name__ for c in map(sums.drawn, range(60)) for part in c.parts}
    assert kinds == {"Map", "Levels", "Area", "Series", "Season", "Linear", "Product", "Constant"}


def test_the_page_counts_rows():
    good = {"method": "ep", "status": "converged", "decided": False, "gap": 1e-9, "gradient": 2e-8, "parts": ["Map"]}
    page = parts_fuzz.render([good, {"seed": 4, "status": "broken", "words": "a law"}])
    assert "2 cases: 1 converged, 0 flagged, 0 refused, 1 broken, 0 failed." in page
    assert "| ep | 1 | 1 | 0 | 0 | 0 |" in page


def test_gradient_where_places_differ_by_rounding() -> None:
    """Case 811: places 1e-7 apart, of which the derivative by the nugget was lost in rounding errors."""
    row = sums.check(sums.drawn(811))
    assert row["status"] == "converged" and row["gradient"] <= 1e-4
