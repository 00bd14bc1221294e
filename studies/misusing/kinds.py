"""The kinds of mistakes: what each changes in a correct problem, and where it can be made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from misusing.scenes import ALL, Scene

Change = Callable[[Scene, np.random.Generator], Scene]
LOW_LEVEL = (
    "Inference.solve",
    "Inference.solve from sites",
    "Evidence",
    "posterior",
    "Nested.fit",
    "VEM.fit",
    "mcmc.sample",
    "mcmc.log_evidence",
)
LEARNERS = ("Nested.fit",)
QUICK = ("Inference.solve", "Inference.solve from sites", "Evidence", "posterior", "Nested.fit")  # nothing is compiled


@dataclasses.dataclass(frozen=True)
class Kind:
    """likelihoods  those whose problems the mistake fits
    full, sparse  the priors with which it can be made
    """

    name: str
    group: str
    change: Change
    doors: tuple[str, ...]
    likelihoods: tuple[str, ...] = ALL
    full: bool = True
    sparse: bool = True
    one_column: bool = False


KINDS: dict[str, Kind] = {}


def add(
    group: str,
    changes: dict[str, Change],
    doors: tuple[str, ...] = LOW_LEVEL,
    likelihoods: tuple[str, ...] = ALL,
    *,
    full: bool = True,
    sparse: bool = True,
    one_column: bool = False,
) -> None:
    """Kinds of one group that can be made at the same doors."""
    for name, change in changes.items():
        if name in KINDS:
            raise ValueError(f"There are two kinds named {name!r}; rename one.")
        KINDS[name] = Kind(name, group, change, doors, likelihoods, full, sparse, one_column)
