"""What a table leaves open: a sentence, and the settings that would answer it.

The library says `drop=['note']` and the command line `--drop note`, so a problem keeps settings, not their spelling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sitewise.errors import UserError

Settings = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Problem:
    """`what` is wrong with which `columns`, and the `ways` to go on: settings, and when or why to choose them.

    The first way is the one that a ready line takes.
    """

    what: str
    ways: tuple[tuple[Settings, str], ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def fix(self) -> Settings:
        return self.ways[0][0] if self.ways else {}

    def sentence(self, spell: Callable[[Settings], str]) -> str:
        """One sentence, with the settings in the words of a front end."""
        ways = [f"{spell(settings)} {words}" for settings, words in self.ways]
        if not ways:
            return f"{self.what.removesuffix(', or')}."
        last = f", or {ways[-1]}" if len(ways) > 1 else ""
        joint = "" if self.what.endswith(", or") else ":"
        return f"{self.what}{joint} say {', '.join(ways[: max(1, len(ways) - 1)])}{last}."


class TableError(UserError):
    """A table that leaves something open; the message lists all of it."""


def merged(problems: Sequence[Problem]) -> dict[str, Any]:
    """The recommended settings of all problems together: lists are joined, without repetitions."""
    found: dict[str, Any] = {}
    for problem in problems:
        for name, value in problem.fix.items():
            together = [*found.get(name, []), *value] if isinstance(value, list) else value
            found[name] = list(dict.fromkeys(together)) if isinstance(together, list) else together
    return found


def explain(
    problems: Sequence[Problem],
    spell: Callable[[Settings], str],
    ready: Callable[[Settings], str] | None,
    offered: Collection[str] | None = None,
) -> TableError:
    """The error that lists all problems, and the line `ready(settings)` that solves those which settings can solve.

    `offered` are the names of the settings that there are; ways that need others are not named.
    """
    if offered is not None:
        problems = [
            dataclasses.replace(p, ways=tuple(way for way in p.ways if set(way[0]) <= set(offered))) for p in problems
        ]
    sentences = [problem.sentence(spell) for problem in problems]
    if len(sentences) == 1:
        lines = sentences
    else:
        numbered = [f"  {k}. {sentence}" for k, sentence in enumerate(sentences, 1)]
        lines = [f"{len(sentences)} things stand in the way:", *numbered]
    fix = merged(problems)
    if fix and ready is not None:
        when = "To go on:" if all(problem.ways for problem in problems) else "When the rest is corrected, go on with:"
        lines += [when, f"  {ready(fix)}"]
    return TableError("\n".join(lines))
