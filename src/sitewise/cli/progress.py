"""L4. Progress of long jobs, on stderr, with the time that remains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Bar:
    """One line: what is being done, how much of it is done, how long it has taken and will take."""

    def __init__(self, progress: Progress | None, task) -> None:
        self._progress, self._task = progress, task

    def say(self, doing: str) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description=doing)

    def advance(self) -> None:
        if self._progress is not None:
            self._progress.advance(self._task)

    def tell(self, doing: str, share: float) -> None:
        """What is being done, and which share of it all is done."""
        if self._progress is not None:
            self._progress.update(self._task, description=doing, completed=share)


@contextlib.contextmanager
def bar(doing: str, total: int | None, done: int = 0, pieces: bool = True) -> Iterator[Bar]:
    """`total` pieces, `done` of them from an earlier run; without a total only what is being done and since when.

    Not `pieces`: the total is not a number of things that could be counted.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Bar(None, None)
        return
    count = (MofNCompleteColumn(),) if pieces else ()
    counted = (BarColumn(), *count, TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), *(counted if total else (SpinnerColumn(), TimeElapsedColumn())))
    # The last pieces' speed tells the remaining time; the first ones include compilation.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as progress:
        yield Bar(progress, progress.add_task(doing, total=total, completed=done))
