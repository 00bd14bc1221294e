"""The structure of an estimator's prior: full, sparse, a Markov chain in time, or a sum of parts.

A structure is a value that builds the `Model` of a fit from its parts.  A new one is a subclass of `Structure`, and an
entry of `NAMED` if it has a name.
"""

from __future__ import annotations

import dataclasses
import numbers
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sitewise.checks import shown
from sitewise.model import SPARSE_JITTER, Model
from sitewise.parts import Part
from sitewise.parts_structure import Parts
from sitewise.priors import MarkovPrior
from sitewise.priors.inducing import LEARNING_ROWS, SECONDS, SELECTIONS, how_many, select
from sitewise.structure_base import Start, Structure

__all__ = ["Full", "Markov", "Series", "Sparse", "Structure"]

MARKOV_ROWS = 2_000  # above this number of rows "auto" uses a Markov chain for a time series if possible
# Largest number of rows for which "auto" uses the full GP of one latent function.  Two classes and 10 columns take 18
# CPU seconds as an average of kernels (results/fit-times); the time grows with the cube of the number of rows.
MAX_AUTO_FULL_ROWS = 2_000
MAX_FULL_ROWS = 10_000  # above this number of rows a full GP warns of its time and memory
TRAINED = "trained"
_INPUTS = (*SELECTIONS, TRAINED)


def _check_jitter(jitter: Any) -> None:
    if not (isinstance(jitter, int | float | np.number) and 0 <= jitter < np.inf):
        raise ValueError(f"jitter must be a finite number of at least 0, got {jitter!r}.")


def _seconds(m: str) -> float | None:
    """Return the seconds for a fit that "auto" or a text such as "60s" stands for; None for any other text."""
    if m == "auto":
        return SECONDS
    try:
        seconds = float(m.removesuffix("s")) if m.endswith("s") else np.nan
    except ValueError:
        return None
    return seconds if 0 < seconds < np.inf else None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Auto(Structure):
    """The rule of structure="auto".

    A time series of more than 2 000 rows is a Markov chain where that is possible.  Other problems are full GPs up to
    n = `MAX_AUTO_FULL_ROWS` rows, and sparse above; k fits of one estimator share the time, so that their limit is
    n/k^⅓.  A method that samples and one kernel per class need the full GP.
    """

    sampled: ClassVar[bool] = True
    sparse: ClassVar[bool] = True  # whether larger problems are sparse

    @property
    def learning_rows(self) -> int | None:
        return LEARNING_ROWS if self.sparse else None

    def chosen(self, start: Start) -> Structure:
        rows = start.data.rows
        if start.samples:
            return Full()
        if rows > MARKOV_ROWS and MarkovPrior(start.kernel).suits(start.data.X.shape[1], start.likelihood.latents):
            return Markov()
        most = MAX_AUTO_FULL_ROWS / (start.fits * start.likelihood.latents) ** (1 / 3)
        if not self.sparse or rows <= most or (isinstance(start.kernels, list) and not start.likelihood.functions):
            return Full()
        return Sparse().chosen(start)

    def model(self, start: Start) -> Model:
        return self.chosen(start).model(start)

    def replaced_full(self, model: Model, rows: int) -> str:
        if model.prior.inputs is None:
            return ""
        return (
            f"A sparse GP with {len(np.asarray(model.prior.inputs))} inducing inputs is fitted to the {rows} rows, "
            "because the time of a full GP grows with the cube of the rows."
        )

    sentence = replaced_full


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Exact(Auto):
    """The rule of structure="exact": as "auto", but never sparse."""

    sparse: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Full(Structure):
    """The exact Gaussian process: the covariance between all rows, O(n³) in the number of rows.

    Parameters
    ----------
    jitter : float, default=0.0
        Added to the diagonal of the covariance matrix of the training rows.

    Examples
    --------
    >>> from sitewise import Full, GPRegressor
    >>> GPRegressor(structure=Full(jitter=1e-8))
    GPRegressor(structure=Full(jitter=1e-08))

    See Also
    --------
    Sparse : for more than a few thousand rows.
    Markov : for one column of time.
    """

    sampled: ClassVar[bool] = True

    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check_jitter(self.jitter)

    def model(self, start: Start) -> Model:
        rows = start.data.rows
        if rows > MAX_FULL_ROWS:
            warnings.warn(
                f"A full GP of {rows} rows takes {8e-9 * rows**2:.0f} GB per matrix, and its time grows with the cube "
                "of the rows; structure=Sparse(500) makes it sparse.",
                UserWarning,
                stacklevel=5,
            )
        return Model.full(start.kernels, start.likelihood, start.mean, float(self.jitter))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Markov(Structure):
    """A time series as a Markov chain (state-space model, Kalman filter): the results of the full GP in O(n).

    X has one column, the time, in any order and with any gaps.  The kernel is a Matérn kernel, `Periodic`, `Cosine`,
    `Constant` or `Linear`, or a sum or product of these kernels.

    Examples
    --------
    >>> from sitewise import GPRegressor, Markov
    >>> GPRegressor(structure=Markov())
    GPRegressor(structure=Markov())

    See Also
    --------
    Series : for several time series.
    """

    joint: ClassVar[bool] = False

    def model(self, start: Start) -> Model:
        return Model.markov(start.kernel, start.likelihood, start.one_mean)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Series(Structure):
    """Several independent time series (panel data) that share all hyperparameters, each a Markov chain.

    X has two columns: one names the series, the other is the time.  The series may have different lengths.  Without
    observations, a series is predicted from the prior.

    Parameters
    ----------
    column : int or str
        The number or the name of the column whose values name the series.

    Examples
    --------
    >>> from sitewise import GPRegressor, Series
    >>> GPRegressor(structure=Series("sensor"))
    GPRegressor(structure=Series("sensor"))

    See Also
    --------
    Markov : for one time series.
    """

    POSITIONAL: ClassVar[str] = "column"
    joint: ClassVar[bool] = False

    column: int | str

    def series_column(self, columns: int, names: Sequence[str]) -> int:
        found = list(names).index(str(self.column)) if self.column in names else self.column
        if isinstance(found, bool) or found not in (0, 1) or columns != 2:
            raise ValueError(
                f"Series takes the number or the name of one of the two columns of X, of which the other is the time; "
                f"got {self!r} for X with {columns} column{'' if columns == 1 else 's'}."
            )
        return int(found)

    def model(self, start: Start) -> Model:
        column = self.series_column(start.data.X.shape[1], start.names)
        return Model.markov(start.kernel, start.likelihood, start.one_mean, series=column)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Sparse(Structure):
    """A sparse Gaussian process with m inducing inputs for large data, O(nm²) in the number of rows n.

    Parameters
    ----------
    m : int or str, default="auto"
        The number of inducing inputs.  "auto" is the number for a fit of about 15 s on two cores, "60s" for another
        time, by a rule (`inducing.how_many`) that depends on the number of rows and not on a clock.  The full GP is
        used if it takes no longer.  With "auto" or a time, hyperparameters are learned from at most 20 000 rows.
    inputs : str or array of shape (m, n_columns), default="kmeans"
        How the inducing inputs are chosen:

        - "kmeans": centres of clusters of the training rows
        - "greedy": training rows, each with the largest remaining variance
        - "trained": the centres of k-means, moved to where the evidence is greatest.  This takes several times as long
          and pays off where m is small
        - an array: the inputs themselves
    jitter : float, default=0.0
        Added to the diagonal of the covariance matrix of the inducing inputs, as a share of its mean.

    Examples
    --------
    >>> from sitewise import GPRegressor, Sparse
    >>> GPRegressor(structure=Sparse(300))
    GPRegressor(structure=Sparse(300))

    See Also
    --------
    Full : without inducing inputs.
    inducing.select : the selection of the inputs as a function.
    """

    POSITIONAL: ClassVar[str] = "m"

    m: int | str = "auto"
    inputs: str | ArrayLike = "kmeans"
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check_jitter(self.jitter)
        if isinstance(self.inputs, str) and self.inputs not in _INPUTS:
            raise ValueError(f"inputs must be one of {', '.join(map(repr, _INPUTS))}, or a table; got {self.inputs!r}.")
        if not isinstance(self.inputs, str) and np.ndim(self.inputs) != 2:
            raise ValueError(
                f"inputs must be one of {', '.join(map(repr, _INPUTS))}, or a table with one inducing input per row; "
                f"got {shown(self.inputs)}."
            )
        whole = isinstance(self.m, numbers.Integral) and not isinstance(self.m, bool) and self.m >= 1
        if not whole and not (isinstance(self.m, str) and _seconds(self.m) is not None):
            raise ValueError(
                f"m must be a whole number of at least 1, 'auto', or a time such as '60s', got {shown(self.m)}; a "
                "table of inducing inputs is Sparse(inputs=Z)."
            )
        if self.given and self.m != "auto":
            raise ValueError("inputs is a table of inducing inputs and says how many there are; leave m out.")

    @property
    def given(self) -> bool:
        """Whether the inducing inputs are given as a table."""
        return not isinstance(self.inputs, str)

    @property
    def trains_inputs(self) -> bool:
        return isinstance(self.inputs, str) and self.inputs == TRAINED

    @property
    def learning_rows(self) -> int | None:
        return LEARNING_ROWS if isinstance(self.m, str) and not self.given else None

    def count(self, rows: int, *, fits: int = 1, classes: int = 1, learning_rows: int | None = None) -> int | None:
        """Return the number of inducing inputs; None if the full GP takes no longer."""
        if self.given:
            return len(np.asarray(self.inputs))
        if isinstance(self.m, str):
            seconds = _seconds(self.m)
            assert seconds is not None
            return how_many(rows, seconds, fits=fits, classes=classes, learning_rows=learning_rows)
        return int(self.m)

    def is_sparse(self, rows: int, classes: int) -> bool:
        return self.count(rows, classes=classes) is not None

    def chosen(self, start: Start) -> Structure:
        count = self.count(
            start.data.rows, fits=start.fits, classes=start.likelihood.latents, learning_rows=start.learning_rows
        )
        if count is None:
            return Full(self.jitter)
        return self if self.given else dataclasses.replace(self, m=count)

    def model(self, start: Start) -> Model:
        selection = "kmeans" if self.trains_inputs else self.inputs
        count = 0 if isinstance(self.m, str) else int(self.m)
        Z = select(start.data.X, selection, count, kernel=start.kernel, seed=start.seed)
        return Model.sparse(start.kernels, start.likelihood, Z, start.mean, max(float(self.jitter), SPARSE_JITTER))

    def sentence(self, model: Model, rows: int) -> str:
        if self.given or not isinstance(self.m, str):
            return ""
        inputs = model.prior.inputs
        if inputs is None:
            return f"m={self.m!r}: the full GP was used, which takes no longer for {rows} rows."
        return (
            f"m={self.m!r}: {len(np.asarray(inputs))} inducing inputs for {rows} rows, by the rule "
            f"(priors.inducing.how_many) for about {_seconds(self.m):g} s on two cores."
        )


NAMED: dict[str, Structure] = {
    "auto": Auto(), "exact": Exact(), "full": Full(), "markov": Markov(), "sparse": Sparse(),
}  # fmt: skip


def structure_of(value: str | Structure | Part | Sequence[Part]) -> Structure:
    """Return the structure that an estimator's `structure` stands for."""
    if isinstance(value, Structure):
        return value
    if isinstance(value, Part | list | tuple):
        return Parts.of(value)
    if not isinstance(value, str) or value not in NAMED:
        raise ValueError(
            f"structure must be one of {', '.join(NAMED)} or a value such as Sparse(300) or "
            f"parts.Map((0, 1)), got {value!r}."
        )
    return NAMED[value]
