"""Draw the rows and the parts of a fuzz case of `fuzzing.sums`: places, groups, areas, times and regressors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sitewise import kernels, parts

COLUMNS = {"place": [0, 1], "group": 2, "inner": 3, "area": 4, "time": 5, "regressor": 6}
ROWS = (1, 2, 3, 7, 15, 30)  # few different numbers: each compiles programs of its own
NEIGHBOURS = (1, 4, 40)
AREAS = 9
GRAPHS = (
    {i: [i + 1] if i + 1 < AREAS else [] for i in range(AREAS)},  # a chain
    {0: list(range(1, AREAS)), **{i: [] for i in range(1, AREAS)}},  # a star
    {0: [1, 2], 1: [2], 2: [3], 3: [], 4: [5], 5: [], 6: [7, 8], 7: [8], 8: []},  # three components
    {0: [1], 1: [], **{i: [] for i in range(2, AREAS)}},  # nearly all areas without neighbours
)


def rows_of(rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Rows with the columns of `COLUMNS`; each column may be awkward."""
    n, tags = int(rng.choice(ROWS, p=[0.04, 0.04, 0.07, 0.25, 0.3, 0.3])), []

    def sometimes(name: str, chance: float) -> bool:
        if rng.random() < chance:
            tags.append(name)
            return True
        return False

    X = np.column_stack([
        rng.uniform(-2, 2, (n, 2)), rng.integers(0, 4, n), rng.integers(0, 3, n), rng.integers(0, AREAS, n),
        rng.uniform(0, 6, n).round(2), rng.normal(size=n),
    ])  # fmt: skip
    if sometimes("repeated places", 0.2):
        X[:, :2] = X[rng.integers(0, max(1, n // 3), n), :2]
    if sometimes("one place", 0.05):
        X[:, :2] = X[0, :2]
    if sometimes("grid of places", 0.15):
        X[:, :2] = X[:, :2].round(0)
    if sometimes("places on a line", 0.1):
        X[:, 1] = X[:, 0]
    if sometimes("close places", 0.1):
        X[1::2, :2] = X[: len(X[1::2]), :2] + 1e-7
    if sometimes("places far from zero", 0.1):
        X[:, :2] += 5e5
    if sometimes("one level", 0.1):
        X[:, 2] = 3.0
    if sometimes("a level per row", 0.1):
        X[:, 2] = rng.permutation(n)
    if sometimes("levels that are no integers", 0.1):
        X[:, 2] = X[:, 2] * 1e6 - 0.5
    if sometimes("one area", 0.1):
        X[:, 4] = 5.0
    if sometimes("close times", 0.1):
        X[:, 5] = 3 + 1e-4 * X[:, 5]
    if sometimes("equal times", 0.15):
        X[:, 5] = X[:, 5].round(0)
    if sometimes("long gaps", 0.1):
        X[n // 2 :, 5] += 1e4
    if sometimes("constant regressor", 0.1):
        X[:, 6] = 0.0
    if sometimes("large regressor", 0.1):
        X[:, 6] = 1e4 * (1 + X[:, 6])
    return X, tags


def some_parts(rng: np.random.Generator, X: np.ndarray) -> list[parts.Part]:
    """One to four parts with random hyperparameters, mostly with an intercept, and sometimes a product of two."""
    place, group, area, trend, season, linear = _makers(rng, X)
    makers = (place, place, group, group, area, trend, season, linear)
    chosen = [makers[k]() for k in rng.choice(len(makers), int(rng.integers(1, 5)), replace=False)]
    if rng.random() < 0.8:
        chosen.append(parts.Constant())
    more = rng.spawn(1)[0]  # cases without a product are those of earlier versions
    if more.random() < 0.2:
        place, group, area, trend, _, linear = _makers(more, X)
        one, other = (place, group, area)[more.integers(3)](), (trend, linear)[more.integers(2)]()
        if np.size(getattr(other, "variance", 0.0)) == 1:
            chosen.append(parts.Product((one, other)))
    return chosen


def _makers(rng: np.random.Generator, X: np.ndarray) -> tuple[Callable[[], parts.Part], ...]:
    """Functions that draw a map, groups, areas, a trend, a season and linear effects."""

    def positive(reach: float = 2.0) -> float:
        return float(np.exp(rng.uniform(-reach, reach)))

    matern = (kernels.Matern12, kernels.Matern32, kernels.Matern52)

    def place() -> parts.Part:
        kernel = matern[rng.integers(3)]
        kinds = int(rng.integers(3))
        if kinds == 2 and np.all(np.abs(X[:, 1]) < 80):  # degrees
            return parts.Map((0, 1), kernel(100 * positive(), positive(4)), int(rng.choice(NEIGHBOURS)), sphere=True)
        scale = [positive(), positive()] if kinds == 1 else positive()
        return parts.Map((0, 1), kernel(scale, positive(4)), int(rng.choice(NEIGHBOURS)))

    def group() -> parts.Part:
        columns = (2, 3) if rng.random() < 0.3 else 2
        return parts.Levels(columns, slope=6 if rng.random() < 0.3 else None, variance=positive(4))

    def area() -> parts.Part:
        graph = GRAPHS[rng.integers(len(GRAPHS))]
        if rng.random() < 0.4:
            return parts.Area(4, graph, model="icar", variance=positive(4))
        return parts.Area(4, graph, variance=positive(4), share=float(rng.choice([0.01, 0.5, 0.99])))

    def trend() -> parts.Part:
        by = 2 if rng.random() < 0.4 else None
        return parts.Series(5, matern[rng.integers(3)](positive(), positive(4)), by=by)

    def season() -> parts.Part:
        period, detail = float(rng.choice([0.5, 2.5, 100.0])), float(np.exp(rng.uniform(-1, 1)))
        return parts.Season(5, period=period, lengthscale=detail, variance=positive(4))

    def linear() -> parts.Part:
        if rng.random() < 0.5:
            return parts.Linear(6, variance=positive(4))
        return parts.Linear((6, 0), variance=[positive(), positive()])

    return place, group, area, trend, season, linear
