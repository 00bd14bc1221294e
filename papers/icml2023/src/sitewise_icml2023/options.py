"""Options of `reproduce`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sitewise.errors import UserError
from sitewise_icml2023 import suites


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the command line; None if not given."""

    protocol: tuple[str, ...]
    seeds: tuple[int, ...] | None
    methods: tuple[str, ...] | None
    sets: tuple[str, ...] | None
    out: Path
    quick: bool
    data: Path | None
    workers: int
    dask: str | None
    stored: bool = False
    together: bool = False

    @property
    def store(self) -> Path:
        """Return the store of all tables: tasks that tables share run once."""
        return self.out / "results.jsonl"

    def suite(self, name: str) -> suites.Suite:
        """The table's suite with the sets, seeds and methods that were asked for."""
        suite = suites.suites()[name]
        if self.sets:
            suite = dataclasses.replace(suite, sets=self.sets)
        if self.quick:
            suite = suite.quick()
        if self.seeds:
            suite = dataclasses.replace(suite, seeds=self.seeds)
        if self.methods:
            suite = dataclasses.replace(suite, methods=self.methods)
        return suite


def seed_list(text: str) -> tuple[int, ...]:
    """Seeds from text such as 42 or 42,1-9."""
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise UserError(f"--seeds takes numbers and ranges such as 42,1-9; got {text!r}.")
        out += range(int(first), int(last or first) + 1)
    return tuple(out)
