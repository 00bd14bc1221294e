"""Run fuzz cases in a worker process with a time limit.

The parent sends case numbers, one per line; for each the worker answers "begin" with a limit in seconds, then a row.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

LIMIT, COMPILE_LIMIT = 60.0, 400.0


def serve() -> None:
    """The worker's side: a new block has its programs compiled first, with a limit of its own."""
    import gc

    import jax

    from fuzzing.cases import PER_BLOCK, drawn
    from fuzzing.checks import check

    def send(message: dict[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    block = None
    for line in sys.stdin:
        seed = int(line)
        case = drawn(seed)
        if seed // PER_BLOCK != block:
            block = seed // PER_BLOCK
            jax.clear_caches()
            gc.collect()
            send({"begin": seed, "limit": COMPILE_LIMIT})
            compiled = check(case)["seconds"]
            send({"begin": seed, "limit": LIMIT})
            row = check(case) | {"compile_seconds": compiled}
        else:
            send({"begin": seed, "limit": LIMIT})
            row = check(case)
        send({"row": row})


class Worker:
    """The parent's side.  `command` starts a process that calls `serve`."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def run(self, seed: int) -> dict[str, Any]:
        """The row of a case; a hang or a crash is a row, too."""
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        limit, began, wall = COMPILE_LIMIT, self.seconds(), time.monotonic()
        while True:
            try:
                line = self.lines.get(timeout=1.0)
            except queue.Empty:
                if self.seconds() - began > limit or time.monotonic() - wall > 10 * limit:
                    self.end()
                    return {"seed": seed, "status": "hang", "law": f"a case ends within {limit:.0f} s"}
                continue
            if line is None:
                return {"seed": seed, "status": "crash", "law": f"the process ended with {self.process.wait()}"}
            if line.startswith("{"):
                message = json.loads(line)
                if "row" in message:
                    return message["row"]
                limit, began, wall = message["limit"], self.seconds(), time.monotonic()

    def seconds(self) -> float:
        """Processor time of the worker: on a busy machine the clock says little about a case."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
