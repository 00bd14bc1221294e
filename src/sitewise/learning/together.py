"""Many searches at once: on an accelerator in one program, on the host one after the other."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from sitewise.learning.base import stack
from sitewise.learning.search import Best, Search


def run_together(searches: list[Search], done: Callable[[int], None] | None) -> list[Best]:
    """Answer the requests of all searches by one mapped evaluation in each round.

    When a quarter of them is left, the batch shrinks to a quarter, once: every further size costs a compilation.
    """
    if all(search.on_host for search in searches):
        return _one_by_one(searches, done)
    runs = [search.run(search.starts(0, 0)[0]) for search in searches]
    requests = {i: next(run) for i, run in enumerate(runs)}
    bests: dict[int, Best] = {}
    lanes = list(requests)
    stacked = stack([searches[i].model for i in lanes]), stack([searches[i].data for i in lanes])
    asked = dict(requests)  # a lane whose search has ended repeats its last request
    while requests:
        if len(requests) <= len(runs) // 4 < len(lanes):
            lanes = [*requests, *[next(iter(requests))] * (len(runs) // 4 - len(requests))]
            stacked = stack([searches[i].model for i in lanes]), stack([searches[i].data for i in lanes])
        asked.update(requests)
        vectors, sites = (stack(part) for part in zip(*(asked[i] for i in lanes), strict=True))
        answers = jax.tree.map(np.asarray, searches[0].evaluate_many(*stacked, vectors, sites))
        for lane, i in enumerate(lanes):
            if i not in requests or lanes.index(i) != lane:
                continue
            try:
                requests[i] = runs[i].send(jax.tree.map(lambda leaf: leaf[lane], answers))  # noqa: B023
            except StopIteration as end:
                bests[i] = end.value
                del requests[i]
                if done is not None:
                    done(len(bests))
    return [bests[i] for i in range(len(runs))]


def _one_by_one(searches: list[Search], done: Callable[[int], None] | None) -> list[Best]:
    """On the host there is nothing to gain from a batch."""
    bests = []
    for search in searches:
        bests.append(search.drive(search.starts(0, 0)[0]))
        if done is not None:
            done(len(bests))
    return bests
