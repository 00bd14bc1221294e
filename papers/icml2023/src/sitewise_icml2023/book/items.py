"""One printed number, or curve, beside ours."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

MET, ERRATUM, MISSED, NOT_RUN = "met", "explained by an erratum", "not met", "not run"
VERDICTS = (MET, ERRATUM, MISSED, NOT_RUN)


@dataclasses.dataclass(frozen=True)
class Item:
    """A printed number and ours; a curve is one item, whose number is the largest difference from the printed points.

    limit     how far they may lie apart
    erratum   the name of the erratum under which ours was computed, if any
    why       what is known about a number that is not met
    shown     texts for a page, where numbers alone say too little: (printed, ours)
    one_seed  ours is an estimate: one seed of ten was run
    stands_in the name of another method, if ours is of that one
    """

    where: str
    line: str
    column: str
    printed: float
    ours: float | None
    limit: float
    erratum: str = ""
    why: str = ""
    shown: tuple[str, str] | None = None
    one_seed: bool = False
    stands_in: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours - self.printed

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return NOT_RUN
        if not abs(self.difference) <= self.limit:  # a result that is not a number is a miss
            return MISSED
        return ERRATUM if self.erratum else MET

    @property
    def mark(self) -> str:
        mark = {MET: "✓", ERRATUM: self.erratum, MISSED: "✗", NOT_RUN: "not run"}[self.verdict]
        if self.ours is None:
            return mark
        return mark + "¹" * self.one_seed + "²" * bool(self.stands_in)


def statement(where: str, line: str, printed: str, ours: str, holds: bool | None, erratum: str = "") -> Item:
    """A sentence of the paper that can be checked; `holds` is None if what it needs was not run."""
    value = None if holds is None else float(holds)
    return Item(where, line, "statement", 1.0, value, 0.0, erratum, "" if holds is None else ours, (printed, ours))


def counts(items: Iterable[Item]) -> dict[str, int]:
    found = Counter(item.verdict for item in items)
    return {verdict: found[verdict] for verdict in VERDICTS}
