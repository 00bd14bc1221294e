"""Emulator of EP's evidence as a function of hyperparameters θ: a spline, and random walks on it as MCMC proposals.

`learn` evaluates log p(θ) Z_EP(θ) at nodes: around the mode, on a coarse grid over the whole box, and then in rounds at
the end points of walks on the present spline.  It ends when the spline predicts the new nodes.

A walk consists of steps of random-walk Metropolis on s = exp(spline), which cost microseconds.  Every step is
reversible for s, hence the walk is reversible too.  As a proposal of another chain the walk has the ratio

    k(θ' → θ) / k(θ → θ') = s(θ) / s(θ').

This chain is exact even if the spline or EP are inaccurate; it accepts more often if they are accurate.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from sitewise.numerics.dense.scattered_data import CubicSpline, cubic_spline, local_linear_shares
from sitewise.numerics.dense.small_matrices import principal_axes
from sitewise.sites import Sites

_COMPRESSION_DEPTH = 5.0  # nats below the best node from which on depths are compressed: see `_compressed`
_MAX_DEPTH = 1e6  # nats below the best node
_MAX_COMPRESSED = _COMPRESSION_DEPTH * np.log1p(_MAX_DEPTH / _COMPRESSION_DEPTH)
_SMOOTHING = 1e-6  # of the spline: nodes may nearly coincide
_MAX_EXCESS = 1.0  # nats above the best node that the spline may predict
_COLD_WALKERS, _HOT_WALKERS = 64, 32
_HOT_TEMPERATURE = 2.0
_NODES_PER_ROUND = 8  # or two per parameter, if that is more; every fourth new node is at a hot walker
_COORDINATE_ROUNDS = 3  # latest rounds whose walkers determine the coordinates
_TARGET_ERROR = 0.15  # nats, the error of the spline at new nodes at which learning ends
_SHORT_WALK_ERROR = 0.5  # nats, the error of the spline above which half of the proposals are shorter walks
_STEP_SCALES = (0.1, 3.0)  # range of the lengths of steps, in standard deviations
_INITIAL_SD_RANGE = (0.02, 4.0)  # of the standard deviations along the initial axes
_LEAST_NEAR, _NEAR_PER_PARAMETER = 12, 3  # nodes whose sites are interpolated
_NEAR_DISTANCE2 = 0.05  # squared distance, in standard deviations, below which all nodes count alike
_MAX_DIMENSIONS = 4  # number of parameters up to which longer walks and many more nodes improve the spline
_BOX_NODES = {1: 8, 2: 5, 3: 3}  # by the number of parameters: nodes per parameter over the whole box

Evaluate = Callable[[np.ndarray, Sites | None], tuple[float, Sites]]  # log p(θ) Z(θ) and sites, from a start


def _compressed(depth: np.ndarray) -> np.ndarray:
    """Return c log(1 + depth/c), the values of the spline; deep valleys then cause no oscillation between nodes."""
    c = _COMPRESSION_DEPTH
    return c * np.log1p(np.minimum(np.maximum(depth, 0.0), _MAX_DEPTH) / c)


def _decompressed(compressed: np.ndarray) -> np.ndarray:
    """Return the depth below the best node, the inverse of `_compressed`."""
    c = _COMPRESSION_DEPTH
    return c * np.expm1(np.minimum(compressed, _MAX_COMPRESSED) / c)


class Node(NamedTuple):
    vector: np.ndarray
    value: float
    sites: Sites


@dataclasses.dataclass(frozen=True)
class Emulator:
    """A spline through the values of `nodes`, in the coordinates x = (v − centre) / axes.

    `error` is the error of the spline at the latest nodes, before they were added.
    """

    nodes: tuple[Node, ...]
    centre: np.ndarray
    axes: np.ndarray  # columns are standard deviations
    limits: np.ndarray
    error: float = np.inf

    @functools.cached_property
    def best(self) -> float:
        return max(node.value for node in self.nodes)

    @functools.cached_property
    def vectors(self) -> np.ndarray:
        """Vectors of the nodes, one per row."""
        return np.array([node.vector for node in self.nodes])

    @functools.cached_property
    def _spline(self) -> CubicSpline:
        """Spline through what the nodes add to `_base`."""
        x = self.standard(self.vectors)
        values = _compressed(self.best - np.array([node.value for node in self.nodes]))
        return cubic_spline(x, values - self._base(x), _SMOOTHING)

    def _base(self, x: np.ndarray) -> np.ndarray:
        """Compressed depth of a Gaussian; the spline adds little if the posterior of θ is nearly Gaussian."""
        return _compressed(0.5 * (x * x).sum(axis=1))

    @functools.cached_property
    def _to_standard(self) -> np.ndarray:
        return self.axes / np.sum(self.axes**2, axis=0)

    def standard(self, vectors: np.ndarray) -> np.ndarray:
        """Return the coordinates x of each row; the axes are orthogonal."""
        return (vectors - self.centre) @ self._to_standard

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        """Return log s at the rows of `vectors`; −∞ outside the limits."""
        x = self.standard(vectors)
        compressed = self._base(x) + self._spline.at(x)
        inside = ((vectors >= self.limits[:, 0]) & (vectors <= self.limits[:, 1])).all(axis=1)
        return np.where(inside, self.best - np.maximum(_decompressed(compressed), -_MAX_EXCESS), -np.inf)

    def nearest(self, vector: np.ndarray) -> Node:
        """Return the node nearest to `vector`."""
        away = self.standard(self.vectors) - self.standard(vector[None])
        return self.nodes[int(np.argmin(np.sum(away**2, axis=1)))]

    @functools.cached_property
    def _site_table(self) -> np.ndarray:
        """Sites of the nodes: (nodes, 2, rows)."""
        return np.array([np.stack([*node.sites]) for node in self.nodes])

    def sites_at(self, vector: np.ndarray) -> Sites:
        """Return approximate sites: a linear fit to the sites of the nearest nodes, within the range of these sites."""
        away = self.standard(self.vectors) - self.standard(vector[None])
        d2 = np.sum(away**2, axis=1)
        size = max(_LEAST_NEAR, _NEAR_PER_PARAMETER * (len(vector) + 1))
        near = np.argsort(d2)[:size]
        found = self._site_table[near]
        if len(near) < size:
            return Sites(*found[0])
        share = local_linear_shares(away[near], _NEAR_DISTANCE2)
        return Sites(*np.clip(np.tensordot(share, found, 1), found.min(axis=0), found.max(axis=0)))

    def length(self) -> int:
        """Return the number of steps after which a walk is independent of its start."""
        return 100 + 50 * min(len(self.centre), _MAX_DIMENSIONS)

    def walk(
        self, rng: np.random.Generator, vectors: np.ndarray, steps: int, temperature: float | np.ndarray = 1.0
    ) -> np.ndarray:
        """Return the end points of walks of `steps` steps from each row of `vectors`."""
        here, count = self.log_density(vectors), len(vectors)
        low, high = np.log(_STEP_SCALES)
        for _ in range(steps if vectors.shape[1] else 0):
            scale = np.exp(rng.uniform(low, high, (count, 1)))
            new = vectors + (scale * rng.standard_normal(vectors.shape)) @ self.axes.T
            there = self.log_density(new)
            accept = np.log(rng.uniform(1e-300, 1.0, count)) * temperature < there - here
            vectors, here = np.where(accept[:, None], new, vectors), np.where(accept, there, here)
        return vectors

    def propose(self, rng: np.random.Generator, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the end points θ' of walks from each row θ, and log s(θ) − log s(θ').

        If the spline is inaccurate, half of the walks have a random shorter length and are accepted more often.
        """
        steps = self.length()
        if self.error > _SHORT_WALK_ERROR and rng.uniform() < 0.5:
            steps = int(np.exp(rng.uniform(0.0, np.log(steps))))
        new = self.walk(rng, vectors, steps)
        return new, self.log_density(vectors) - self.log_density(new)


def _box_grid(limits: np.ndarray) -> np.ndarray:
    """Return a coarse grid over the whole box; no points if the box is infinite or has more than three dimensions."""
    count = _BOX_NODES.get(len(limits), 0)
    if not count or not np.all(np.isfinite(limits)):
        return np.zeros((0, len(limits)))
    sides = [low + (high - low) * (np.arange(count) + 0.5) / count for low, high in limits]
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, len(limits))


def _inside(vectors: np.ndarray, limits: np.ndarray) -> np.ndarray:
    return np.clip(vectors, limits[:, 0], limits[:, 1])


def _mean_and_axes(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of vectors and their principal axes, scaled to the standard deviations along the axes."""
    spreads, axes = principal_axes(np.atleast_2d(np.cov(vectors.T)) + 1e-8 * np.eye(vectors.shape[1]))
    return np.mean(vectors, axis=0), axes * spreads


def learn(
    rng: np.random.Generator,
    evaluate: Evaluate,
    mode: Node,
    covariance: np.ndarray,
    limits: np.ndarray,
    progress: Callable[[int], None],
) -> Emulator:
    """Learn the emulator around a mode with a rough covariance; `progress` is called with the number of nodes."""
    size = len(mode.vector)
    spreads, directions = principal_axes(covariance) if size else (np.zeros(0), np.zeros((0, 0)))
    axes = directions * np.clip(spreads, *_INITIAL_SD_RANGE)
    found = Emulator((mode,), mode.vector, axes, limits)
    if size == 0:
        return dataclasses.replace(found, error=0.0)

    def with_nodes(now: Emulator, vectors: np.ndarray) -> Emulator:
        nodes = list(now.nodes)
        for vector in vectors:
            start = now.nearest(vector)
            nodes.append(Node(vector, *evaluate(vector, start.sites)))
            progress(len(nodes))
        return dataclasses.replace(now, nodes=tuple(nodes))

    around = _inside(mode.vector + np.concatenate([axes.T, -axes.T]), limits)
    found = with_nodes(found, np.concatenate([around, _box_grid(limits)]))
    walkers = _inside(mode.vector + rng.standard_normal((_COLD_WALKERS + _HOT_WALKERS, size)) @ axes.T, limits)
    temperature = np.repeat([1.0, _HOT_TEMPERATURE], [_COLD_WALKERS, _HOT_WALKERS])
    recent: list[np.ndarray] = []
    errors: list[float] = []
    while len(found.nodes) < most_nodes(size):
        walkers = found.walk(rng, walkers, found.length(), temperature)
        # In coordinates from the walkers, the spline has about the same curvature in all directions.
        recent = [*recent[1 - _COORDINATE_ROUNDS :], walkers[:_COLD_WALKERS]]
        centre, axes = _mean_and_axes(np.concatenate(recent))
        found = dataclasses.replace(found, centre=centre, axes=axes)
        new = _far_apart(found, walkers)
        predicted = found.log_density(new)
        found = with_nodes(found, new)
        actual = np.array([node.value for node in found.nodes[-len(new) :]])
        misses = (_compressed(found.best - predicted) - _compressed(found.best - actual))[np.arange(len(new)) % 4 > 0]
        errors.append(float(np.sqrt(np.mean(misses**2))))
        found = dataclasses.replace(found, error=errors[-1])
        if len(errors) > 1 and max(errors[-2:]) < _TARGET_ERROR:
            break
    return found


def most_nodes(size: int) -> int:
    """Return the maximum number of nodes for `size` parameters."""
    return 60 + 70 * min(size, _MAX_DIMENSIONS) + 20 * max(size - _MAX_DIMENSIONS, 0) if size else 1


def _far_apart(now: Emulator, walkers: np.ndarray) -> np.ndarray:
    """Return walkers far from all nodes and from each other: every fourth is a hot walker, the others are cold."""
    x = now.standard(walkers)
    away = np.min(cdist(x, now.standard(now.vectors)), axis=1)
    chosen: list[int] = []
    for turn in range(max(_NODES_PER_ROUND, 2 * x.shape[1])):
        if turn % 4 == 0:
            chosen.append(_COLD_WALKERS + int(np.argmax(away[_COLD_WALKERS:])))
        else:
            chosen.append(int(np.argmax(away[:_COLD_WALKERS])))
        away = np.minimum(away, np.linalg.norm(x - x[chosen[-1]], axis=1))
    return walkers[chosen]
