"""Write the settings that solve a table's problems as command-line options and as a complete command to paste."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import typer

from sitewise.tables.problems import Settings

_FLAG_OF_VALUE = {("dayfirst", False): "--monthfirst"}
_COLUMN_LISTS = ("drop", "use", "categorical")


def _words(name: str, value: Any, flag: str = "") -> list[str]:
    """Return one setting as words of a command line; column names without a comma are joined by commas."""
    flag = flag or f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [_FLAG_OF_VALUE.get((name, value), flag)]
    values = value if isinstance(value, list) else [value]
    if name in _COLUMN_LISTS and not any("," in v for v in values):
        values = [",".join(values)]
    return [word for v in map(str, values) for word in ([f"{flag}={v}"] if v.startswith("-") else [flag, v])]


def spell(settings: Settings) -> str:
    """Return settings as command-line options, for a sentence."""
    return shlex.join(word for name, value in settings.items() for word in _words(name, value))


def command_line(context: typer.Context) -> Callable[[Settings], str]:
    """Return a function that repeats the typed command with further settings.

    A setting with several values is added to the given values; a setting with a single value replaces the given value.
    """

    def ready(settings: Settings) -> str:
        words = ["sitewise", str(context.info_name)]
        for parameter in context.command.params:
            name, new = str(parameter.name), settings.get(str(parameter.name))
            source = context.get_parameter_source(name)
            given = context.params.get(name) if source is not None and source.name == "COMMANDLINE" else None
            if parameter.param_type_name == "argument":
                words.append(str(given))
                continue
            flag = max(parameter.opts, key=len)
            several = [given] if not isinstance(given, list | tuple) else given
            for value in several if new is None or isinstance(new, list) else ():
                words += [] if value is None else _words(name, value, flag)
            words += [] if new is None else _words(name, new, flag)
        return shlex.join(words)

    return ready
