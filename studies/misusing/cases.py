"""A case: a correct problem with one mistake, sometimes two, drawn from its number."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from misusing import of_data, of_learning, of_models  # noqa: F401 — they register the kinds
from misusing.doors import DOORS
from misusing.judge import judge
from misusing.kinds import KINDS, Kind
from misusing.scenes import Scene, correct

_FULL_ONLY = ("mcmc.sample", "mcmc.log_evidence", "evidence_surface", "model file")  # doors without a sparse prior
_TWO = 0.15  # the share of cases with two mistakes
NAMES = tuple(sorted(KINDS))


@dataclasses.dataclass(frozen=True)
class Case:
    number: int
    kinds: tuple[str, ...]
    scene: Scene

    @property
    def one_column(self) -> bool:
        return any(KINDS[name].one_column for name in self.kinds)


def _fits(kind: Kind, scene: Scene) -> bool:
    sparse = scene.Z is not None
    return (
        scene.door in kind.doors
        and scene.likelihood_name in kind.likelihoods
        and (kind.sparse if sparse else kind.full)
        and not kind.one_column
    )


def _part(name: str) -> str:
    """What a mistake changes; two mistakes are made in different parts."""
    group = KINDS[name].group
    return "tables" if group in ("inputs", "observations", "labels", "weights") else group


def drawn(number: int) -> Case:
    """Every kind has its turn before any comes again; door, likelihood and prior are drawn."""
    rng = np.random.default_rng([20, number])
    kind = KINDS[NAMES[number % len(NAMES)]]
    door = str(rng.choice([door for door in kind.doors if kind.full or door not in _FULL_ONLY]))
    likelihood = str(rng.choice(_possible(door, kind)))
    # A few structures exist in one form only.
    sparse = bool(rng.random() < 0.3) if kind.sparse and kind.full else kind.sparse
    if likelihood == "softmax" or door in _FULL_ONLY:
        sparse = False
    scene = correct(door, likelihood, rng, sparse, kind.one_column)
    names = [kind.name]
    if rng.random() < _TWO and not kind.one_column:
        others = [name for name in NAMES if _part(name) != _part(kind.name) and _fits(KINDS[name], scene)]
        names += [str(rng.choice(others))] if others else []
    return Case(number, tuple(names), scene)


def _possible(door: str, kind: Kind) -> list[str]:
    """The likelihoods that a door can take."""
    without = {
        "estimator": ("binomial",),
        "model file": ("binomial", "softmax"),
        "evidence_surface": ("binomial", "softmax"),
        "VEM.fit": ("softmax",),
        "mcmc.sample": ("softmax",),
        "mcmc.log_evidence": ("softmax",),
    }.get(door, ())
    return [name for name in kind.likelihoods if name not in without]


def run(case: Case) -> dict[str, object]:
    """The verdict on a case."""
    rng = np.random.default_rng([21, case.number])
    door = DOORS[case.scene.door]

    def mistaken() -> object:
        # The tables are spoilt last: other mistakes count their rows.
        order = sorted(case.kinds, key=lambda name: _part(name) == "tables")
        return door(functools.reduce(lambda scene, name: KINDS[name].change(scene, rng), order, case.scene))

    verdict, words = judge(mistaken, lambda: door(case.scene))
    return {
        "case": case.number,
        "kinds": list(case.kinds),
        "door": case.scene.door,
        "likelihood": case.scene.likelihood_name,
        "verdict": verdict,
        "words": words[:300],
    }
