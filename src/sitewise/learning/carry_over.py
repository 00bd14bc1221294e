"""Sites for the rows that a fit has not seen, from its predictions."""

from __future__ import annotations

import numpy as np

from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.loop import update_at
from sitewise.model import Model
from sitewise.priors import Marginals
from sitewise.sites import Sites


def sites_of_all(inference: Inference, model: Model, some: Data, sites: Sites, data: Data) -> Sites | None:
    """The sites that the update sets where q is what `some` rows and their sites predict, as a start for all rows of
    `data`; None for several latent functions.  NumPy arrays.

    To a row that was none of them the prediction is what its cavity is like.
    """
    if model.likelihood.latents > 1:
        return None
    posterior = model.prior.posterior(some.X, sites.scaled(some.weight))
    mean, var = posterior.marginals(data.X)
    none = np.zeros(data.rows)
    return update_at(inference, model.likelihood, data, Marginals(mean, var, none, 0.0, none, 0.0))
