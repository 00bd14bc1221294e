"""Classify the result of a case.

    right    the numbers of the correct problem
    refused  a clear error: a ValueError or TypeError raised by this library (or, for what scikit-learn validates, by
             scikit-learn) whose message is a sentence; or Python's own about the arguments of a call of ours
    warned   a warning, or a result that says that it is not reliable
    raw      another exception, with a message of JAX or NumPy about something that the user did not write
    wrong    other numbers than those of the correct problem, without a warning

The last two count as undetected.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sitewise
from misusing.doors import Result
from sitewise.tables import TableError

OFFENDERS = ("raw", "wrong")
_WORDS = 4  # the least number in a sentence
_OURS = Path(sitewise.__file__).parent
_STUDY = Path(__file__).parent
_SIGNATURE = re.compile(r"(missing \d+ required|unexpected keyword argument|positional argument)")


def is_clear(error: BaseException) -> bool:
    """Whether a user can see from the message what to put right."""
    if not isinstance(error, ValueError | TypeError | NotImplementedError):
        return False
    where = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    message = str(error)
    if "sklearn" in where.parts:
        return len(message.split()) >= _WORDS
    if isinstance(error, TypeError) and _SIGNATURE.search(message):
        return where.is_relative_to(_STUDY)  # the call with wrong arguments is the user's own
    if not where.is_relative_to(_OURS) or len(message.split()) < _WORDS:
        return False
    return isinstance(error, TableError) or message.rstrip().endswith((".", "…"))  # a list may end with a ready line


def judge(wrong: Callable[[], Result], right: Callable[[], Result]) -> tuple[str, str]:
    """The verdict on the call with the mistake, and the words that came with it; `right` makes the call without."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = wrong()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            at = "" if is_clear(error) else f" [{Path(last.filename).name}:{last.lineno}]"
            return "raw" if at else "refused", f"{type(error).__name__}: {error}{at}"
    with warnings.catch_warnings(record=True) as usual:
        warnings.simplefilter("always")
        expected = right()
    if same(found.values, expected.values):
        return "right", ""
    # What is said of the correct problem too, as that three rounds were not enough, says nothing of the mistake.
    news = [words for words in (found.flagged, *_words(said)) if words not in ("", expected.flagged, *_words(usual))]
    return ("warned", " ".join(news)) if news else ("wrong", _differences(found, expected))


def _words(said: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in said if issubclass(w.category, UserWarning)]


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        np.shape(one[k]) == np.shape(other[k]) and np.allclose(one[k], other[k], rtol=1e-6, atol=1e-9) for k in one
    )


def _differences(found: Result, expected: Result) -> str:
    shown = {
        k: (np.ravel(v)[:2].tolist(), np.ravel(expected.values.get(k, []))[:2].tolist())
        for k, v in found.values.items()
    }
    return f"found and expected: {shown}"
