import numpy as np
import pytest

from sitewise import metrics

P = np.array([0.1, 0.2, 0.8, 0.9])
Y = np.array([-1, 1, 1, 1])


def test_scores():
    assert metrics.accuracy(P, Y) == 0.75
    assert metrics.brier(P, Y) == pytest.approx(np.mean([0.01, 0.64, 0.04, 0.01]))
    curve = metrics.reliability(P, Y, bins=2)
    np.testing.assert_allclose(curve["predicted"], [0.15, 0.85])
    np.testing.assert_allclose(curve["observed"], [0.5, 1.0])
    assert metrics.expected_calibration_error(P, Y, bins=2) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("probability", "y", "words"),
    [
        (P, Y[:, None], "one probability and one label"),
        (np.stack([1 - P, P], 1), Y, "predict_proba"),
        (P, Y + 3, "code the two"),
    ],
)
def test_scores_of_other_shapes_and_labels_are_refused(probability, y, words):
    for score in (metrics.accuracy, metrics.brier, metrics.reliability, metrics.expected_calibration_error):
        with pytest.raises(ValueError, match=words):
            score(probability, y)
