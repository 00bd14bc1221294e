"""The Matérn-5/2 kernel of the program behind the printed columns of Laplace and EP.

Squared distances are expanded, |a|² + |b|² − 2aᵀb; with one lengthscale per feature, after division by the lengthscale.
Near a lengthscale of zero this loses all digits, and equal rows are no longer equal; `slope` uses differences of the
features, and is not the slope of the matrix there.
"""

from __future__ import annotations

import numpy as np

ROOT5 = np.sqrt(5.0)


class Expanded:
    """Return the kernel matrix of the rows; θ is the variance, then one lengthscale or one per feature."""

    def __init__(self, X: np.ndarray, shared: bool) -> None:
        self.X, self._shared = X, shared
        squares = [(column[:, None] - column) ** 2 for column in X.T]
        self._squares = [np.sum(squares, axis=0)] if shared else squares
        self._at: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        r = self._distances(theta, self.X)
        np.fill_diagonal(r, 0.0)
        K = theta[0] * (1 + ROOT5 * r + 5 / 3 * r**2) * np.exp(-ROOT5 * r)
        self._at = theta, r, K
        return K

    def slope(self, by_K: np.ndarray) -> np.ndarray:
        """Return ∂/∂θ at the θ of the last matrix of a function with this gradient with respect to the matrix."""
        assert self._at is not None, "no matrix was asked for"
        theta, r, K = self._at
        by_square = -5 / 6 * theta[0] * (1 + ROOT5 * r) * np.exp(-ROOT5 * r) * by_K  # of the squared distance
        by_square[r == 0] = 0.0
        lengthscales = [
            -2 * np.sum(by_square * s) / scale**3 for s, scale in zip(self._squares, theta[1:], strict=True)
        ]
        return np.array([np.sum(K * by_K) / theta[0], *lengthscales])

    def cross(self, theta: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the kernel matrix between the rows and new rows."""
        r = self._distances(theta, X)
        return theta[0] * (1 + ROOT5 * r + 5 / 3 * r**2) * np.exp(-ROOT5 * r)

    def _distances(self, theta: np.ndarray, X: np.ndarray) -> np.ndarray:
        if self._shared:
            return _expanded(self.X, X) / theta[1]
        return _expanded(self.X / theta[1:], X / theta[1:])


def _expanded(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    squares = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1) - 2 * A @ B.T
    return np.sqrt(np.maximum(squares, 0.0))
