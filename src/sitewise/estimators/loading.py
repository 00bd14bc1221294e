"""Models read from files."""

from __future__ import annotations

import os
from typing import Any

from sitewise.estimators import persistence
from sitewise.estimators.classifier import GPClassifier
from sitewise.estimators.regressor import GPRegressor

KINDS = {kind.__name__: kind for kind in (GPClassifier, GPRegressor)}


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` has written.  No code in the file is ever run: it holds none."""
    return persistence.load(path, KINDS)
