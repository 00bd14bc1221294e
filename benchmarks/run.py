"""Measure sitewise and other libraries on the same rows, in one run, with one thread each, in turn.

    make bench                        # every short job
    make bench JOBS="fit grid"        # some of them
    python benchmarks/run.py --list

Every answer is appended to results/benchmarks/JOB.jsonl immediately; a stopped run continues where it was (`--again`
starts the job over).  Seconds are CPU seconds of the library's process, because the machine may be busy, and wall-clock
seconds.  A library's first answer in its process includes compilation and is stored separately as "first".  Then the
libraries answer in turn, `repeats` times, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from charts import chart
from environments import CannotInstall, command
from jobs import JOBS, Case
from summary import summarise, table

from process import Contestant, Lost

SHORT = ("fit", "grid", "sparse", "predict", "cold", "scaling")
ALONE = ("cold", "scaling", "sparse_scaling")  # jobs of sitewise alone, with scripts of their own


def machine() -> dict:
    """What the seconds were measured on."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / 2**20, 1),
        "python": platform.python_version(),
        "commit": found.stdout.strip(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


class Journal:
    """The rows of one job; `done` are those that a resumed run need not measure again."""

    def __init__(self, path: Path, again: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if again and path.exists():
            path.unlink()
        self.rows = [json.loads(line) for line in _lines(str(path))]

    def add(self, row: dict) -> None:
        row = {**row, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "load": round(os.getloadavg()[0], 2)}
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def of(self, case: str, contestant: str) -> list[dict]:
        return [row for row in self.rows if row["case"] == case and row["contestant"] == contestant]


def run_case(case: Case, journal: Journal, work: Path, only: set[str]) -> None:
    names = [c for c in case.contestants if not only or c in only]
    missing = [c for c in names if not _complete(journal.of(case.name, c), case.repeats)]
    if not missing:
        return
    print(f"\n{case.name}", flush=True)
    try:
        data = case.data()
    except Exception as problem:
        print(f"  skipped: {problem}")
        return
    path = work / "data.npz"
    np.savez(path, **data)
    task = {**case.task, "data": str(path)}
    alive: dict[str, Contestant] = {}
    try:
        for round_ in range(case.repeats + 1):  # round 0 is the first answer, compilation included
            for name in names:
                if any(row["round"] == round_ or "cpu" not in row for row in journal.of(case.name, name)):
                    continue
                row = _answer(name, task, case, alive, work, round_)
                journal.add({"case": case.name, "contestant": name, "round": round_, "n": int(_rows(data)), **row})
                print(f"  {name:13s} {'first' if round_ == 0 else round_:>5}  {_show(row)}", flush=True)
                if name == case.contestants[0] and "objective" in row:
                    task["target"] = row["objective"]
    finally:
        for contestant in alive.values():
            contestant.close()


def _complete(rows: list[dict], repeats: int) -> bool:
    return any("cpu" not in row for row in rows) or {row["round"] for row in rows} >= set(range(repeats + 1))


def _rows(data: dict) -> int:
    return len(data["X"] if "X" in data else data["X0"])


def _answer(name: str, task: dict, case: Case, alive: dict[str, Contestant], work: Path, round_: int) -> dict:
    try:
        if name not in alive:
            alive[name] = Contestant(command(name, work / "env"), work / "log" / f"{name}.txt")
            if round_ > 0:  # resumed: this process has not compiled yet
                alive[name].ask(task, case.cap)
        return {"library": alive[name].about.get("library"), **alive[name].ask(task, case.cap)}
    except CannotInstall as problem:
        return {"skip": f"could not be installed: {problem}"}
    except Lost as problem:
        alive.pop(name, None)
        return {"skip": str(problem)}


def _show(row: dict) -> str:
    if "cpu" not in row:
        return row.get("skip") or row.get("error", "")
    rest = {k: row[k] for k in ("objective", "failed", "rounds", "reached") if k in row}
    return f"{row['cpu']:9.3f} s CPU {row['wall']:9.3f} s wall  {rest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="*", default=SHORT, help=f"of {', '.join([*JOBS, *ALONE])}")
    parser.add_argument("--contestants", nargs="*", default=(), help="only these")
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "benchmarks")
    parser.add_argument("--work", type=Path, default=HERE.parent / ".bench", help="environments, logs, data")
    parser.add_argument("--again", action="store_true", help="measure again what is there already")
    parser.add_argument("--list", action="store_true", help="name the jobs")
    args = parser.parse_args()
    if args.list:
        for name, cases in JOBS.items():
            print(f"{name:14s}{(cases.__doc__ or '').strip().splitlines()[0]}")
        print("cold          First fit of a process, the next one, a new likelihood; empty and filled cache.")
        print("scaling       Site iteration, evidence and gradient from n = 800 to 4 000, beside the machine's dgemm.")
        print("sparse_scaling  A sweep, the ELBO and its gradient from 10⁴ to 10⁶ rows, m = 500.")
        return
    unknown = set(args.jobs) - set(JOBS) - set(ALONE)
    if unknown:
        parser.error(f"there is no job {', '.join(sorted(unknown))}; --list names them")
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    for job in args.jobs:
        if job in ALONE:
            subprocess.run(
                [sys.executable, str(HERE / f"{job}.py"), "--out", str(args.out / f"{job}.json")], check=True
            )
            continue
        journal = Journal(args.out / f"{job}.jsonl", args.again)
        for case in JOBS[job]():
            if args.cases in case.name:
                run_case(case, journal, args.work, set(args.contestants))
        summary = {"job": job, "machine": machine(), "cases": summarise(journal.rows)}
        (args.out / f"{job}.json").write_text(json.dumps(summary, indent=1) + "\n")
        print(f"\n{job}: seconds of a contestant over those of sitewise\n{table(summary['cases'])}")
        chart(summary, args.out / f"{job}.png")


if __name__ == "__main__":
    main()
