"""Data: inputs, observations and weights of n rows, some of which may be padding.

A weight w is the number of times a row counts: an integer weight equals that many copies of the row,
a weight of 0 equals leaving it out, and a fraction is a likelihood raised to that power.  Padding is a row of
weight 0, so that shapes can be rounded up without changing any result.

y is one number per row, or a table whose columns the likelihood names (decision 005).  A bound in such a table may be
infinite.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike

from sitewise.runtime.precision import WORKING_DTYPE
from sitewise.types import ArrayField, fixed, module, static


@module
class Data:
    X: ArrayField = fixed()
    y: ArrayField = fixed()
    weight: ArrayField = fixed()
    fractional: bool = static(default=False)

    @property
    def mask(self) -> jax.Array:
        """True for the rows that count."""
        return self.weight > 0

    @property
    def rows(self) -> int:
        return self.X.shape[0]

    @staticmethod
    def of(X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> Data:
        """Check and convert arrays.  `weight` is one non-negative number per row."""
        X, y = np.asarray(X), np.asarray(y)
        if X.ndim == 1:
            X = X[:, None]
        if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
            raise ValueError(f"X must be a table with at least one row and one column, got shape {X.shape}.")
        if y.shape[:1] != X.shape[:1]:
            raise ValueError(f"X has {X.shape[0]} rows but y has shape {y.shape}; give one y per row.")
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        X, y = X.astype(dtype), y.astype(dtype)
        weight = np.ones(len(X), dtype) if weight is None else np.asarray(weight, dtype)
        if weight.shape != (len(X),) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise ValueError("weight must hold one finite, non-negative number per row.")
        if not np.any(weight > 0):
            raise ValueError("All weights are zero: there is no row to learn from.")
        for name, values in (("X", X), ("y", y)):
            if np.any(np.isnan(values)) or ((values is X or y.ndim == 1) and np.any(np.isinf(values))):
                raise ValueError(f"{name} contains NaN or infinity; remove or impute those entries first.")
        check_size(X)
        return Data(X, y, weight, fractional=bool(np.any((weight > 0) & (weight < 1))))

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

        For use inside `working_precision`.
        """
        filled = self.pad(bucket(self.rows) if rows is None else rows)
        return jax.tree.map(lambda a: jnp.asarray(a, WORKING_DTYPE), filled)

    def shard(self, mesh: Mesh) -> Data:
        """The rows, padded to a multiple of the devices, spread over all devices of a one-dimensional mesh.

        Every program of the library then runs on all devices: each sum over rows becomes a sum over devices.
        """
        if not isinstance(mesh, Mesh) or len(mesh.axis_names) != 1:
            raise ValueError('shard needs a mesh with one axis, such as jax.sharding.Mesh(jax.devices(), ("rows",)).')
        rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
        padded = self.pad(-(-self.rows // mesh.size) * mesh.size)
        with jax.enable_x64(True):  # double precision stays double, whatever the program's own default
            return jax.tree.map(lambda a: jax.device_put(a, rows), padded)


_LARGEST = {8: 1e100, 4: 1e12}  # by the bytes of a number


def check_size(X: np.ndarray) -> None:
    """Raise ValueError where distances between rows, or their squares, would not be finite numbers."""
    largest = _LARGEST[X.dtype.itemsize]
    if X.size and np.max(np.abs(X)) > largest:
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
