"""The contract of a learner: learner.fit(model, data) → Fit."""

from __future__ import annotations

from typing import Any, Protocol

from sitewise.inference import Inference
from sitewise.learning.fit import Fit
from sitewise.learning.search import Callback
from sitewise.model import Model


class Learner(Protocol):
    """Settings of a search for hyperparameters.

    The callback is called after every evaluation or round with an entry of the trace: hyperparameters by name,
    `objective` in nats, and `share`, an estimate of the share of the search that is done, 0 if it is not known.  It may
    raise an exception to stop the search.
    """

    @property
    def name(self) -> str: ...

    def fit(self, model: Model, data: Any, *, seed: int = 0, callback: Callback | None = None) -> Fit: ...

    def final_inference(self, model: Model) -> Inference:
        """Return the inference of the sites that `fit` returns for this model."""
        ...
