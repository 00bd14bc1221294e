"""The paper's tables as suites: sets × protocols × seeds × folds × methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sitewise_icml2023 import paper
from sitewise_icml2023.protocols import SEEDS
from sitewise_icml2023.registry import get, suite

FOUR = ("laplace", "ep", "vi", "hybrid")
PRINTED = ("ep-frozen", "laplace-softplus", "vi-joint")  # learned as in the printed tables
INDUCING = 500
SLOW = ("hybrid-vem", "mcmc", "dense")
ROBUST = ("neal", "boston", "stock")


@dataclasses.dataclass(frozen=True)
class Suite:
    """All tasks of one table."""

    name: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (42,)
    metrics: tuple[str, ...] = ("loglik", "accuracy")
    folds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def reference(self, seeds: Sequence[int]) -> str | None:
        """The table of the paper to print beside ours."""
        if self.name == "table1":
            return "table1-seed42" if tuple(seeds) == (42,) else "table1"
        return self.name if self.name in paper.tables() else None

    def quick(self) -> Suite:
        """A few minutes instead of hours: the three smallest sets, one seed, one fold; 50 inducing inputs; neither
        Algorithm 1 nor MCMC."""
        small = tuple(sorted(self.sets, key=lambda name: get(name).rows)[:3])
        quick = [m for m in self.methods if not any(name in m for name in SLOW)]
        methods = tuple(m.replace(f"@m{INDUCING}", "@m50") for m in quick)
        return dataclasses.replace(self, sets=small, methods=methods, seeds=(42,), folds=(0,))


def suites() -> dict[str, Suite]:
    table1 = suite("table1")
    sparse = ("laplace", "ep", "vi", "hybrid-ep", "hybrid")
    every = (
        Suite("table1", table1, FOUR, SEEDS),
        Suite("table2", ROBUST, FOUR, metrics=("loglik",)),
        Suite("table3", suite("table3"), tuple(f"{m}@m{INDUCING}" for m in sparse)),
        Suite("table-ard", tuple(paper.printed("table-ard", "loglik")), tuple(f"{m}@ard" for m in (*FOUR, *PRINTED))),
        Suite("table-ep-init", table1, (*FOUR, "ep@from-hybrid", "ep-frozen@from-hybrid")),
        Suite("mcmc", (*table1, *ROBUST), ("mcmc",)),
        Suite("table1-as-printed", table1, ("ep-frozen", "hybrid-vem"), SEEDS),
        Suite("table-ard-as-printed", tuple(paper.printed("table-ard", "loglik")), ("hybrid-vem@ard",)),
        Suite("table-ep-init-as-printed", table1, ("ep-frozen@from-hybrid-vem",)),
        Suite("table3-as-printed", suite("table3"), tuple(f"dense-{m}@m{INDUCING}" for m in ("ep", "elbo"))),
        Suite("table2-as-printed", ROBUST, ("hybrid-vem",), metrics=("loglik",)),
    )
    return {s.name: s for s in every}
