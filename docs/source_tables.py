"""Tables of the reference that are made from the source: likelihoods, methods, kernels, outcomes, command options.

A page inserts a table by {{ name }}; `TABLES` has the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import typer

from sitewise import METHODS, Outcome, evidence
from sitewise.app import commands
from sitewise.kernel_choice import NAMED_KERNELS
from sitewise.likelihoods import BY_NAME
from sitewise.structures import NAMED

_LONG_HELP = 400  # characters; a longer help text is a list that has its own table


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join([":::{table}", ":class: stacked", "", *(f"| {' | '.join(line)} |" for line in lines), ":::"])


def likelihoods() -> str:
    """Return every likelihood that estimators and commands take by name."""
    return _table(
        ("name", "class", "y", "side information", "notes"),
        (
            (
                f"`{name}`",
                f"{{py:obj}}`~sitewise.likelihoods.{kind.__name__}`",
                kind.about,
                ", ".join(f"`{word}`" for word in kind.keywords),
                ", ".join(
                    note
                    for note, holds in (("robust", kind.robust), ("log-concave", kind.log_concave is True))
                    if holds
                ),
            )
            for name, kind in sorted(BY_NAME.items())
        ),
    )


def methods() -> str:
    """Return the names that `method=` and `--method` take."""
    return _table(("name", "meaning"), ((f"`{name}`", one.about.replace("  ", " ")) for name, one in METHODS.items()))


def named_kernels() -> str:
    """Return the names that `kernel=` and `--kernel` take."""
    return _table(("name", "covariance function"), ((f"`{name}`", about) for name, about in NAMED_KERNELS.items()))


def structures() -> str:
    """Return the names that `structure=` takes."""
    first = ((name, (type(one).__doc__ or "").split("\n")[0]) for name, one in NAMED.items())
    return _table(("name", "structure"), ((f"`{name}`", about) for name, about in first))


def evidences() -> str:
    """Return the names that `Method(evidence=…)` takes."""
    return _table(("name", "object"), ((f"`{name}`", f"`sitewise.evidence.{name}`") for name in evidence.ALL))


def outcomes() -> str:
    """Return how an inference may end."""
    return _table(("outcome", "advice"), ((f"`{one.name}`", one.advice) for one in Outcome))


def options() -> str:
    """Return the options of all commands of this package."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, command in typer.main.get_command(commands.build()).commands.items():  # type: ignore[attr-defined]
        if not getattr(command.callback, "__module__", "").startswith("sitewise.app"):
            continue
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                label = ", ".join(f"`{word}`" for word in [*option.opts, *option.secondary_opts])
                text = " ".join((option.help or "").split())
                if len(text) > _LONG_HELP:
                    text = f"{text.partition('. ')[0]}. The names are listed below."
                known = option.default not in (None, "", [], ()) and not isinstance(option.default, bool)
                default = f"`{option.default}`" if known else ""
                found.setdefault((label, text, default), []).append(name)
    return _table(
        ("option", "commands", "meaning", "default"),
        ((label, ", ".join(names), text, default) for (label, text, default), names in sorted(found.items())),
    )


TABLES: dict[str, Callable[[], str]] = {
    made.__name__: made for made in (likelihoods, methods, named_kernels, structures, evidences, outcomes, options)
}
