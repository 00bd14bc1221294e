"""Announce a fit that takes more than a minute.

A fit reports the share of its time that has passed (`learning.clock`; MCMC: the share of its draws).  Once that is
known, the seconds that have passed give the seconds of the whole fit.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

from sitewise.estimators.training import FitWarning
from sitewise.process.progress import Report

LONG_FIT = "This fit takes about"
ANNOUNCED_SECONDS = 60.0  # an estimate above this is announced
MIN_ELAPSED_SECONDS = 1.0  # from a shorter time no estimate is made

_PACKAGE = str(Path(__file__).resolve().parents[1])


class LongFitWarning(FitWarning):
    """A fit that is expected to take more than a minute; `seconds` is the estimate."""

    def __init__(self, seconds: float, advice: str = "") -> None:
        super().__init__(f"{LONG_FIT} {in_words(seconds)}.", advice)
        self.seconds = seconds


def in_words(seconds: float) -> str:
    """Return a duration for a sentence, with one or two significant digits."""
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * size:
            return f"{_round(seconds / size)} {unit}"
    return f"{_round(seconds)} s"


def _round(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{float(f'{number:.2g}'):g}"


def announced(progress: Report, faster: str = "") -> Report:
    """Return a progress function that warns once if the whole takes over a minute; `faster` says what is faster."""
    began, waiting = time.perf_counter(), True

    def report(doing: str, share: float) -> None:
        nonlocal waiting
        elapsed = time.perf_counter() - began
        if waiting and share > 0 and elapsed > MIN_ELAPSED_SECONDS:
            waiting = False
            if elapsed / share > ANNOUNCED_SECONDS:
                advice = "; ".join(filter(None, [faster, "verbose=True shows the progress."]))
                warnings.warn(LongFitWarning(elapsed / share, advice), stacklevel=_level_of_caller())
        progress(doing, share)

    return report


def _level_of_caller() -> int:
    """Return the `stacklevel` of the first frame outside this package: the line that called `fit`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
