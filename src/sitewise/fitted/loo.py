"""Leave-one-out predictions of the training rows: the attribute `loo_` of an estimator.

Hyperparameters and the sites of all other rows are held fixed at the fit to all rows.  With Gaussian noise the
predictions are exact at these hyperparameters, otherwise approximate (docs/explanation/leave-one-out.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ClassLoo(NamedTuple):
    """Leave-one-out class probabilities of the training rows, from the cavities of the fitted sites, without refits.

    Attributes
    ----------
    log_density : array of shape (n_rows,)
        log p(y_i | all other rows).
    probability : array of shape (n_rows, n_classes)
        p(class | all other rows), one column per entry of `classes_`.
    """

    log_density: np.ndarray
    probability: np.ndarray


class ValueLoo(NamedTuple):
    """Leave-one-out predictions of the training rows, in the units of y, without refits.

    Values that the likelihood does not define (its cdf or its moments) are NaN.

    Attributes
    ----------
    log_density : array of shape (n_rows,)
        log p(y_i | all other rows).
    probability : array of shape (n_rows,)
        P(Y ≤ y_i | all other rows); uniform on (0, 1) if y is continuous and the model is calibrated.
    mean : array of shape (n_rows,)
        Mean of Y given all other rows.
    std : array of shape (n_rows,)
        Standard deviation of Y given all other rows.
    """

    log_density: np.ndarray
    probability: np.ndarray
    mean: np.ndarray
    std: np.ndarray
