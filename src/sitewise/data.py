"""Data: inputs, observations and weights of n rows, some of which may be padding.

A weight w is the number of times a row counts: an integer weight equals that many copies of the row,
a weight of 0 equals leaving it out, and a fraction is a likelihood raised to that power.  Padding is a row of
weight 0, so that shapes can be rounded up without changing any result.

y is one number per row, or a table whose columns the likelihood names (decision 005).  A bound in such a table may be
infinite.
"""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike

from sitewise.arrays.spread import is_spread, of_all_processes, require_order
from sitewise.checks import known
from sitewise.process.precision import WORKING_DTYPE
from sitewise.types import ArrayField, fixed, module, static


@module
class Data:
    X: ArrayField = fixed()
    y: ArrayField = fixed()
    weight: ArrayField = fixed()
    fractional: bool = static(default=None)  # whether a weight may lie between 0 and 1; None is by the weights

    def __post_init__(self) -> None:
        if self.fractional is None:
            # Weights that are not known yet may be fractions, and what is right for those is right for all.
            fractional = not known(self.weight) or _has_fractions(self.weight)
            object.__setattr__(self, "fractional", fractional)

    @property
    def mask(self) -> jax.Array:
        """True for the rows that count."""
        return self.weight > 0

    @property
    def rows(self) -> int:
        return self.X.shape[0]

    @staticmethod
    def of(X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Data:
        """Check and convert arrays.  `weight` is one non-negative number per row.

        Under `jax.jit` and the like only shapes can be checked, and traced weights are treated as fractions: that is
        right for every weight, but takes quadrature where whole weights have a closed form.  If they are known to be
        whole, `dataclasses.replace(data, fractional=False)` says so.
        """
        inputs, values = table(X, "X"), as_numbers(y, "y")
        if values.shape[:1] != inputs.shape[:1]:
            raise ValueError(f"X has {inputs.shape[0]} rows but y has shape {values.shape}; give one y per row.")
        counts = np.ones(len(inputs)) if weight is None else as_numbers(weight, "weight")
        values, counts = (_as_precise(a, inputs.dtype) for a in (values, counts))
        data = Data(inputs, values, counts)
        data.check()
        if known(values):
            refuse_nan("y", values, infinity=values.ndim == 1)
        return data

    def check(self) -> None:
        """Raise ValueError where shapes differ, or known inputs or weights are no numbers to compute with."""
        X, weight = self.X, self.weight
        shapes = [np.shape(a) for a in (X, self.y, weight)]
        if len(shapes[0]) != 2 or shapes[1][:1] != shapes[0][:1] or shapes[2] != shapes[0][:1]:
            raise ValueError(
                f"X, y and weight have the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}; give a table of inputs, "
                "one y and one weight per row."
            )
        if known(weight):
            weight = np.asarray(weight)
            if not np.all(np.isfinite(weight)) or np.any(weight < 0):
                raise ValueError("weight must hold one finite, non-negative number per row.")
            if not np.any(weight > 0):
                raise ValueError("All weights are zero: there is no row to learn from.")
            if not self.fractional and _has_fractions(weight):
                raise ValueError("Some weights are fractions, and these data are marked as without; use Data.of.")
        if isinstance(X, np.ndarray):  # those of a device were checked before they were moved there
            refuse_nan("X", X, infinity=True)
            check_size(X)

    def pad(self, rows: int) -> Data:
        """The same data with rows of weight 0 appended (copies of row 0, so that every value is valid)."""
        extra = rows - self.rows
        if extra < 0:
            raise ValueError(f"Cannot pad {self.rows} rows to {rows}; give at least {self.rows}.")
        if extra == 0:
            return self
        index = np.concatenate([np.arange(self.rows), np.zeros(extra, int)])
        weight = jnp if isinstance(self.weight, jax.Array) else np
        return Data(
            self.X[index],
            self.y[index],
            weight.concatenate([self.weight, weight.zeros(extra, self.weight.dtype)]),
            fractional=self.fractional,
        )

    def to_bucket(self, rows: int | None = None) -> Data:
        """The same data in double precision, padded to `rows`, or to the `bucket` of their number.

        For use inside `working_precision`.  Rows that are spread over devices have been padded for that.
        """
        filled = self if is_spread(self) else self.pad(bucket(self.rows) if rows is None else rows)
        return jax.tree.map(lambda a: jnp.asarray(a, WORKING_DTYPE), filled)

    def shard(self, mesh: Mesh | None = None, *, parts: bool = False) -> Data:
        """The rows, padded to a multiple of the devices, spread over all devices of a one-dimensional mesh.

        Inference, evidences and learning with a sparse prior then run on all devices: each sum over rows becomes a sum
        over devices.  Without a mesh these are all devices that JAX has, those of other processes included
        (`jax.distributed`).  There, every process gives the same rows, or with `parts` its own ones, of any number.
        """
        require_order()
        mesh = Mesh(np.array(jax.devices()), ("rows",)) if mesh is None else mesh
        if not isinstance(mesh, Mesh) or len(mesh.axis_names) != 1:
            raise ValueError('shard needs a mesh with one axis, such as jax.sharding.Mesh(jax.devices(), ("rows",)).')
        rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
        with jax.enable_x64(True):  # double precision stays double, whatever the program's own default
            if not parts:
                padded = self.pad(-(-self.rows // mesh.size) * mesh.size)
                return jax.tree.map(lambda a: jax.device_put(a, rows), padded)
            own = len(mesh.local_devices)
            # Of the largest part: every device has the same number of rows.
            each, fractions = np.max(of_all_processes([-(-self.rows // own), self.fractional]), axis=0)
            padded = dataclasses.replace(self.pad(int(each) * own), fractional=bool(fractions))
            return jax.tree.map(lambda a: jax.make_array_from_process_local_data(rows, np.asarray(a)), padded)


def _has_fractions(weight: Any) -> bool:
    weight = np.asarray(weight)
    return bool(np.any((weight > 0) & (weight < 1)))


def table(values: Any, name: str) -> Any:
    """Inputs as a table of numbers, in single precision if they are given so; one dimension is one column."""
    array = as_numbers(values, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} must be a table with at least one row and one column, got shape {array.shape}.")
    return array


def as_numbers(values: Any, name: str) -> Any:
    """An array of floating-point numbers; a traced array stays traced."""
    if not known(values):
        return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(float)
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; remove those rows, or give them a weight of 0 and a value.")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        return array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold numbers, in rows of the same length, but has {_what(values)}; encode text and dates as "
            "numbers first."
        ) from None


def _as_precise(array: Any, dtype: Any) -> Any:
    """The array in this precision; a traced one in the best that the program has, without JAX's warning."""
    return array.astype(dtype if known(array) else dtypes.canonicalize_dtype(dtype))


def _what(values: Any) -> str:
    """The first entry that is no number, or the type of what has no entries."""
    try:
        entries = np.asarray(values).ravel().tolist()
    except ValueError:
        return f"a {type(values).__name__} of lists"
    return next((f"the entry {v!r}" for v in entries if not isinstance(v, numbers.Real)), f"a {type(values).__name__}")


def refuse_nan(name: str, values: np.ndarray, infinity: bool) -> None:
    """Raise ValueError where there is a NaN or, if so asked, an infinite number."""
    if np.any(np.isnan(values)) or (infinity and np.any(np.isinf(values))):
        raise ValueError(f"{name} contains NaN or infinity; remove or impute those entries first.")


_LARGEST = {8: 1e100, 4: 1e12}  # by the bytes of a number


def check_size(X: np.ndarray) -> None:
    """Raise ValueError where distances between rows, or their squares, would not be finite numbers."""
    largest = _LARGEST[X.dtype.itemsize]
    if X.size and max(np.max(X), -np.min(X)) > largest:
        raise ValueError(
            f"X holds numbers beyond {largest:.0e}, whose squares overflow; divide its columns by their scale "
            "(StandardScaler does), or check whether such an entry is a code for a missing value."
        )


def bucket(rows: int) -> int:
    """The padded size for `rows`: steps of 32 up to 512 rows, then of about 1/16 of the size.

    There are few such sizes, so that folds and data sets share compiled programs.
    """
    step = 32
    while rows > 16 * step:
        step *= 2
    return -(-rows // step) * step
