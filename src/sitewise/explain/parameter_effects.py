"""The parameter that varies with x along one column: its geometric average over the rows, with a credible band.

With the second latent function g and the link θ = θ(g), the average of g over the rows, with the column set to a value,
is Gaussian, and θ maps its median and quantiles to the parameter: for a scale, to the geometric average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from sitewise.explain.effects import Background, latent_sums, moved
from sitewise.explain.fitted_model import Fitted
from sitewise.process.precision import working_precision


def parameter_along(
    model: Fitted, places: Sequence[int], codes: np.ndarray, over: Background, level: float = 0.9
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return median and band of the parameter in the units of y, with the columns `places` set to each row of `codes`.

    The model has a varying parameter (`likelihoods.VaryingParameter`).
    """
    with working_precision():
        mean, sd = latent_sums(model, moved(over.X, places, codes), over.share)
    likelihood: Any = model._latents[0].model.likelihood
    centre, reach = mean[:, 1] + np.log(model._y_units()[1]), ndtri(0.5 + level / 2) * sd[:, 1]
    median, low, high = (np.asarray(likelihood.link.backward(centre + step)) for step in (0.0 * reach, -reach, reach))
    return median, low, high
