"""Leave-one-out predictions, as the attribute `loo_` of an estimator holds them.

The hyperparameters and the sites of the other rows are those of the fit with all rows.  With Gaussian noise the
predictions are exact at these hyperparameters, otherwise near (docs/explanation/leave-one-out.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ClassLoo(NamedTuple):
    """Leave-one-out predictions of the training rows, from the cavities of the fitted sites: nothing is refitted.

    log_density  log p(y_i | all other rows)
    probability  p(class | all other rows), one column per entry of `classes_`
    """

    log_density: np.ndarray
    probability: np.ndarray


class ValueLoo(NamedTuple):
    """Leave-one-out predictions of the training rows, in the units of y: nothing is refitted.

    log_density    log p(y_i | all other rows)
    probability    P(Y ≤ y_i | all other rows), uniform on (0, 1) if the model is calibrated (counts: the upper end)
    mean, std      of Y given all other rows

    NaN stands for what the likelihood does not define (its cdf, or its moments).
    """

    log_density: np.ndarray
    probability: np.ndarray
    mean: np.ndarray
    std: np.ndarray
