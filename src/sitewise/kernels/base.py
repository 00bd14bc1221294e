"""The base class of kernels (covariance functions), and their sums, products and scalings."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host
from sitewise.checks import must_be, numbers_of, one_number, outline
from sitewise.kernels import tiles
from sitewise.types import ArrayField, Module, fixed, module, positive, precedes, replace, static

T = TypeVar("T")
Pull = Callable[[np.ndarray], Any]  # maps the cotangent of a matrix to the cotangent of the kernel


@module
class Kernel(Module):
    """Base class of kernels (covariance functions).  Subclasses define `pairs` and `diag` on the active columns.

    Parameters
    ----------
    active_dims : tuple of int, default=None
        The numbers of the columns that the kernel uses; None for all columns.
    name : str, default=None
        The name of this term in `kernels.terms`; None for a name made from its columns.
    """

    active_dims: tuple[int, ...] | None = static(default=None, kw_only=True)
    name: str | None = static(default=None, kw_only=True)

    __array_ufunc__ = None  # so that np.float64(2) * kernel calls __rmul__ below

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.active_dims is not None:
            object.__setattr__(self, "active_dims", _column_numbers(self.active_dims))

    def pairs(self, A: Array, B: Array) -> Array:
        """Return the matrix of κ(a_i, b_j); A and B hold the active columns.

        Entry (i, j) must depend on a_i and b_j alone, because the matrix may be computed in blocks.
        """
        raise NotImplementedError(f"{type(self).__name__} must define pairs(A, B).")

    def diag(self, A: Array) -> Array:
        """Return the vector of κ(a_i, a_i); A holds the active columns."""
        raise NotImplementedError(f"{type(self).__name__} must define diag(A).")

    def check(self, columns: int) -> None:
        """Raise ValueError if the kernel cannot be used on `columns` columns; extend with `super().check(columns)`."""
        if self.active_dims is not None and max(self.active_dims) >= columns:
            raise ValueError(
                f"{type(self).__name__}: active_dims names column {max(self.active_dims)}, but the columns of the "
                f"inputs are counted from 0 to {columns - 1}; choose numbers in this range."
            )

    def check_rows(self, X: np.ndarray) -> None:
        """Raise ValueError if the kernel cannot be used on these training rows; the default checks its parts."""
        A = self.active_columns(X)
        for part in inner(self):
            part.check_rows(A)

    def seen(self, columns: int) -> int:
        """Return the number of active columns of a table with `columns` columns."""
        return columns if self.active_dims is None else len(self.active_dims)

    def level_dims(self, columns: int) -> tuple[int, ...]:
        """Return which of the `columns` active columns hold levels, such as groups, and not numbers."""
        return ()

    def linear_dims(self, columns: int) -> tuple[int, ...]:
        """Return in which of the `columns` active columns the function is linear through the origin."""
        return ()

    def active_columns(self, X: Array) -> Array:
        """Return the active columns of X."""
        if self.active_dims is None:
            return X
        Kernel.check(self, X.shape[1])  # JAX would silently use the last column for every larger number
        return X[:, np.asarray(self.active_dims)]

    def matrix(self, X: Array, other: Array | None = None) -> Array:
        """Return the covariance matrix between the rows of X and of `other`, or among the rows of X; all columns."""
        if other is not None and X.shape[1] != other.shape[1]:
            raise ValueError(
                f"Tables of {X.shape[1]} and of {other.shape[1]} columns were given; give tables with the same columns."
            )
        if is_host(X, X if other is None else other, *jax.tree.leaves(self)):
            return self.matrix_with_pull(X, other)[0]
        A = self.active_columns(X)
        return self.pairs(A, A if other is None else self.active_columns(other))

    def cross(self, X: Array, rows: Array) -> Array:
        """Return the covariances between the predicted quantity at the rows of X and f at the training rows.

        The predicted quantity differs from f where it is one term of a sum, or the utility of single items
        (`pairwise.Items`).
        """
        return self.matrix(X, rows)

    def matrix_with_pull(self, X: np.ndarray, other: np.ndarray | None = None) -> tuple[np.ndarray, Pull]:
        """Return `matrix` on NumPy arrays, and the function from its cotangent to the cotangent of the kernel."""
        A = self.active_columns(X)
        return self.pairs_with_pull(A, A if other is None else self.active_columns(other))

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        """Return `pairs` on NumPy arrays, and its pullback.

        The default evaluates `pairs` in compiled tiles; a kernel may override it for speed.
        """
        return tiles.pairs_with_pull(self, A, B)

    def pull_rows(self, X: np.ndarray, rows: np.ndarray, bar: np.ndarray) -> np.ndarray:
        """Return the cotangent of `rows`, given the cotangent `bar` of κ(X, rows); NumPy arrays."""
        out = np.zeros(rows.shape)
        columns = slice(None) if self.active_dims is None else np.asarray(self.active_dims)
        out[:, columns] = self.pairs_pull_rows(self.active_columns(X), self.active_columns(rows), bar)
        return out

    def pairs_pull_rows(self, A: np.ndarray, B: np.ndarray, bar: np.ndarray) -> np.ndarray:
        """Return the cotangent of B, given the cotangent `bar` of `pairs`; a kernel may override it for speed."""
        return tiles.pull_rows(self, A, B, bar)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if precedes(cls, "matrix", "matrix_with_pull"):
            raise TypeError(f"{cls.__name__} defines matrix, which is the same for all kernels; define pairs instead.")
        # A class that overrides `pairs` must not inherit the fast versions of the old `pairs`.
        if precedes(cls, "pairs", "pairs_with_pull"):
            cls.pairs_with_pull = Kernel.pairs_with_pull  # type: ignore[method-assign]
        if precedes(cls, "pairs", "pairs_pull_rows"):
            cls.pairs_pull_rows = Kernel.pairs_pull_rows  # type: ignore[method-assign]

    def variances(self, X: Array) -> Array:
        """Return κ(x, x) of every row of X; all columns."""
        found = self.diag(self.active_columns(X))
        return np.asarray(found) if is_host(X, *jax.tree.leaves(self)) else found

    def __add__(self, other: Kernel) -> Sum:
        must_be(other, Kernel, "The other term of a kernel sum", "Constant(0.5), a kernel of sitewise.kernels")
        return Sum(_parts(self, Sum) + _parts(other, Sum))

    __radd__ = __add__

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, numbers.Real | np.ndarray | jax.Array):
            return Scaled(self, other if isinstance(other, jax.core.Tracer) else np.asarray(other, float))
        kernel = must_be(
            other, Kernel, "The other factor of a kernel product", "Linear(), a kernel of sitewise.kernels"
        )
        return Product(_parts(self, Product) + _parts(kernel, Product))

    __rmul__ = __mul__


def _column_numbers(given: Any) -> tuple[int, ...]:
    """Return `active_dims` as a tuple of distinct integers from 0."""
    each = tuple(given) if isinstance(given, list | tuple | range | np.ndarray) else (given,)
    if not each or not all(isinstance(i, numbers.Integral) and not isinstance(i, bool | np.bool_) for i in each):
        raise ValueError(f"active_dims must list the numbers of columns, such as (0, 2), got {given!r}.")
    if min(each) < 0 or len(set(each)) < len(each):
        raise ValueError(f"active_dims must list columns by numbers from 0, each column once, got {given!r}.")
    return tuple(int(i) for i in each)


def check_matrix(kernel: Kernel, columns: int) -> None:
    """Raise ValueError unless `pairs` gives a matrix and `diag` a vector."""
    found = _shapes_of_matrix(*outline(kernel), columns)
    if found != ((2, 3), (2,)):
        raise ValueError(
            f"{type(kernel).__name__}: for tables of 2 and 3 rows pairs must have the shape (2, 3) and diag the shape "
            f"(2,), got {found[0]} and {found[1]}."
        )


@functools.lru_cache(maxsize=256)
def _shapes_of_matrix(form: Any, leaves: tuple[Any, ...], columns: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of κ(A, B) and diag κ(A, A) for tables of 2 and 3 rows, without evaluating the kernel."""
    kernel, A, B = jax.tree.unflatten(form, leaves), numbers_of(2, columns), numbers_of(3, columns)
    found = jax.eval_shape(lambda kernel, A, B: (kernel.matrix(A, B), kernel.variances(A)), kernel, A, B)
    return tuple(array.shape for array in found)


def zeros(kernel: T) -> T:
    """Return the zero cotangent of a kernel."""
    return jax.tree.map(np.zeros_like, kernel)


def _each_with_pull(parts: tuple[Kernel, ...], A: np.ndarray, B: np.ndarray) -> tuple[list[np.ndarray], list[Pull]]:
    """Return the matrices of all parts, and their pullbacks."""
    found = [k.matrix_with_pull(A, None if B is A else B) for k in parts]
    return [matrix for matrix, _ in found], [pull for _, pull in found]


def inner_names(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Yield the direct parts of a composite kernel, each with its path, such as "base" or "parts.1"."""
    for f in dataclasses.fields(kernel):
        value = getattr(kernel, f.name)
        if isinstance(value, Kernel):
            yield f.name, value
        elif isinstance(value, tuple):
            yield from ((f"{f.name}.{i}", one) for i, one in enumerate(value) if isinstance(one, Kernel))


def inner(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return the direct parts of a composite kernel; () for a simple kernel."""
    return tuple(one for _, one in inner_names(kernel))


def check_parts(kernel: Kernel, parts: tuple[Any, ...], seen: int) -> None:
    """Call `check` of all parts of a kernel, whose tables have `seen` columns."""
    if not parts:
        raise ValueError(f"{type(kernel).__name__} has no parts; give it at least one kernel.")
    for part in parts:
        must_be(part, Kernel, f"A part of {type(kernel).__name__}", "RBF(), a kernel of sitewise.kernels")
        part.check(seen)


def _parts(kernel: Kernel, kind: type[Sum] | type[Product]) -> tuple[Kernel, ...]:
    """Return the parts of a sum (or product), or the kernel itself, so that a + b + c has three parts."""
    if isinstance(kernel, kind) and kernel.active_dims is None:
        return kernel.parts
    return (kernel,)


@module
class Sum(Kernel):
    """Sum of kernels, Σ_k κ_k(x, x'), written as `a + b`.

    Parameters
    ----------
    parts : tuple of Kernel, default=()
        The kernels.
    """

    parts: tuple[Kernel, ...] = ()

    def check(self, columns: int) -> None:
        super().check(columns)
        check_parts(self, self.parts, self.seen(columns))

    def pairs(self, A: Array, B: Array) -> Array:
        return functools.reduce(operator.add, (k.matrix(A, B) for k in self.parts))

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        matrices, pulls = _each_with_pull(self.parts, A, B)
        return sum(matrices[1:], matrices[0]), lambda bar: replace(self, parts=tuple(pull(bar) for pull in pulls))

    def diag(self, A: Array) -> Array:
        return functools.reduce(operator.add, (k.variances(A) for k in self.parts))


@module
class Product(Kernel):
    """Product of kernels, Π_k κ_k(x, x'), written as `a * b`.

    Parameters
    ----------
    parts : tuple of Kernel, default=()
        The kernels.
    """

    parts: tuple[Kernel, ...] = ()

    def check(self, columns: int) -> None:
        super().check(columns)
        check_parts(self, self.parts, self.seen(columns))

    def pairs(self, A: Array, B: Array) -> Array:
        out = jnp.ones((A.shape[0], B.shape[0]), A.dtype)
        for k in self.parts:
            out = out * k.matrix(A, B)
        return out

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        matrices, pulls = _each_with_pull(self.parts, A, B)

        def pull(bar: np.ndarray) -> Product:
            others = (matrices[:k] + matrices[k + 1 :] for k in range(len(matrices)))
            bars = (functools.reduce(operator.mul, rest, bar) for rest in others)
            return replace(self, parts=tuple(pull(one) for pull, one in zip(pulls, bars, strict=True)))

        return functools.reduce(operator.mul, matrices), pull

    def diag(self, A: Array) -> Array:
        return functools.reduce(operator.mul, (k.variances(A) for k in self.parts))


@module
class Scaled(Kernel):
    """Kernel multiplied by a positive number, variance · κ(x, x'), written as `2.0 * a`.

    Parameters
    ----------
    base : Kernel, default=None
        The kernel.
    variance : float, default=1.0
        The factor; learned.
    """

    base: Kernel = fixed(default=None)
    variance: ArrayField = positive(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        one_number(self, "variance")
        check_parts(self, (self.base,), self.seen(columns))

    def pairs(self, A: Array, B: Array) -> Array:
        return self.variance * self.base.matrix(A, B)

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        base, pull = self.base.matrix_with_pull(A, None if B is A else B)
        return self.variance * base, lambda bar: replace(
            zeros(self), base=pull(self.variance * bar), variance=np.sum(bar * base)
        )

    def diag(self, A: Array) -> Array:
        return self.variance * self.base.variances(A)
