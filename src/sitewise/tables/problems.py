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

    The first way enters the suggested command only if it is `recommended`.  A recommended way neither reveals the
    target to the model nor removes rows, categories or values.  Otherwise only the user can choose.
    """

    what: str
    ways: tuple[tuple[Settings, str], ...] = ()
    columns: tuple[str, ...] = ()
    recommended: bool = False

    @property
    def fix(self) -> Settings:
        return self.ways[0][0] if self.ways and self.recommended else {}

    def sentence(self, spell: Callable[[Settings], str], indent: str = "") -> str:
        """Return one sentence; several ways without a recommendation are listed, one per line.

        `spell` writes settings as options of the command or arguments of the library.
        """
        spelled = [(spell(settings), words) for settings, words in self.ways]
        if not spelled:
            return f"{self.what.removesuffix(', or')}."
        correctable = self.what.endswith(", or")
        if len(spelled) > 1 and not self.recommended:
            width = max(len(option) for option, _ in spelled)
            lines = [f"{indent}  {option:<{width}}  {words}" for option, words in spelled]
            return "\n".join([f"{self.what}{'' if correctable else ';'} choose one:", *lines])
        ways = [f"{option} {words}" for option, words in spelled]
        last = f", or {ways[-1]}" if len(ways) > 1 else ""
        return f"{self.what}{'' if correctable else ':'} say {', '.join(ways[: max(1, len(ways) - 1)])}{last}."


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
        problems = [restricted(problem, offered) for problem in problems]
    if len(problems) == 1:
        lines = [problems[0].sentence(spell)]
    else:
        numbered = [f"  {k}. {problem.sentence(spell, '     ')}" for k, problem in enumerate(problems, 1)]
        lines = [f"{len(problems)} problems with the table:", *numbered]
    fix = merged(problems)
    if fix and ready is not None:
        asked = [str(k) for k, problem in enumerate(problems, 1) if problem.ways and not problem.recommended]
        faulty = [str(k) for k, problem in enumerate(problems, 1) if not problem.ways]
        steps = [f"correct {_numbers(faulty)}"] if faulty else []
        steps += [f"decide {_numbers(asked)} and add the option"] if asked else []
        lines += [f"To continue{', ' if steps else ''}{' and '.join(steps)}:", f"  {ready(fix)}"]
    return TableError("\n".join(lines))


def restricted(problem: Problem, offered: Collection[str]) -> Problem:
    """Return the problem with only those ways whose settings are offered."""
    ways = tuple(way for way in problem.ways if set(way[0]) <= set(offered))
    return dataclasses.replace(problem, ways=ways, recommended=problem.recommended and ways[:1] == problem.ways[:1])


def _numbers(items: Sequence[str]) -> str:
    """Return the numbers of problems, for a sentence."""
    return f"problem {items[0]}" if len(items) == 1 else f"problems {', '.join(items[:-1])} and {items[-1]}"
