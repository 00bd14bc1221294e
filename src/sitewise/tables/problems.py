"""Problems of a table that the user has to decide: a sentence each, and the settings that solve it.

A problem holds settings, not their spelling: the library writes `drop=['note']`, the command line `--drop note`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sitewise.errors import UserError

Settings = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Problem:
    """A sentence `what` on some `columns`, and the `ways` to solve the problem: settings, and when to choose them.

    The first way is the recommended setting, which enters the suggested command.
    """

    what: str
    ways: tuple[tuple[Settings, str], ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def fix(self) -> Settings:
        return self.ways[0][0] if self.ways else {}

    def sentence(self, spell: Callable[[Settings], str]) -> str:
        """Return one sentence; `spell` writes settings as options of the command or arguments of the library."""
        ways = [f"{spell(settings)} {words}" for settings, words in self.ways]
        if not ways:
            return f"{self.what.removesuffix(', or')}."
        last = f", or {ways[-1]}" if len(ways) > 1 else ""
        joint = "" if self.what.endswith(", or") else ":"
        return f"{self.what}{joint} say {', '.join(ways[: max(1, len(ways) - 1)])}{last}."


class TableError(UserError):
    """Error for a table that cannot be encoded without further settings; the message lists all problems."""


def merged(problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the recommended settings of all problems; lists are joined without repetitions."""
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
    """Return an error that lists all problems and the line `ready(settings)`, which applies the recommended settings.

    `offered` names the available settings; other ways to solve a problem are not listed.
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
        lines = [f"{len(sentences)} problems with the table:", *numbered]
    fix = merged(problems)
    if fix and ready is not None:
        solved = all(problem.ways for problem in problems)
        when = "To continue:" if solved else "After correcting the other problems, continue with:"
        lines += [when, f"  {ready(fix)}"]
    return TableError("\n".join(lines))
