"""Simulate tables with the shape of covertype (forest) and higgs (collision) from a seed; no row was measured.

forest      as covertype: 10 numbers about a place and 44 columns of 0 and 1 (4 areas, 40 soils, one of each per row),
            seven classes of cover, of which the second is classified against the others.  The cover follows bands of
            elevation that depend on soil, area, aspect and distance to water, with steps and interactions: suited to
            trees.
collision   as higgs: 21 measured numbers of an event (a lepton, missing momentum, four jets) and 7 invariant masses
            computed from them.  In the signal two jets come from a particle of one mass and the lepton and the missing
            momentum from another; in the background all are independent.  Jets are measured with errors and listed by
            momentum, and which two belong together is unknown: a smooth border in many columns.

Rows are drawn independently: the first n rows of a larger table are the table of n rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

BLOCK = 50_000  # rows that share a stream of random numbers


def make(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """X, and y of 0 and 1."""
    blocks = [np.random.default_rng([seed, k]) for k in range(-(-rows // BLOCK))]
    world = np.random.default_rng(20_23)  # what the rows of every seed have in common
    draw = TABLES[name](world)
    X, y = np.empty((rows, COLUMNS[name])), np.empty(rows, int)
    for k, rng in enumerate(blocks):
        at = slice(k * BLOCK, min((k + 1) * BLOCK, rows))
        some, label = draw(rng)
        X[at], y[at] = some[: at.stop - at.start], label[: at.stop - at.start]
    return X, y


def forest(world: np.random.Generator) -> Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]:
    soil_height = np.sort(world.uniform(2000, 3500, 40))
    soil_shift, area_shift = world.normal(0, 120, (40, 7)), world.normal(0, 100, (4, 7))
    bands = np.array([3150, 2850, 2400, 2250, 2700, 2450, 3350.0])  # elevations of the seven covers
    width = np.array([160, 220, 150, 90, 110, 140, 120.0])
    common = np.array([1.1, 1.4, 0.2, -1.5, -1.0, -0.6, -0.3])

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        n = BLOCK
        area = rng.choice(4, n, p=[0.45, 0.05, 0.43, 0.07])
        height = np.array([2950, 3100, 2900, 2350.0])[area] + rng.normal(0, 230, n)
        aspect, slope = rng.uniform(0, 360, n), np.abs(rng.normal(14, 7, n))
        water, road, fire = rng.gamma(1.6, 170, n), rng.gamma(2.3, 1000, n), rng.gamma(2.2, 900, n)
        above = 0.2 * water * rng.normal(0.4, 0.8, n)
        sun = np.deg2rad(aspect)
        shade = [
            np.clip(rng.normal(base, 8, n) + gain * slope * np.cos(sun - at), 0, 254)
            for base, gain, at in ((212, 1.6, 1.6), (223, 0.9, 3.1), (143, 1.9, 4.6))
        ]
        soil = np.argmin(np.abs(height[:, None] - soil_height) + rng.gumbel(0, 110, (n, 40)), axis=1)
        level = height[:, None] + soil_shift[soil] + area_shift[area]
        score = common - 0.5 * ((level - bands) / width) ** 2
        score[:, 1] += np.where((road > 2500) & (fire < 2200), 0.9, -0.3)
        score[:, 0] += 0.6 * np.cos(sun) * (slope > 12) - np.where(water < 90, 0.8, 0.0)
        score[:, 4] += np.where((above > 40) & (soil % 3 == 0), 1.6, 0.0)
        cover = np.argmax(score + rng.gumbel(0, 0.55, (n, 7)), axis=1)
        numbers = [height, aspect, slope, water, above, road, *shade, fire]
        marks = np.concatenate([np.eye(4)[area], np.eye(40)[soil]], axis=1)
        return np.concatenate([np.round(np.column_stack(numbers)), marks], axis=1), (cover == 1).astype(int)

    return draw


def _momenta(pt: np.ndarray, eta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """(E, px, py, pz) of particles without mass."""
    return np.stack([pt * np.cosh(eta), pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)], axis=-1)


def _mass(p: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(p[..., 0] ** 2 - np.sum(p[..., 1:] ** 2, axis=-1), 0.0))


def _pair(rng: np.random.Generator, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two products, without mass, of a moving particle that decays in any direction."""
    n = len(mass)
    pt, eta, phi = rng.gamma(2.0, 0.5, n), rng.normal(0, 1.0, n), rng.uniform(-np.pi, np.pi, n)
    p = np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)], axis=-1)
    energy = np.sqrt(np.sum(p**2, axis=-1) + mass**2)
    way = rng.normal(size=(n, 3))
    way *= (0.5 * mass / np.linalg.norm(way, axis=1))[:, None]
    found = []
    for sign in (1.0, -1.0):
        along = np.sum(p * sign * way, axis=1)
        e = (energy * 0.5 * mass + along) / mass
        moved = sign * way + p * ((along / (energy + mass) + 0.5 * mass) / mass)[:, None]
        found.append(np.concatenate([e[:, None], moved], axis=1))
    return found[0], found[1]


def collision(world: np.random.Generator) -> Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        n = BLOCK
        signal = rng.random(n) < 0.53
        # Of a signal, two jets come from a mass of 1.25 and lepton and neutrino from one of 0.8; else of any mass.
        two = np.where(signal, rng.normal(1.25, 0.03, n), 0.3 + rng.gamma(2.0, 0.6, n))
        light = np.where(signal | (rng.random(n) < 0.6), rng.normal(0.8, 0.03, n), 0.2 + rng.gamma(2.0, 0.35, n))
        jets = [*_pair(rng, np.maximum(two, 0.1)), *_pair(rng, 0.3 + rng.gamma(2.0, 0.6, n))]
        lepton, neutrino = _pair(rng, np.maximum(light, 0.1))
        smeared = np.stack(jets, axis=1) * rng.lognormal(0, 0.12, (n, 4, 1))
        from_b = np.array([True, True, False, False]) & (signal | (rng.random(n) < 0.5))[:, None]
        marked = np.where(from_b, rng.random((n, 4)) < 0.65, rng.random((n, 4)) < 0.12) * 1.0
        pt = np.hypot(smeared[..., 1], smeared[..., 2])
        order = np.argsort(-pt, axis=1)
        smeared = np.take_along_axis(smeared, order[..., None], axis=1)
        pt, marked = np.take_along_axis(pt, order, axis=1), np.take_along_axis(marked, order, axis=1)
        eta = np.arcsinh(smeared[..., 3] / np.maximum(pt, 1e-9))
        phi = np.arctan2(smeared[..., 2], smeared[..., 1])
        lepton_pt = np.hypot(lepton[:, 1], lepton[:, 2])
        missing = neutrino[:, 1:3] + rng.normal(0, 0.15, (n, 2))
        missing_pt, missing_phi = np.hypot(*missing.T), np.arctan2(missing[:, 1], missing[:, 0])
        unseen = _momenta(missing_pt, np.zeros(n), missing_phi)
        j = [smeared[:, k] for k in range(4)]
        best = np.argsort(-marked + 0.01 * np.arange(4), axis=1)[:, :2]
        b = np.take_along_axis(smeared, best[..., None], axis=1).sum(axis=1)
        sums = [j[0] + j[1], j[0] + j[1] + j[2], lepton + unseen, j[0] + lepton + unseen, b, b + lepton + unseen]
        masses = [_mass(p) for p in (*sums, sum(j) + lepton + unseen)]
        measured = [lepton_pt, np.arcsinh(lepton[:, 3] / np.maximum(lepton_pt, 1e-9))]
        measured += [np.arctan2(lepton[:, 2], lepton[:, 1]), missing_pt, missing_phi]
        for k in range(4):
            measured += [pt[:, k], eta[:, k], phi[:, k], marked[:, k]]
        return np.column_stack([*measured, *masses]), signal.astype(int)

    return draw


TABLES = {"forest": forest, "collision": collision}
COLUMNS = {"forest": 54, "collision": 28}
