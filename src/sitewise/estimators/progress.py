"""L4. The progress bar of `verbose=True`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(show: bool, label: str) -> Iterator[Callable[[dict], None] | None]:
    """A callback for a learner, or None where nothing is to be shown."""
    if not show:
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
        task = bar.add_task(label)
        count = 0

        def callback(entry: dict) -> None:
            nonlocal count
            count += 1
            value = entry.get("objective", entry.get("learning"))
            bar.update(task, description=f"{label}: evaluation {count}, objective {value:.4f}")

        yield callback
