"""Model files of version 0.1.0 load and predict what they predicted then."""

import json
from pathlib import Path

import numpy as np
import pytest

from sitewise import load

FILES = Path(__file__).parents[1] / "files"
PREDICTED = json.loads((FILES / "0.1.0-predictions.json").read_text())


@pytest.mark.parametrize("name", ["two-classes", "joint-classes", "sparse-student-t", "sampled-poisson"])
def test_a_file_of_the_first_version_predicts_as_it_did(name):
    model = load(FILES / f"0.1.0-{name}.sitewise")
    new = np.array(PREDICTED["X_new"])
    found = (
        model.predict_log_proba(new) if hasattr(model, "classes_") else np.stack(model.predict(new, return_std=True))
    )
    # The quadrature of 0.1.0 was off by 3e-5 for standard deviations of counts with a very wide rate.
    wide = name == "sampled-poisson"
    np.testing.assert_allclose(found, PREDICTED[name], rtol=1e-4 if wide else 1e-9, atol=1e-10)
    if wide:
        np.testing.assert_allclose(found[0], PREDICTED[name][0], rtol=1e-9)
