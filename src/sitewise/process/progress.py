"""Show the progress of a long computation in one line on stderr.

    with bar("fitting", total=10) as line:          # pieces that are counted: 3 of 10
        line.say("fitting EP")
        line.advance()
    with bar("fitting", 1, pieces=False) as line:   # a share of the whole: 30 %
        line.tell("fitting, round 12", 0.3)
    with bar("iris", None) as line:                 # a download: 3.1 of 9.4 MB
        fetch(address, line.received)

On a terminal the line is redrawn in place and is erased at the end.  Where stderr is not a terminal `bar` writes
nothing; `shown` (verbose=True) writes a plain line every few seconds.
"""

from __future__ import annotations

import contextlib
import contextvars
import datetime
import logging
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

Report = Callable[[str, float], None]  # what is being done, and which share of it is done

_REDRAW_SECONDS = 0.1  # shortest time between two drawings on a terminal
_TICK_SECONDS = 0.5  # after which the elapsed time is drawn again without progress
_PLAIN_LINE_SECONDS = 5.0  # between two plain lines
_RATE_WINDOW_SECONDS = 600.0  # of work from which the remaining time is estimated


class Bar:
    """The current activity, the amount done of `total`, and the start time; calls `changed` after every change."""

    def __init__(self, doing: str, total: float | None, done: float = 0, pieces: bool = True) -> None:
        self.doing, self.total, self.done = doing, total, done
        self.changed: Callable[[], None] = lambda: None
        self._amount = _count if pieces else _share
        self._began = time.monotonic()
        self._first = done
        self._marks: deque[tuple[float, float]] = deque(maxlen=1000)

    def say(self, doing: str) -> None:
        """Set the current activity."""
        self.doing = doing
        self.changed()

    def advance(self) -> None:
        """Count one more piece as done."""
        self._reach(self.done + 1)

    def tell(self, doing: str, share: float) -> None:
        """Set the current activity and the amount that is done: a share if the total is 1."""
        self.doing = doing
        self._reach(share)

    def received(self, so_far: int, total: int | None) -> None:
        """Set the bytes received of a download, and their total if known."""
        self._amount, self.total = _megabytes, total
        self._reach(so_far)

    def _reach(self, done: float) -> None:
        now = time.monotonic()
        self.done = done
        self._marks.append((now, done))
        while self._marks[0][0] < now - _RATE_WINDOW_SECONDS and len(self._marks) > 2:
            self._marks.popleft()
        self.changed()

    def seconds_left(self) -> float | None:
        """Estimate the time left from the speed since the first mark, because the time before includes compilation."""
        if not self.total or not self._marks:
            return None
        last, done = self._marks[-1]
        began, before = self._marks[0] if len(self._marks) > 1 else (self._began, self._first)
        if done <= before:
            return None
        expected = (self.total - done) * (last - began) / (done - before)
        return max(0.0, expected - (time.monotonic() - last))

    def text(self) -> tuple[str, str]:
        """Return the current activity; and the amount done, the elapsed time and the time left."""
        left = self.seconds_left()
        parts = (
            self._amount(self.done, self.total),
            _clock(time.monotonic() - self._began),
            "" if left is None else f"about {_clock(left)} left",
        )
        return self.doing, ", ".join(part for part in parts if part)


def _count(done: float, total: float | None) -> str:
    return f"{done:g} of {total:g}" if total else ""


def _share(done: float, total: float | None) -> str:
    return f"{100 * done / total:.0f} %" if total else ""


def _megabytes(done: float, total: float | None) -> str:
    return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"


def _clock(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


class _Shown:
    """Show a bar on a stream.  A thread updates the elapsed time while a long piece reports nothing."""

    def __init__(self, line: Bar, stream: TextIO | None) -> None:
        self._line, self._stream = line, stream
        self._last = -float("inf")
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> None:
        self._line.changed = self._update
        self._update()
        self._ticker.start()

    def __exit__(self, *problem: object) -> None:
        self._line.changed = lambda: None
        self._ended.set()
        self._ticker.join()

    def _tick(self) -> None:
        while not self._ended.wait(self._seconds_between()):
            self._update()

    def _is_due(self, seconds: float) -> bool:
        """Return whether this number of seconds has passed since the last time that this was so."""
        if time.monotonic() - self._last < seconds:
            return False
        self._last = time.monotonic()
        return True

    def _seconds_between(self) -> float:
        raise NotImplementedError

    def _update(self) -> None:
        raise NotImplementedError


class _Terminal(_Shown):
    """Draw a bar in place."""

    def _seconds_between(self) -> float:
        return _TICK_SECONDS

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        _write(self._stream, "\r\x1b[K")

    def _update(self) -> None:
        with self._lock:
            if not self._is_due(_REDRAW_SECONDS):
                return
            doing, rest = self._line.text()
            room = shutil.get_terminal_size().columns - len(rest) - 3
            shown = doing if len(doing) <= room else doing[: max(0, room - 1)] + "…"
            _write(self._stream, f"\r{shown}  {rest}\x1b[K")


class _Lines(_Shown):
    """Write the bar as plain lines, the first at once, then one every few seconds, and the last state at the end."""

    def __exit__(self, *problem: object) -> None:
        super().__exit__(*problem)
        _write(self._stream, ": ".join(self._line.text()) + "\n")

    def _seconds_between(self) -> float:
        return _PLAIN_LINE_SECONDS

    def _update(self) -> None:
        with self._lock:
            if self._is_due(_PLAIN_LINE_SECONDS):
                _write(self._stream, ": ".join(self._line.text()) + "\n")


def _write(stream: TextIO | None, text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed stream does not end the computation
        if stream is not None:
            stream.write(text)
            stream.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty() and os.environ.get("TERM") != "dumb"


@contextlib.contextmanager
def bar(doing: str, total: float | None, done: int = 0, pieces: bool = True) -> Iterator[Bar]:
    """Show a line for `total` pieces, `done` of them from an earlier run; without a total only the elapsed time.

    With `pieces=False` the total is not a count, and a percentage is shown.
    """
    line = Bar(doing, total, done, pieces)
    with _Terminal(line, sys.stderr) if _is_terminal(sys.stderr) else contextlib.nullcontext():
        yield line


_listener: contextvars.ContextVar[Report | None] = contextvars.ContextVar("listener", default=None)


@contextlib.contextmanager
def reporting_to(report: Report) -> Iterator[None]:
    """Let every fit in the `with` block report to `report`, whatever its `verbose`."""
    token = _listener.set(report)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def shown(verbose: bool | int | Report, label: str) -> Iterator[Report | None]:
    """Yield the function to which an estimator reports progress, according to its `verbose`; None for no report."""
    listener = _listener.get() or (verbose if callable(verbose) else None)
    if listener is not None or not verbose:
        yield listener
        return
    line = Bar(f"{label}: starting", 1, pieces=False)
    with (_Terminal if _is_terminal(sys.stderr) else _Lines)(line, sys.stderr):
        yield lambda doing, share: line.tell(f"{label}: {doing}", share)


@contextlib.contextmanager
def told_after(seconds: float, sentence: str) -> Iterator[None]:
    """Log the sentence if the `with` block takes longer, and print it if stderr is a terminal or a notebook."""
    timer = threading.Timer(seconds, _tell, [sentence])
    timer.daemon = True  # the process may end before
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(sentence: str) -> None:
    logging.getLogger("sitewise").info(sentence)
    if _is_terminal(sys.stderr):
        _write(sys.stderr, f"\r\x1b[Ksitewise: {sentence}\n")  # replaces a progress line, which is redrawn below
    elif _is_notebook(sys.stderr):
        _write(sys.stderr, f"sitewise: {sentence}\n")


def _is_notebook(stream: TextIO | None) -> bool:
    return type(stream).__module__.partition(".")[0] == "ipykernel"
