"""The study of coverage, on few rows: it counts what it says."""

import runpy
from pathlib import Path

import numpy as np

STUDY = Path(__file__).parents[2] / "studies" / "effect_coverage.py"


def test_the_study_counts_values_inside_the_bands() -> None:
    study = runpy.run_path(str(STUDY))
    X, y = study["draw"]("gaussian", 100, 0)
    assert X.shape == (100, 4) and 0.3 < np.corrcoef(X[:, 0], X[:, 1])[0, 1] < 0.7
    assert 0.2 < np.std(y - study["truth"](X)) < 0.8
    found = study["covered"]("gaussian", 0, False, rows=100, points=5)
    shares = np.array([found["latent"], found["response"]])
    assert shares.shape == (2, 4) and 0.5 < shares.mean() <= 1
    # Bands are narrow compared with the effects themselves, of which the largest spans 3.
    assert max(found["width"]) < 1.0
    assert "| gaussian | at the optimum | latent | 1 |" in study["summary"]([found, {**found, "kind": "probit"}])
