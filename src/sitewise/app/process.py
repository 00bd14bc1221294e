"""Settings of the process of a command, its messages and its exit codes.

Exit codes: 0 success; 1 failure, explained by one sentence on stderr; 2 wrong command line; 130 interrupted.
Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import typer

from sitewise.errors import UserError
from sitewise.process import files
from sitewise.process.json_values import finite

P = ParamSpec("P")
R = TypeVar("R")


def own_process(cache: bool = True) -> None:
    """Make settings that a library must not make: double precision and, on an accelerator, JAX's compilation cache.

    On a CPU the library stores its compiled programs itself (`arrays.programs`).
    """
    import jax

    from sitewise.arrays.jax_cache import use_folder
    from sitewise.process.device import on_accelerator

    jax.config.update("jax_enable_x64", True)
    if not (cache and on_accelerator()):
        return
    if problem := use_folder():
        note(f"compiled programs are not kept: {problem}.")


def note(sentence: str) -> None:
    """Print a note on stderr."""
    print(f"note: {sentence}", file=sys.stderr)


def noted(sentence: str, notes: list[str]) -> None:
    """Print a note, and add it to the notes of a report."""
    note(sentence)
    notes.append(sentence)


def _fail(sentence: str, code: int = 1) -> typer.Exit:
    print(f"error: {sentence}", file=sys.stderr)
    return typer.Exit(code)


def ends_in_a_sentence(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that every error is one sentence; SITEWISE_TRACEBACK=1 shows the traceback instead."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if os.environ.get("SITEWISE_TRACEBACK"):
            return command(*args, **kwargs)
        try:
            return command(*args, **kwargs)
        except typer.Exit:
            raise
        except KeyboardInterrupt as stop:
            raise _fail(str(stop) or "interrupted; nothing was written.", 130) from None
        except ValueError as problem:
            raise _fail(str(problem)) from None
        except OSError as problem:
            where = f"{problem.filename}: " if problem.filename else ""
            raise _fail(f"{where}{problem.strerror or problem}.") from None
        except MemoryError:
            raise _fail("there is not enough memory; use fewer rows with --max-rows.") from None
        except Exception as defect:
            raise _fail(
                f"this is a defect in sitewise ({type(defect).__name__}: {defect}); run again with "
                "SITEWISE_TRACEBACK=1 and report the traceback."
            ) from None

    return wrapped


@contextlib.contextmanager
def recorded_warnings() -> Iterator[list[Warning]]:
    """Yield the list of warnings; the expected time of a long fit is printed as a note at once instead."""
    from sitewise.estimators.duration import LongFitWarning

    found: list[Warning] = []

    def keep(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if isinstance(message, LongFitWarning):
            note(fact(message))
        else:
            found.append(message if isinstance(message, Warning) else category(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = keep
        yield found


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the library's warnings as notes: each once, without file names and line numbers."""
    with recorded_warnings() as caught:
        try:
            yield
        finally:
            for sentence in dict.fromkeys(fact(w) for w in caught if not isinstance(w, DeprecationWarning)):
                note(sentence)


def fact(warning: Warning) -> str:
    """Return the text of a warning, without advice that names settings of Python."""
    return str(getattr(warning, "fact", warning))


def print_json(result: Any) -> None:
    """Print a result as one line of JSON."""
    print(json.dumps(finite(result), ensure_ascii=False, allow_nan=False))


def save(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and print its name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, content)
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}. Choose another place with --out.") from None
    print(f"Saved {path}", file=sys.stderr)


def check_writable(path: Path) -> None:
    """Raise before the computation if its result cannot be written."""
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        probe = path.with_name(f".{path.name}.{os.getpid()}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}. Choose another place with --out.") from None
