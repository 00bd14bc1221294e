"""The structure of an estimator whose latent function is a sum of parts (`sitewise.parts`)."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from sitewise import means
from sitewise.kernels import Kernel, Sum
from sitewise.model import Model
from sitewise.parts import Constant, Part
from sitewise.structure_base import Start, Structure


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Parts(Structure):
    """A sum of parts with sparse precisions, and an intercept unless a part or the mean is one.

    Columns may be given by their names.  A kernel that is left at its default starts at a tenth of the extent of its
    columns.
    """

    joint: ClassVar[bool] = False

    parts: tuple[Part, ...]

    @staticmethod
    def of(value: Any) -> Parts:
        """Return the structure of one part, or of a sequence of parts."""
        each = (value,) if isinstance(value, Part) else tuple(value)
        odd = [one for one in each if not isinstance(one, Part)]
        if odd or not each:
            got = repr(odd[0]) if odd else "an empty list"
            raise ValueError(f"A list as structure holds parts such as parts.Map((0, 1)), got {got}.")
        return Parts(each)

    def own_kernel(self, X: np.ndarray, names: Sequence[str], variance: float) -> Kernel:
        each = [part.with_numbers(names, X.shape[1]) for part in self.parts]
        for doubt in filter(None, (part.doubt(part.active_columns(X)) for part in each)):
            warnings.warn(doubt, stacklevel=2)
        return Sum(tuple(part.started(part.active_columns(X), variance) for part in each))

    def model(self, start: Start) -> Model:
        """Return the sum with an intercept; a second function has no intercept besides its mean and parts."""
        own: Any = start.kernels if isinstance(start.kernels, list) else [start.kernel]
        _warn_of_unused([part for one in own for part in one.parts], start)
        _warn_of_row_effects(own[0].parts, start)
        first, *second = [one.parts for one in own]
        has_intercept = any(isinstance(part, Constant) for part in first)
        if not has_intercept and isinstance(start.one_mean, means.Zero):
            first = (*first, Constant())
        return Model.latent([first, *second] if second else first, start.likelihood, start.mean)


def _warn_of_unused(parts: Sequence[Part], start: Start) -> None:
    """Warn of columns that no part uses."""
    used = {column for part in parts for column in part.used}
    columns = start.data.X.shape[1]
    unused = [repr(start.names[k]) if len(start.names) else str(k) for k in range(columns) if k not in used]
    if unused:
        warnings.warn(f"No part uses column {', '.join(unused)}; add a part, or leave it out of X.", stacklevel=6)


def _warn_of_row_effects(parts: Sequence[Part], start: Start) -> None:
    """Warn of an effect per row that the likelihood does not identify."""
    likelihood = getattr(start.likelihood, "base", start.likelihood)  # of a parameter with a function of its own
    if not likelihood.absorbs_row_effects:
        return
    X, weight = np.asarray(start.data.X), np.asarray(start.data.weight)
    for part in parts:
        if part.is_effect_per_row(part.active_columns(X), weight):
            columns: Any = part.columns
            named = ", ".join(repr(start.names[k] if len(start.names) else k) for k in columns)
            warnings.warn(
                f"{type(part).__name__}({named}) has as many levels as rows, and the likelihood "
                f"{type(likelihood).__name__} does not identify an effect per row; leave it out.",
                stacklevel=2,
            )
