"""L4. The progress bar of `verbose=True`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sitewise.estimators.learning import Progress


@contextlib.contextmanager
def shown(verbose: bool | int | Progress, label: str) -> Iterator[Progress | None]:
    """What a method tells its progress to, or None where nothing is to be shown."""
    if not verbose or callable(verbose):
        yield verbose if callable(verbose) else None
        return
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    with Bar(SpinnerColumn(), *columns) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda doing, share: bar.update(task, description=f"{label}: {doing}", completed=share)
