"""Ten thousand awkward cases: `make fuzz`, or python experiments/fuzz.py [--cases N] [--case SEED] [--replay N].

One worker process computes, case after case, block after block; this process keeps time, kills a worker
that takes more than 60 s of processor time for a case (compiling, once a block, has its own limit), and appends a row
for every case to results/fuzz/cases.jsonl.  Started again, it goes on with the first number that has no row.  --case
runs one number here and now, to look into it; --replay runs the first N cases of some finished blocks again, in a new
process with two threads, and compares every number to 1e-12; --table writes results/fuzz/README.md from the rows.
"""

from __future__ import annotations

import os
from importlib.metadata import version

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Thousands of programs that run for milliseconds: compile them fast.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "fuzz" / "cases.jsonl"
LIMIT, COMPILE_LIMIT = 60.0, 400.0


def worker() -> None:
    """Case numbers come in, one a line; "begin" and a row go out for each."""
    import gc

    import jax
    from fuzzing.cases import PER_BLOCK, drawn
    from fuzzing.checks import check

    def say(message: dict) -> None:
        print(json.dumps(message), flush=True)

    block = None
    for line in sys.stdin:
        seed = int(line)
        case = drawn(seed)
        if seed // PER_BLOCK != block:
            block = seed // PER_BLOCK
            jax.clear_caches()
            gc.collect()
            say({"begin": seed, "limit": COMPILE_LIMIT})
            compiled = check(case)["seconds"]
            say({"begin": seed, "limit": LIMIT})
            row = check(case) | {"compile_seconds": compiled}
        else:
            say({"begin": seed, "limit": LIMIT})
            row = check(case)
        say({"row": row})


class Worker:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def run(self, seed: int) -> dict:
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


def finished(path: Path) -> dict[int, dict]:
    if not path.exists():
        return {}
    whole = path.read_bytes()
    rows = [json.loads(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()]
    return {row["seed"]: row for row in rows}


def replay(count: int, path: Path) -> int:
    """Cases in one more process, with more threads: the numbers that differ by more than 1e-12, relative to 1 + |x|."""
    from fuzzing.cases import PER_BLOCK

    done = [row for row in finished(path).values() if row.get("values") and row["seed"] % PER_BLOCK < 5]
    blocks = sorted({row["seed"] // PER_BLOCK for row in done})
    chosen = [row for row in done if row["seed"] // PER_BLOCK in blocks[:: max(1, 5 * len(blocks) // count)]][:count]
    os.environ["OPENBLAS_NUM_THREADS"] = "2"
    worst, current = 0.0, Worker()
    for old in chosen:
        new = current.run(old["seed"])
        gaps = [_gap(old["values"][name], new.get("values", {}).get(name)) for name in old["values"]]
        worst = max([worst, *gaps])
        if max(gaps) > 1e-12:
            print(f"{old['seed']}: differs by {max(gaps):.1e} ({old['method']}, {old['likelihood']}, {old['status']})")
    current.end()
    print(f"{len(chosen)} cases again in another process with two threads: largest difference {worst:.1e}")
    return int(worst > 1e-12)


def _gap(old: float, new: float | None) -> float:
    if new is None:
        return float("inf")
    same = old == new or (old != old and new != new)
    return 0.0 if same else abs(old - new) / (1 + abs(old))


def run(cases: int, each: int, again: list[int], path: Path) -> None:
    from fuzzing.cases import PER_BLOCK, Block

    path.parent.mkdir(parents=True, exist_ok=True)
    done = finished(path)
    todo = [seed for seed in range(cases) if seed not in done and seed % PER_BLOCK < each]
    # Inference takes milliseconds and learning seconds: a run that is ended early has then seen the most.
    order = {"infer": 0, "bound": 1, "estimator": 2, "learn": 3}
    todo = again or sorted(todo, key=lambda seed: (order[Block.numbered(seed // PER_BLOCK).kind], seed))
    started, current = time.monotonic(), Worker()
    try:
        with open(path, "a", encoding="utf-8") as file:
            for count, seed in enumerate(todo, 1):
                row = current.run(seed)
                file.write(json.dumps(row) + "\n")
                file.flush()
                if row["status"] in ("hang", "crash"):
                    current = Worker()
                if row["status"] in ("failed", "hang", "crash"):
                    print(f"{seed}: {row['status']}: {row['law']}", flush=True)
                if count % 200 == 0:
                    print(f"{count} of {len(todo)} cases, {time.monotonic() - started:.0f} s", flush=True)
    finally:
        current.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=10**9, help="only the first so many cases of every block")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--case", type=int)
    parser.add_argument(
        "--again", type=int, nargs="*", default=[], help="numbers to run anew, after a defect was mended"
    )
    parser.add_argument("--replay", type=int)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.worker:
        worker()
    elif options.case is not None:
        from fuzzing.cases import drawn
        from fuzzing.checks import check

        print(json.dumps(check(drawn(options.case)), indent=1))
    elif options.replay is not None:
        sys.exit(replay(options.replay, options.out))
    elif options.table:
        from fuzzing.table import render

        (options.out.parent / "README.md").write_text(render(list(finished(options.out).values())), encoding="utf-8")
    else:
        run(options.cases, options.each, options.again, options.out)


if __name__ == "__main__":
    main()
