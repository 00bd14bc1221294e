"""Selection of inducing inputs and of their number.  The same inputs and seed give the same selection.

kmeans   centres of m clusters (mini-batches for large tables), in units of the lengthscales if the kernel has one per
         column; a kernel with levels uses greedy instead
greedy   at each step the row of largest prior variance given the rows selected so far: pivoted Cholesky of κ(X, X),
         O(nm²)
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
SECONDS = 15.0  # of a fit with Sparse("auto"), on two CPU cores
WORK_PER_SECOND = 2e9 / SECONDS  # n·m² per second, for one latent function
FULL_WORK_PER_SECOND = 1e9 / SECONDS  # n³ per second assumed of a full GP: the time limit is reached at 1 000 rows
MIN_ROWS_PER_INPUT = 5  # with fewer rows per inducing input a sparse GP takes about as long as a full GP
LEARNING_ROWS = 20_000  # size of the subset used for learning hyperparameters in limited time
MIN_COUNT, MIN_COUNT_OF_CLASSES, MIN_COUNT_WITH_SUBSET, MAX_COUNT = 100, 50, 250, 2_000
MAX_KMEANS_SIZE = 5_000_000  # rows × clusters; mini-batches above
MAX_GREEDY_ROWS = 20_000


def select(
    X: ArrayLike, inducing: str | ArrayLike = "kmeans", count: int = 500, *, kernel: Kernel | None = None, seed: int = 0
) -> np.ndarray:
    """Select inducing inputs for the rows of X, or check given inputs.

    If X has no more than `count` distinct rows, the result is these rows, and the sparse GP is exact.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        The training rows.
    inducing : str or array of shape (m, n_columns), default="kmeans"
        "kmeans": centres of clusters; "greedy": rows with the largest remaining variance; or the inputs themselves.
    count : int, default=500
        The number of inducing inputs.
    kernel : Kernel, default=None
        Needed for "greedy"; "kmeans" uses its lengthscales as units.
    seed : int, default=0
        Seed of the clusters.
    """
    X = np.asarray(X, float)
    if not isinstance(inducing, str):
        Z = as_numbers(inducing, "inducing")
        if Z.ndim != 2 or Z.shape[1] != X.shape[1]:
            raise ValueError(f"Inducing inputs must be a table with {X.shape[1]} columns, got shape {Z.shape}.")
        return Z
    at_least("The number of inducing inputs", count, 1)
    # In a large table the first rows nearly always contain more than `count` distinct rows.
    if len(np.unique(X[: 4 * count], axis=0)) <= count and len(distinct := np.unique(X, axis=0)) <= count:
        return distinct
    # The centre of rows of several levels is no level.
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
    rows: int, seconds: float = SECONDS, *, fits: int = 1, classes: int = 1, learning_rows: int | None = LEARNING_ROWS
) -> int | None:
    """Return the number of inducing inputs for a fit of about `seconds` on two CPU cores; None means the full GP.

    A fit takes about sixty conditionings of n·m² multiplications, hence m = √(2·10⁹/n · seconds/15), between 100 and
    2 000.  If there are more than `learning_rows` rows, a subset of this size is used for learning hyperparameters;
    every other row, which only needs a site, counts as an eighth of a row, and m is at least 250.  m is at most a
    fifth of the rows: the term m³ is then small, and a coarse stage precedes the search with all rows.  Joint classes
    learn from all rows and take n·(C·m)²; m is at least 50.  The full GP is used where n³ multiplications, for each
    of C classes, take no longer: up to 1 000 rows in 15 s.  The rule uses the number of rows and no clock: the model
    is the same on every machine.

    Parameters
    ----------
    rows : int
        The number of training rows.
    seconds : float, default=15.0
        The time of the fit.
    fits : int, default=1
        The number of fits that share the time.
    classes : int, default=1
        The number of joint classes.
    learning_rows : int, default=20000
        The largest number of rows from which hyperparameters are learned; None for no limit.
    """
    if rows**3 * classes * fits <= FULL_WORK_PER_SECOND * seconds:
        return None
    others = max(0, rows - learning_rows) if classes == 1 and learning_rows is not None else 0
    least = MIN_COUNT_OF_CLASSES if classes > 1 else MIN_COUNT_WITH_SUBSET if others else MIN_COUNT
    found = int(np.sqrt(WORK_PER_SECOND * seconds / fits / (rows - others + others / 8))) // classes
    return min(max(min(found, rows // MIN_ROWS_PER_INPUT), least), MAX_COUNT, rows)


def has_lengthscales(kernel: Kernel, columns: int) -> bool:
    """Return whether the kernel has one lengthscale per column, for several columns: k-means depends on them."""
    found = getattr(kernel, "lengthscale", None)
    return kernel.active_dims is None and columns > 1 and found is not None and np.shape(found) == (columns,)


def _lengthscales(kernel: Kernel | None, columns: int) -> np.ndarray:
    """Return the lengthscale per column; 1 if the kernel has none or a shared one, which moves no centre."""
    if kernel is None or not has_lengthscales(kernel, columns):
        return np.ones(columns)
    return np.asarray(kernel.lengthscale, float)  # type: ignore[attr-defined]


def _kmeans(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    if len(X) * count > MAX_KMEANS_SIZE:
        method = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=max(4096, 4 * count))
    else:
        method = KMeans(count, random_state=seed, n_init=1)
    return method.fit(X).cluster_centers_


def _greedy(X: np.ndarray, count: int, kernel: Kernel, seed: int) -> np.ndarray:
    """Select rows in the order of pivoted Cholesky (Fine & Scheinberg 2001), among at most 20 000 random rows.

    Selections of different sizes are nested: the first k rows are the selection of size k.
    """
    if len(X) > MAX_GREEDY_ROWS:
        X = X[np.random.default_rng(seed).choice(len(X), MAX_GREEDY_ROWS, replace=False)]
    kernel = to_host(kernel)  # JAX would trace the kernel for every column
    with working_precision():
        left = np.array(kernel.variances(X))
        floor = 1e-10 * left.max()
        factor = np.zeros((len(X), count))
        chosen: list[int] = []
        for k in range(count):
            pivot = int(np.argmax(left))
            if left[pivot] <= floor:
                break  # the selected rows determine f at all rows
            column = kernel.matrix(X, X[pivot : pivot + 1])[:, 0]
            factor[:, k] = (column - factor[:, :k] @ factor[pivot, :k]) / np.sqrt(left[pivot])
            left = np.maximum(left - factor[:, k] ** 2, 0.0)
            left[pivot] = 0.0
            chosen.append(pivot)
    return X[chosen]
