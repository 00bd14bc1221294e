"""Model files of versions 0.1.0 and 0.2.0 load and predict what they predicted then."""

import json
from pathlib import Path

import numpy as np
import pytest

from sitewise import load

FILES = Path(__file__).parents[1] / "files"
PREDICTED = {version: json.loads((FILES / f"{version}-predictions.json").read_text()) for version in ("0.1.0", "0.2.0")}


@pytest.mark.parametrize("name", ["two-classes", "joint-classes", "sparse-student-t", "sampled-poisson"])
def test_a_file_of_the_first_version_predicts_as_it_did(name):
    model = load(FILES / f"0.1.0-{name}.sitewise")
    new = np.array(PREDICTED["0.1.0"]["X_new"])
    found = (
        model.predict_log_proba(new) if hasattr(model, "classes_") else np.stack(model.predict(new, return_std=True))
    )
    # The quadrature of 0.1.0 was off by 3e-5 for standard deviations of counts with a very wide rate.
    wide = name == "sampled-poisson"
    np.testing.assert_allclose(found, PREDICTED["0.1.0"][name], rtol=1e-4 if wide else 1e-9, atol=1e-10)
    if wide:
        np.testing.assert_allclose(found[0], PREDICTED["0.1.0"][name][0], rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["shrunk-classes", "averaged-classes", "sparse-counts", "markov-series", "ordinal", "table"]
)
def test_a_file_of_the_second_version_predicts_as_it_did(name):
    model, stored = load(FILES / f"0.2.0-{name}.sitewise"), PREDICTED["0.2.0"]
    new = stored["rows"] if name == "table" else np.array(stored["X_new"])[:, : 1 if name == "markov-series" else 2]
    found = model.predict_proba(new) if hasattr(model, "classes_") else np.stack(model.predict(new, return_std=True))
    np.testing.assert_allclose(found, stored[name], rtol=1e-8, atol=1e-10)
