"""Tasks that take a moment and whose rows are known, and a runner for them that tests start and kill.

python papers/icml2023/tests/fake_tasks.py run STORE LOG [TASKS]       bring the store up to date
python papers/icml2023/tests/fake_tasks.py torture FOLDER --kills 20   kill the runner or a worker at random, compare
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sitewise_icml2023 import runner
from sitewise_icml2023.pool import Pool
from sitewise_icml2023.tasks import KEY, Task


def suite(count: int, log: Path) -> list[Task]:
    names = [f"set{i}" for i in range(-(-count // 10))]
    given = log if log.name else None
    tasks = [Task(n, "clean", s, f, "vi", given) for n in names for s in (1, 2) for f in range(5)]
    return tasks[:count]


def shape(task: Task) -> str:
    return task.set


def fake(task: Task) -> dict[str, Any]:
    """Writes into the log, which is the task's `folder`, that it ran; waits; gives a row that depends, but for its
    seconds, on the task alone."""
    began = time.perf_counter()
    if task.folder:
        with open(task.folder, "a") as log:
            log.write(" ".join(map(str, task.key)) + "\n")
    time.sleep(0.02)
    value = sum(map(ord, "".join(map(str, task.key)))) / 7
    return {**dict(zip(KEY, task.key, strict=True)), "value": value, "seconds": time.perf_counter() - began}


def failing(task: Task) -> dict[str, Any]:
    if task.fold == 3:
        raise ValueError("fold 3 never works")
    return fake(task)


def lethal(task: Task) -> dict[str, Any]:
    if task.fold == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return fake(task)


def run(store: Path, log: Path, count: int = 200) -> None:
    pool = Pool(fake, 2)
    runner.run(suite(count, log), store, pool, shape=shape, poll=0.05)
    pool.close()


def start(store: Path, log: Path, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "run", str(store), str(log), str(count)])


def children(process: subprocess.Popen[bytes]) -> list[int]:
    try:
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return []
    workers = []
    for pid in map(int, listed):
        try:
            # Besides the workers, multiprocessing keeps a process that tracks resources.
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                workers.append(pid)
        except OSError:
            continue
    return workers


def torture(folder: Path, kills: int, count: int, seed: int = 0) -> dict[str, int]:
    """Kill −9 the runner or one of its workers `kills` times, each time after a few more rows; then let it finish."""
    rng = random.Random(seed)
    store, log = folder / "results.jsonl", folder / "log"
    hit = {"runner": 0, "worker": 0}
    process = start(store, log, count)
    while sum(hit.values()) < kills:
        goal = lines(store) + rng.randint(0, count // (2 * kills))
        while lines(store) < goal and process.poll() is None:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.05))
        workers = children(process)
        if workers and rng.random() < 0.5:
            os.kill(rng.choice(workers), signal.SIGKILL)
            hit["worker"] += 1
        else:
            process.kill()
            process.wait()
            hit["runner"] += 1
            process = start(store, log, count)
    if process.wait() != 0:
        raise RuntimeError("the last runner failed")
    return hit


def lines(store: Path) -> int:
    return store.read_bytes().count(b"\n") if store.exists() else 0


def rows(store: Path) -> list[dict[str, Any]]:
    """Rows in a fixed order without their timing column."""
    found = [json.loads(line) for line in store.read_text().splitlines()]
    return sorted(({k: v for k, v in row.items() if k != "seconds"} for row in found), key=str)


def expected(count: int) -> list[dict[str, Any]]:
    """What an undisturbed run leaves."""
    return sorted(({k: v for k, v in fake(t).items() if k != "seconds"} for t in suite(count, Path())), key=str)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=("run", "torture"))
    parser.add_argument("first", type=Path)
    parser.add_argument("log", type=Path, nargs="?")
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--kills", type=int, default=20)
    args = parser.parse_args()
    if args.action == "run":
        run(args.first, args.log, args.count)
        return
    args.first.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    hit = torture(args.first, args.kills, args.count)
    same = rows(args.first / "results.jsonl") == expected(args.count)
    ran = len((args.first / "log").read_text().splitlines())
    print(f"killed {hit}; {args.count} tasks, started {ran} times; {time.perf_counter() - began:.0f} s; "
          f"store equals that of an undisturbed run: {same}")  # fmt: skip
    sys.exit(not same)


if __name__ == "__main__":
    main()
