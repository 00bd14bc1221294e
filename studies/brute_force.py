"""Compute log Z of a GP of two to four rows as a sum over a grid, as an exact reference for other studies."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import linalg
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from sitewise import EP, VI, Data, Model, posterior

POINTS = {1: 800, 2: 250, 3: 60}  # of the grid along each axis, by the number of axes; the check has twice as many


def _stretched(points: int, low: float, high: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Trapezoidal nodes and log weights in t, x = width·sinh t: fine at 0, and reaching far at little cost."""
    t = np.linspace(np.arcsinh(low / width), np.arcsinh(high / width), points)
    return width * np.sinh(t), np.log(width * np.cosh(t) * (t[1] - t[0]))


def _two_scales(t: np.ndarray, log_ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """u = asinh(ratio · sinh t) and log du/dt, without overflow."""
    x = np.exp(log_ratio) * np.sinh(np.clip(t, -300, 300))
    far = (np.abs(t) > 40) & (np.abs(t) + log_ratio > 20)
    log_slope = log_ratio + np.log(np.cosh(np.clip(t, -300, 300))) - 0.5 * np.log1p(x * x)
    return np.where(far, np.sign(t) * (np.abs(t) + log_ratio), np.arcsinh(x)), np.where(far, 0.0, log_slope)


class BruteForce:
    """log ∫ N(f; 0, K) Π p(y_i|f_i) df for n ≥ 2 rows, by trapezoidal sums.

    The last row is integrated out by itself: given the others, f_n ~ N(m, s²) with m linear in them, and
    g(m) = log ∫ p(y_n|f) N(f; m, s²) df is tabulated.  The others form a tensor grid in whitened coordinates z of the
    posterior, f = c + R z, where R is triangular and z = 2 sinh t reaches nine deviations of the prior.
    """

    def __init__(self, model: Model, data: Data) -> None:
        self.likelihood, self.y, self.d = model.likelihood, np.asarray(data.y), data.rows - 1
        d, K = self.d, np.asarray(model.prior.gram(jnp.asarray(data.X)).K)
        self.K = K[:d, :d] + 1e-13 * K[-1, -1] * np.eye(d)
        self.L = np.linalg.cholesky(self.K)
        self.gain = np.linalg.solve(self.K, K[:d, -1])
        self.s = float(np.sqrt(max(K[-1, -1] - self.gain @ K[:d, -1], 1e-13 * K[-1, -1])))
        solution = EP().solve(model, data)
        sites = solution.sites if solution.outcome.ok else VI().solve(model, data).sites
        mean, cov = (np.asarray(a) for a in posterior(model, data, sites).f_joint(data.X))
        self.centre, self.R = mean[:d], np.linalg.cholesky(cov[:d, :d] + 1e-12 * self.K)

    def _log_p(self, i: int, f: np.ndarray) -> np.ndarray:
        values = np.asarray(self.likelihood.log_prob(jnp.asarray(self.y[i]), jnp.asarray(f)))
        return np.where(np.isfinite(values), values, -np.inf)

    def _last_row(self, fine: int, low: float, high: float) -> CubicSpline:
        c, w = (float(a) for a in self.likelihood.landmark(jnp.asarray(self.y[-1])))
        m = c + _stretched(800 * fine, low - c - 1, high - c + 1, float(np.hypot(w, self.s)))[0]
        # The integrand has the scale w about c and s about m; the steps of f = c + 2s·asinh(w/2s·sinh t) suit both.
        L = 2 * self.s
        log_ratio = float(np.log(min(w / L, 1.0)))
        ends = [_two_scales((m + k * 10 * self.s - c) / L, -log_ratio)[0] for k in (-1, 1)]
        u, log_slope = _two_scales(np.linspace(*ends, 200 * fine), log_ratio)
        f = c + L * u
        log_weight = log_slope + np.log(L * (ends[1] - ends[0]) / (200 * fine - 1))
        density = -0.5 * ((f - m) / self.s) ** 2 - np.log(self.s * np.sqrt(2 * np.pi))
        g = logsumexp(self._log_p(self.d, f) + density + log_weight, axis=0)
        return CubicSpline(m, np.maximum(g, np.max(g) - 600))

    def grid(self, points: int, fine: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The log of every summand of Z on a grid of so many points along each axis, and the values of f."""
        d, solve = self.d, linalg.solve_triangular
        prior_root = solve(self.R, self.L, lower=True)
        reach = 9 * np.linalg.norm(prior_root, 2) + np.linalg.norm(solve(self.R, self.centre, lower=True))
        z, log_w = _stretched(points, -max(12.0, reach), max(12.0, reach), 2.0)
        axes = [z.reshape([-1 if j == i else 1 for j in range(d)]) for i in range(d)]
        total = np.asarray(np.sum(np.log(np.diag(self.R)) - np.log(np.diag(self.L))) - 0.5 * d * np.log(2 * np.pi))
        f: list[np.ndarray] = []
        white: list[np.ndarray] = []  # L⁻¹ f
        for i in range(d):
            f.append(self.centre[i] + sum(self.R[i, j] * axes[j] for j in range(i + 1)))
            white.append((f[i] - sum((self.L[i, j] * white[j] for j in range(i)), np.zeros(()))) / self.L[i, i])
            total = total + (self._log_p(i, f[i]) - 0.5 * white[i] ** 2 + log_w.reshape(axes[i].shape))
        m = sum(self.gain[i] * f[i] for i in range(d))
        return total + self._last_row(fine, float(np.min(m)), float(np.max(m)))(m), f

    def fit_grid(self, points: int) -> None:
        """Take the mean and covariance of the posterior, as a coarse grid has it, for the coordinates."""
        total, f = self.grid(points, 1)
        share = np.exp(total - logsumexp(total))
        moved = [np.broadcast_to(a, share.shape) - c for a, c in zip(f, self.centre, strict=True)]
        shift = np.array([np.sum(share * a) for a in moved])
        cov = np.array([[np.sum(share * a * b) for b in moved] for a in moved]) - np.outer(shift, shift)
        if np.all(np.isfinite(cov)) and np.all(np.linalg.eigvalsh(cov) > 0):
            self.centre, self.R = self.centre + shift, np.linalg.cholesky(cov)

    def value(self) -> tuple[float, float]:
        """log Z, and how far it moves when the points are doubled."""
        points = POINTS[self.d]
        for _ in range(2):
            self.fit_grid(points // 2 + 1)
        first, second = (float(logsumexp(self.grid(fine * points, fine)[0])) for fine in (1, 2))
        return second, abs(second - first)
