"""One line for a person who waits, where something takes longer than expected."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from sitewise.runtime.progress import _is_terminal, _write


@contextlib.contextmanager
def told_after(seconds: float, sentence: str) -> Iterator[None]:
    """Tell the sentence if the `with` block takes longer: to the log, and to a person if stderr is shown to one."""
    timer = threading.Timer(seconds, _tell, [sentence])
    timer.daemon = True  # the end of the process does not wait for it
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(sentence: str) -> None:
    logging.getLogger("sitewise").info(sentence)
    if _is_terminal(sys.stderr):
        _write(sys.stderr, f"\r\x1b[Ksitewise: {sentence}\n")  # over a progress line, which is drawn again below
    elif _is_notebook(sys.stderr):
        _write(sys.stderr, f"sitewise: {sentence}\n")


def _is_notebook(stream: TextIO | None) -> bool:
    return type(stream).__module__.partition(".")[0] == "ipykernel"
