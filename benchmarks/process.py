"""Run a library in a separate process with one thread that answers one task at a time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path

_ONE = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
    "1",
)
ONE_THREAD = {**_ONE, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}


def on_one_core() -> None:
    """Variables do not bind all threads of XLA: with them alone a Laplace fit counted 0.21 CPU seconds in 0.16."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Lost(Exception):
    """The process ended, or did not answer in time."""


class Contestant:
    """A started contestant; what its library is stands in `about`."""

    def __init__(self, command: list[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **ONE_THREAD},
            preexec_fn=on_one_core,
        )
        self._rest = b""
        self.about = self._line(300)

    def ask(self, task: dict, cap: float) -> dict:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Lost("the process ended") from None
        return self._line(cap)

    def _line(self, cap: float) -> dict:
        assert self._process.stdout is not None
        end = time.monotonic() + cap
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.close()
                raise Lost(f"no answer within {cap:.0f} s")
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise Lost(f"the process ended with code {self._process.wait()}")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
