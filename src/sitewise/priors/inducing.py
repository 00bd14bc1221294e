"""Choosing inducing inputs, and how many.  The same inputs and seed give the same choice.

kmeans   the centres of m clusters (by mini-batches for large tables), in lengthscales where the kernel has one for
         every column; greedy instead, where the kernel has levels
greedy   at each step the row of largest prior variance given those chosen so far: pivoted Cholesky of κ(X, X), O(nm²)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sitewise.arrays.engine import to_host
from sitewise.checks import at_least
from sitewise.data import as_numbers
from sitewise.kernels import Kernel
from sitewise.kernels.terms import level_columns
from sitewise.process.precision import working_precision

SELECTIONS = ("kmeans", "greedy")
SECONDS = 15.0  # of a fit with Sparse("auto"), on two processor cores
_PER_SECOND = 2e9 / SECONDS  # n·m² that a fit of one latent function may have for each of these seconds
LEARNING_ROWS = 20_000  # that teach the hyperparameters in a limited time
_LEAST, _LEAST_OF_CLASSES, _LEAST_OF_MANY, _MOST = 100, 50, 250, 2_000
_MINI_BATCH_ABOVE = 5_000_000  # rows × clusters
_GREEDY_ROWS = 20_000


def select(
    X: ArrayLike, inducing: str | ArrayLike = "kmeans", count: int = 500, *, kernel: Kernel | None = None, seed: int = 0
) -> np.ndarray:
    """Z: `count` inducing inputs for the rows of X, by name, or `inducing` itself if it is an array.

    If X has no more than `count` distinct rows, Z is those rows, and the sparse GP is exact.
    """
    X = np.asarray(X, float)
    if not isinstance(inducing, str):
        Z = as_numbers(inducing, "inducing")
        if Z.ndim != 2 or Z.shape[1] != X.shape[1]:
            raise ValueError(f"Inducing inputs must be a table with {X.shape[1]} columns, got shape {Z.shape}.")
        return Z
    at_least("The number of inducing inputs", count, 1)
    # Of a large table the first rows are nearly always enough to see that there are more.
    if len(np.unique(X[: 4 * count], axis=0)) <= count and len(distinct := np.unique(X, axis=0)) <= count:
        return distinct
    # A centre of rows of several levels has none.
    if inducing == "kmeans" and kernel is not None and level_columns(kernel, range(X.shape[1])):
        inducing = "greedy"
    if inducing == "kmeans":
        scale = _lengthscales(kernel, X.shape[1])
        return _kmeans(X / scale, count, seed) * scale
    if inducing == "greedy":
        if kernel is None:
            raise ValueError("Greedy selection needs a kernel; pass kernel=, or use 'kmeans'.")
        kernel.check(X.shape[1])
        return _greedy(X, count, kernel, seed)
    raise ValueError(f"Unknown selection {inducing!r}; choose 'kmeans' or 'greedy', or give an array.")


def how_many(
    rows: int, seconds: float = SECONDS, *, fits: int = 1, classes: int = 1, teaching: int | None = LEARNING_ROWS
) -> int | None:
    """The number of inducing inputs whose fit takes about so many seconds on two cores; None for the full GP.

    A fit is some sixty conditionings of n·m² multiplications each, so that m = √(2·10⁹/n · seconds/15), at least 100
    and at most 2 000.  Of more rows than `teaching` (None for all), so many teach the hyperparameters, and each of the
    others, of which only sites are found, counts as an eighth of a row; then there are at least 250.  Of `fits` fits
    each has its share of the time; joint classes learn with all rows and have n·(C·m)², at least 50.  If that is no
    fewer than the rows, the full GP takes no longer.  Only numbers of rows enter, no clock: the same table has the same
    model on every machine, in the seconds of that machine.
    """
    others = max(0, rows - teaching) if classes == 1 and teaching is not None else 0
    least = _LEAST_OF_CLASSES if classes > 1 else _LEAST_OF_MANY if others else _LEAST
    found = int(np.sqrt(_PER_SECOND * seconds / fits / (rows - others + others / 8))) // classes
    count = min(max(found, least), _MOST)
    return None if count >= rows else count


def has_lengthscales(kernel: Kernel, columns: int) -> bool:
    """Whether k-means depends on this kernel: it has a lengthscale for each of several columns."""
    found = getattr(kernel, "lengthscale", None)
    return kernel.active_dims is None and columns > 1 and found is not None and np.shape(found) == (columns,)


def _lengthscales(kernel: Kernel | None, columns: int) -> np.ndarray:
    """The lengthscale of every column; ones where the kernel has none, or one for all, which moves no centre."""
    if kernel is None or not has_lengthscales(kernel, columns):
        return np.ones(columns)
    return np.asarray(kernel.lengthscale, float)  # type: ignore[attr-defined]


def _kmeans(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    if len(X) * count > _MINI_BATCH_ABOVE:
        method = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=max(4096, 4 * count))
    else:
        method = KMeans(count, random_state=seed, n_init=1)
    return method.fit(X).cluster_centers_


def _greedy(X: np.ndarray, count: int, kernel: Kernel, seed: int) -> np.ndarray:
    """Rows in the order of pivoted Cholesky (Fine & Scheinberg 2001), among at most 20 000 drawn rows.

    The first `k` of them are the choice for `k`: sets of different sizes are nested.
    """
    if len(X) > _GREEDY_ROWS:
        X = X[np.random.default_rng(seed).choice(len(X), _GREEDY_ROWS, replace=False)]
    kernel = to_host(kernel)  # outside of a program JAX would trace the kernel anew for every column
    with working_precision():
        left = np.array(kernel.variances(X))
        floor = 1e-10 * left.max()
        factor = np.zeros((len(X), count))
        chosen: list[int] = []
        for k in range(count):
            pivot = int(np.argmax(left))
            if left[pivot] <= floor:
                break  # the chosen rows determine the others
            column = kernel.matrix(X, X[pivot : pivot + 1])[:, 0]
            factor[:, k] = (column - factor[:, :k] @ factor[pivot, :k]) / np.sqrt(left[pivot])
            left = np.maximum(left - factor[:, k] ** 2, 0.0)
            left[pivot] = 0.0
            chosen.append(pivot)
    return X[chosen]
