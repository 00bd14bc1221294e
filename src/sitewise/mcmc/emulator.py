"""Proposals of hyperparameters: a spline through EP's evidence at some θ, and walks on it.

`learn` evaluates log p(θ) Z_EP(θ) at nodes: around the mode, far apart over the whole box, and then, round by round,
where walks on the spline through the nodes so far have led.  It ends when the spline predicts the new nodes.

A walk is a number of steps of random-walk Metropolis on exp(spline), which cost microseconds.  Every step is reversible
for s = exp(spline), hence so is the walk, and as a proposal of another chain it has the ratio

    k(θ' → θ) / k(θ → θ') = s(θ) / s(θ').

Neither the spline nor EP has to be accurate for that chain to be exact; it accepts more often if they are.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.spatial.distance import cdist

from sitewise.numerics.dense.small_matrices import principal_axes
from sitewise.sites import Sites

_BEND = 5.0  # nats below the best node, from where on the spline is that of a logarithm: see `_bent`
_DEEPEST = 1e6
_ABOVE = 1.0  # nats above the best node that the spline may promise
_COLD, _HOT = 64, 32  # walkers, and those that look for nodes at a temperature of 2
_TEMPERATURE = 2.0
_ROUND = 8  # new nodes, or two for each parameter; every fourth is where a hot walker is
_RECENT = 3  # rounds of walkers that determine the coordinates
_GOOD = 0.15  # nats, the error of the spline at new nodes at which learning ends
_ROUGH = 0.5  # nats, the error above which a part of the proposals are short walks
_SCALES = (0.1, 3.0)  # lengths of steps, in standard deviations
_WIDTHS = (0.02, 4.0)  # least and largest standard deviation of a first direction
_FEW = 4  # parameters; of more a spline knows little, and walks on it are no longer for that
_BOX = {1: 8, 2: 5, 3: 3}  # by the number of parameters, nodes along each over the whole box

Evaluate = Callable[[np.ndarray, Sites | None], tuple[float, Sites]]  # log p(θ) Z(θ) and sites, from a start


def _bent(depth: np.ndarray) -> np.ndarray:
    """c log(1 + depth/c): the spline is of this number, in which deep valleys do not make it swing between nodes."""
    return _BEND * np.log1p(np.clip(depth, 0.0, _DEEPEST) / _BEND)


def _straight(bent: np.ndarray) -> np.ndarray:
    return _BEND * np.expm1(np.minimum(bent, _bent(np.array(_DEEPEST))) / _BEND)


class Node(NamedTuple):
    vector: np.ndarray
    value: float
    sites: Sites


@dataclasses.dataclass(frozen=True)
class Emulator:
    """A spline through the values of `nodes`, in the coordinates x = (v − centre) / axes; `error` is that at nodes
    before they were added."""

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
        """Those of the nodes."""
        return np.array([node.vector for node in self.nodes])

    @functools.cached_property
    def _spline(self) -> Callable[[np.ndarray], np.ndarray]:
        x, bent = self.standard(self.vectors), _bent(self.best - np.array([node.value for node in self.nodes]))
        if len(x) <= x.shape[1]:
            return lambda x: np.zeros(len(x))
        return RBFInterpolator(x, bent - self._base(x), kernel="cubic", degree=1, smoothing=1e-6)

    def _base(self, x: np.ndarray) -> np.ndarray:
        """A Gaussian's: what the spline adds is small where the posterior of θ is nearly one."""
        return _bent(0.5 * np.sum(x**2, axis=1))

    def standard(self, vectors: np.ndarray) -> np.ndarray:
        """x of each row; the axes are orthogonal."""
        return (vectors - self.centre) @ (self.axes / np.sum(self.axes**2, axis=0))

    def log_density(self, vectors: np.ndarray) -> np.ndarray:
        """log s at the rows of `vectors`; −∞ outside of the limits."""
        x = self.standard(vectors)
        bent = self._base(x) + self._spline(x)
        inside = np.all((vectors >= self.limits[:, 0]) & (vectors <= self.limits[:, 1]), axis=1)
        return np.where(inside, self.best - np.maximum(_straight(bent), -_ABOVE), -np.inf)

    def nearest(self, vector: np.ndarray) -> Node:
        away = self.standard(self.vectors) - self.standard(vector[None])
        return self.nodes[int(np.argmin(np.sum(away**2, axis=1)))]

    def length(self) -> int:
        """Steps after which a walk has forgotten where it began."""
        return 100 + 50 * min(len(self.centre), _FEW)

    def walk(
        self, rng: np.random.Generator, vectors: np.ndarray, steps: int, temperature: float | np.ndarray = 1.0
    ) -> np.ndarray:
        """Where walks of so many steps from each row of `vectors` end."""
        here, count = self.log_density(vectors), len(vectors)
        low, high = np.log(_SCALES)
        for _ in range(steps if vectors.shape[1] else 0):
            scale = np.exp(rng.uniform(low, high, (count, 1)))
            new = vectors + (scale * rng.standard_normal(vectors.shape)) @ self.axes.T
            there = self.log_density(new)
            accept = np.log(rng.uniform(1e-300, 1.0, count)) * temperature < there - here
            vectors, here = np.where(accept[:, None], new, vectors), np.where(accept, there, here)
        return vectors

    def propose(self, rng: np.random.Generator, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where walks from each row end, and log s(θ) − log s(θ').

        Where the spline is rough, half of the walks are shorter, of a random length: they are accepted more often.
        """
        steps = self.length()
        if self.error > _ROUGH and rng.uniform() < 0.5:
            steps = int(np.exp(rng.uniform(0.0, np.log(steps))))
        new = self.walk(rng, vectors, steps)
        return new, self.log_density(vectors) - self.log_density(new)


def _box(limits: np.ndarray) -> np.ndarray:
    """Points over the whole box, if it is finite and has few dimensions."""
    count = _BOX.get(len(limits), 0)
    if not count or not np.all(np.isfinite(limits)):
        return np.zeros((0, len(limits)))
    sides = [low + (high - low) * (np.arange(count) + 0.5) / count for low, high in limits]
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, len(limits))


def _inside(vectors: np.ndarray, limits: np.ndarray) -> np.ndarray:
    return np.clip(vectors, limits[:, 0], limits[:, 1])


def _spread(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and principal axes of these vectors, each as long as their standard deviation there."""
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
    """The emulator around a mode and its covariance, which may be rough.  `progress` is told the number of nodes."""
    size = len(mode.vector)
    spreads, directions = principal_axes(covariance) if size else (np.zeros(0), np.zeros((0, 0)))
    axes = directions * np.clip(spreads, *_WIDTHS)
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
    found = with_nodes(found, np.concatenate([around, _box(limits)]))
    walkers = _inside(mode.vector + rng.standard_normal((_COLD + _HOT, size)) @ axes.T, limits)
    temperature = np.repeat([1.0, _TEMPERATURE], [_COLD, _HOT])
    recent: list[np.ndarray] = []
    errors: list[float] = []
    while len(found.nodes) < most_nodes(size):
        walkers = found.walk(rng, walkers, found.length(), temperature)
        # Coordinates in which the spline bends about equally in all directions: those of the walkers.
        recent = [*recent[1 - _RECENT :], walkers[:_COLD]]
        centre, axes = _spread(np.concatenate(recent))
        found = dataclasses.replace(found, centre=centre, axes=axes)
        new = _far_apart(found, walkers)
        predicted = found.log_density(new)
        found = with_nodes(found, new)
        actual = np.array([node.value for node in found.nodes[-len(new) :]])
        misses = (_bent(found.best - predicted) - _bent(found.best - actual))[np.arange(len(new)) % 4 > 0]
        errors.append(float(np.sqrt(np.mean(misses**2))))
        found = dataclasses.replace(found, error=errors[-1])
        if len(errors) > 1 and max(errors[-2:]) < _GOOD:
            break
    return found


def most_nodes(size: int) -> int:
    return 60 + 70 * min(size, _FEW) + 20 * max(size - _FEW, 0) if size else 1


def _far_apart(now: Emulator, walkers: np.ndarray) -> np.ndarray:
    """Walkers that are far from all nodes and from each other: every fourth a hot one, the others cold."""
    x = now.standard(walkers)
    away = np.min(cdist(x, now.standard(now.vectors)), axis=1)
    chosen: list[int] = []
    for turn in range(max(_ROUND, 2 * x.shape[1])):
        chosen.append(_COLD + int(np.argmax(away[_COLD:])) if turn % 4 == 0 else int(np.argmax(away[:_COLD])))
        away = np.minimum(away, np.linalg.norm(x - x[chosen[-1]], axis=1))
    return walkers[chosen]
