"""Forked processes: refuse to compute where JAX has lost its threads.

The threads of JAX do not exist in a process that was forked after JAX had started: a computation there waits for them
for ever, and a compilation ends the process, also with a new backend (jaxlib 0.10.2).  In such a process an error is
raised at once.  A process that was forked before JAX started can compute.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import jax

from sitewise.errors import UserError

# An option of JAX's CPU backend.  Its value matters only in the moment in which the backend starts.
_BACKEND_OPTION = "jax_cpu_get_local_topology_timeout_minutes"


def _jax_has_started() -> bool:
    """Return whether JAX has started its backends.

    No public function of JAX says so, but JAX refuses to change an option of a backend that has started.
    """
    before = getattr(jax.config, _BACKEND_OPTION)
    try:
        jax.config.update(_BACKEND_OPTION, before + 1)
        jax.config.update(_BACKEND_OPTION, before)
    except RuntimeError:
        return True
    return False


def _threads() -> list[str] | None:
    """Return the names of the threads of this process; None where they are unknown."""
    try:
        return [Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
    except OSError:
        return None


def _was_forked_before() -> bool:
    """Return whether JAX has started and has no threads: the process was forked before it imported this module."""
    names = _threads() if _jax_has_started() else None
    # JAX has about ten threads more than there are CPU cores; one thread per core is called tf_XLAEigen.
    return names is not None and len(names) < 5 and not any("XLA" in name for name in names)


_started = False  # whether JAX had started when a process was forked from this one
_lost = _was_forked_before()  # whether this process is without the threads of its JAX


def require_jax() -> None:
    """Raise UserError if JAX cannot compute in this process."""
    if _lost:
        raise UserError(
            "JAX cannot compute in this process, which was forked after JAX had started and has none of its threads: "
            "start worker processes with multiprocessing's 'spawn' or 'forkserver' or with joblib's 'loky', or fork "
            "them before the first fit."
        )


def in_forked_child(renew: Callable[[], None]) -> None:
    """Call `renew` in every process forked from this one, where a lost thread may still hold a lock."""
    if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
        os.register_at_fork(after_in_child=renew)


def _before_fork() -> None:
    global _started
    _started = _jax_has_started()  # not in the child, where a lost thread may hold JAX's own lock


def _after_fork() -> None:
    global _lost
    _lost = _lost or _started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
in_forked_child(_after_fork)
