"""MCMC as a task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sitewise_icml2023 import sampled, tasks
from sitewise_icml2023.protocols import Fold


@pytest.mark.parametrize(("method", "limits"), [("mcmc", {}), ("mcmc-narrow", {"kernel.*": sampled.NARROW})])
def test_narrow_limits_are_those_of_the_chains(method: str, limits: dict[str, Any], monkeypatch, tmp_path) -> None:
    """The chains are asked for flat priors within the limits of the method's name."""
    given: dict[str, Any] = {}

    class Stop(Exception):
        pass

    def sample(model: Any, data: Any, **options: Any) -> None:
        given.update(options)
        raise Stop

    X = np.linspace(-1, 1, 12)[:, None]
    y = np.sign(X[:, 0])
    monkeypatch.setattr(sampled, "sample", sample)
    monkeypatch.setattr(tasks.protocols, "fold", lambda *task: Fold(X, y, X, y))
    with pytest.raises(Stop):
        tasks.run(tasks.Task("trains", "published", 42, 0, method))
    assert given["bounds"] == limits
