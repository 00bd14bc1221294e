"""What a forked process may do.

The threads of JAX do not exist in a process that was forked after JAX had started: a computation there waits for them
for ever, and a compilation ends the process, also with a new backend (jaxlib 0.10.2).  Such a process is told so at
once.  A process that was forked before has no such problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jax._src import xla_bridge

from sitewise.errors import UserError


def _jax_has_started() -> bool:
    return xla_bridge.backends_are_initialized()


def _threads() -> list[str] | None:
    """The names of this process's threads; None where they are not known."""
    try:
        return [Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
    except OSError:
        return None


def _was_forked_before() -> bool:
    """Whether a JAX that has started has none of its threads: the process was forked before it imported this module."""
    names = _threads() if _jax_has_started() else None
    # JAX has about ten threads more than processors, of which one for each processor is called tf_XLAEigen.
    return names is not None and len(names) < 5 and not any("XLA" in name for name in names)


_started = False  # whether JAX had started when a process was forked from this one
_lost = _was_forked_before()  # whether this process is without the threads of its JAX


def require_jax() -> None:
    """Raise UserError in a process in which JAX cannot compute."""
    if _lost:
        raise UserError(
            "JAX cannot compute in this process, which was forked after JAX had started and has none of its threads: "
            "start worker processes with multiprocessing's 'spawn' or 'forkserver' or with joblib's 'loky', or fork "
            "them before the first fit."
        )


def in_forked_child(renew: Callable[[], None]) -> None:
    """Call `renew` in every process that is forked from this one: a lock may be held there by a thread that is gone."""
    if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
        os.register_at_fork(after_in_child=renew)


def _before_fork() -> None:
    global _started
    _started = _jax_has_started()  # here: in the child, JAX's own lock may be held by a thread that is gone


def _after_fork() -> None:
    global _lost
    _lost = _lost or _started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
in_forked_child(_after_fork)
