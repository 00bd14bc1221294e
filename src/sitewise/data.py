"""Data: inputs, observations and weights of n rows, some of which may be padding.

The likelihood of a row is raised to the power of its weight.  A whole weight w is equivalent to w copies of the row, a
weight of 0 to removing the row.  Padding consists of rows of weight 0: shapes are rounded up without changing results.

y is one number per row, or a table with the columns that the likelihood names (decision 005).  Bounds in this table may
be infinite.
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

from sitewise.arrays.engine import namespace
from sitewise.arrays.spread import is_spread, of_all_processes, require_order
from sitewise.checks import known
from sitewise.process.precision import WORKING_DTYPE
from sitewise.types import ArrayField, fixed, module, static


@module
class Data:
    """Inputs X, observations y and weights of the rows; use `Data.of` to check and convert arrays.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        The inputs.
    y : array of shape (n_rows,) or (n_rows, n_values)
        One number per row, or a table with the columns that the likelihood names (exposure, trials, bounds).
    weight : array of shape (n_rows,)
        The likelihood of a row is raised to the power of its weight.  Weight 2 is equivalent to duplicating the row,
        and weight 0 to removing it.
    fractional : bool, default=None
        Whether weights may lie between 0 and 1.  None determines it from the weights.

    Examples
    --------
    >>> from sitewise import Data
    >>> Data.of([[0.0], [1.0], [2.0]], [1, -1, 1]).rows
    3
    """

    X: ArrayField = fixed()
    y: ArrayField = fixed()
    weight: ArrayField = fixed()
    fractional: bool = static(
        default=None
    )  # whether weights may lie between 0 and 1; None: determined from the weights

    def __post_init__(self) -> None:
        if self.fractional is None:
            # Unknown weights are treated as fractions, which is correct for all weights.
            fractional = not known(self.weight) or _has_fractions(self.weight)
            object.__setattr__(self, "fractional", fractional)

    @property
    def mask(self) -> jax.Array:
        """True for rows of positive weight."""
        return self.weight > 0

    @property
    def rows(self) -> int:
        return self.X.shape[0]

    def ranges(self) -> np.ndarray:
        """Return max − min of every column of X over the rows of positive weight; 1 for a constant column."""
        xp, kept = namespace(self.X), self.mask[:, None]
        high, low = xp.max(xp.where(kept, self.X, -np.inf), axis=0), xp.min(xp.where(kept, self.X, np.inf), axis=0)
        found = np.asarray(high - low)
        return np.where(found > 0, found, 1.0)

    @staticmethod
    def of(X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Data:
        """Check and convert arrays.

        Under a JAX transformation such as `jit`, only shapes are checked, and traced weights are treated as fractions.
        This is correct for all weights, but uses quadrature where whole weights allow a closed form.  For traced whole
        weights, use `dataclasses.replace(data, fractional=False)`.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns) or (n_rows,)
            The inputs; a vector becomes one column.
        y : array of shape (n_rows,) or (n_rows, n_values)
            One number per row, or a table with the columns that the likelihood names.
        weight : array of shape (n_rows,), default=None
            One non-negative number per row.  None gives all rows weight 1.

        Returns
        -------
        data : Data
            The checked data.
        """
        inputs, values = table(X, "X"), as_numbers(y, "y")
        if values.shape[:1] != inputs.shape[:1]:
            raise ValueError(f"X has {inputs.shape[0]} rows but y has shape {values.shape}; give one y per row.")
        counts = np.ones(len(inputs)) if weight is None else as_numbers(weight, "weight")
        values, counts = (_in_precision(a, inputs.dtype) for a in (values, counts))
        data = Data(inputs, values, counts)
        data.check()
        if known(values):
            refuse_nan("y", values, infinity=values.ndim == 1)
        return data

    def check(self) -> None:
        """Raise ValueError if shapes differ, or if known inputs or weights are not finite or out of range."""
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
                raise ValueError(
                    "All weights are zero: there is no row to learn from; give at least one row a positive weight."
                )
            if not self.fractional and _has_fractions(weight):
                raise ValueError("Some weights are fractions although fractional=False; use Data.of, which sets it.")
        if isinstance(X, np.ndarray):  # arrays on a device were checked before they were moved there
            refuse_nan("X", X, infinity=True)
            check_size(X)

    def pad(self, rows: int) -> Data:
        """Return the data padded to `rows` rows with copies of row 0, which are valid, of weight 0."""
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
        """Return the data in double precision, padded to `rows` rows, by default to `bucket(self.rows)`.

        For use inside `working_precision`.  Data that are spread over devices are padded already.
        """
        filled = self if is_spread(self) else self.pad(bucket(self.rows) if rows is None else rows)
        return jax.tree.map(lambda a: jnp.asarray(a, WORKING_DTYPE), filled)

    def shard(self, mesh: Mesh | None = None, *, parts: bool = False) -> Data:
        """Return the data spread over all devices of a one-dimensional mesh, padded to equal rows per device.

        Inference, evidences and learning with a sparse prior then run on all devices: each sum over rows becomes a sum
        over devices.

        Parameters
        ----------
        mesh : Mesh, default=None
            None means all devices that JAX has, including the devices of other processes (`jax.distributed`).
        parts : bool, default=False
            With several processes: whether each process passes its own rows, of any number, instead of the same rows.
        """
        require_order()
        mesh = Mesh(np.array(jax.devices()), ("rows",)) if mesh is None else mesh
        if not isinstance(mesh, Mesh) or len(mesh.axis_names) != 1:
            raise ValueError('shard needs a mesh with one axis, such as jax.sharding.Mesh(jax.devices(), ("rows",)).')
        rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
        with jax.enable_x64(True):  # double precision stays double, independently of the caller's default
            if not parts:
                padded = self.pad(-(-self.rows // mesh.size) * mesh.size)
                return jax.tree.map(lambda a: jax.device_put(a, rows), padded)
            own = len(mesh.local_devices)
            # Rows per device and fractional weights, from the largest part of any process.
            each, fractions = np.max(of_all_processes([-(-self.rows // own), self.fractional]), axis=0)
            padded = dataclasses.replace(self.pad(int(each) * own), fractional=bool(fractions))
            return jax.tree.map(lambda a: jax.make_array_from_process_local_data(rows, np.asarray(a)), padded)


def _has_fractions(weight: Any) -> bool:
    weight = np.asarray(weight)
    return bool(np.any((weight > 0) & (weight < 1)))


def table(values: Any, name: str) -> Any:
    """Return inputs as a table of numbers; a vector becomes one column, and single precision is kept."""
    array = as_numbers(values, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} must be a table with at least one row and one column, got shape {array.shape}.")
    return array


def as_numbers(values: Any, name: str) -> Any:
    """Return an array of floating-point numbers; a traced array stays traced."""
    if not known(values):
        return values if jnp.issubdtype(values.dtype, jnp.floating) else values.astype(float)
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} has masked entries; remove these rows, or fill in a value and give the rows a weight of 0."
        )
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        return array if array.dtype == np.float32 else array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold numbers, in rows of the same length, but has {_first_non_number(values)}; encode text "
            "and dates as numbers first."
        ) from None


def _in_precision(array: Any, dtype: Any) -> Any:
    """Return the array in this precision; a traced array in the best precision that JAX is set to."""
    return array.astype(dtype if known(array) else dtypes.canonicalize_dtype(dtype))


def _first_non_number(values: Any) -> str:
    """Describe the first entry that is not a number, or the type of `values` if it has no entries."""
    try:
        entries = np.asarray(values).ravel().tolist()
    except ValueError:
        return f"a {type(values).__name__} of lists"
    return next((f"the entry {v!r}" for v in entries if not isinstance(v, numbers.Real)), f"a {type(values).__name__}")


def refuse_nan(name: str, values: np.ndarray, infinity: bool) -> None:
    """Raise ValueError if there is a NaN or, with `infinity`, an infinite number."""
    if np.any(np.isnan(values)) or (infinity and np.any(np.isinf(values))):
        raise ValueError(f"{name} contains NaN or infinity; remove or impute these entries first.")


_MAX_INPUT = {8: 1e100, 4: 1e12}  # largest |X|, by the bytes per number


def check_size(X: np.ndarray) -> None:
    """Raise ValueError if squared distances between rows would overflow."""
    largest = _MAX_INPUT[X.dtype.itemsize]
    if X.size and max(np.max(X), -np.min(X)) > largest:
        raise ValueError(
            f"X holds numbers beyond {largest:.0e}, whose squares overflow; scale its columns, for example by "
            "StandardScaler, or check whether these entries are codes for missing values."
        )


def bucket(rows: int) -> int:
    """Return the padded number of rows: a multiple of 32 up to 512 rows, then in steps of about 1/16 of the size.

    Few distinct sizes allow folds and data sets to share compiled programs.
    """
    step = 32
    while rows > 16 * step:
        step *= 2
    return -(-rows // step) * step
