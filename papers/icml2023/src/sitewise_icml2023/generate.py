"""Data sets that need no download: shipped with a dependency, published as counts, or simulated.

breast-cancer-wisc-diag and titanic come out byte for byte as the registered files.  The `-simulated` sets are drawn
anew from the same distribution: results on them are close to, but not those of, the paper's rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Survivors of the Titanic (Dawson 1995): class, age, sex, survived, people; the order of the DELVE file.
_TITANIC = """
1 adult male yes 57, 1 adult male no 118, 1 adult female yes 140, 1 adult female no 4, 1 child male yes 5,
1 child female yes 1, 2 adult male yes 14, 2 adult male no 154, 2 adult female yes 80, 2 adult female no 13,
2 child male yes 11, 2 child female yes 13, 3 adult male yes 75, 3 adult male no 387, 3 adult female yes 76,
3 adult female no 89, 3 child male yes 13, 3 child male no 35, 3 child female yes 14, 3 child female no 17,
4 adult male yes 192, 4 adult male no 670, 4 adult female yes 20, 4 adult female no 3
"""


def _jmlr_csv(features: np.ndarray, labels: np.ndarray) -> bytes:
    """The layout of the classification files: row number, columns standardised (n − 1), six digits, label."""
    scaled = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    lines = [",".join(["row", *(f"f{j + 1}" for j in range(scaled.shape[1])), "label"])]
    for i, (row, label) in enumerate(zip(scaled, labels, strict=True)):
        lines.append(",".join([str(i + 1), *(f"{v:.6g}" for v in row), str(int(label))]))
    return ("\n".join(lines) + "\n").encode()


def breast_cancer() -> bytes:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return _jmlr_csv(X, 1 - y)


def titanic() -> bytes:
    rows = []
    for entry in _TITANIC.split(","):
        place, age, sex, survived, people = entry.split()
        rows += [(int(place), age == "child", sex == "male", survived == "yes")] * int(people)
    table = np.array(rows, float)
    return _jmlr_csv(table[:, :3], table[:, 3])


def twonorm() -> bytes:
    """Breiman's twonorm: two unit normals in 20 dimensions with means ±2/√20 in every coordinate."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 7400)
    side = np.where(labels == 1, 1.0, -1.0)[:, None]
    return _jmlr_csv(rng.normal(size=(7400, 20)) - side * 2 / np.sqrt(20), labels)


def neal() -> bytes:
    """Neal (1997): 0.3 + 0.4 x + 0.5 sin(2.7 x) + 1.1/(1 + x²), noise of sd 0.1, in one row of twenty of sd 1."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    spread = np.where(rng.uniform(size=100) < 0.05, 1.0, 0.1)
    y = 0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1 + x**2) + spread * rng.normal(size=100)
    return ("x1,y\n" + "".join(f"{a:.6g},{b:.6g}\n" for a, b in zip(x, y, strict=True))).encode()


OFFLINE: dict[str, Callable[[], bytes]] = {
    "breast-cancer-wisc-diag": breast_cancer,
    "titanic": titanic,
    "twonorm-simulated": twonorm,
    "neal-simulated": neal,
}
