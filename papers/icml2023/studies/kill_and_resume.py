"""A kill −9 in the middle of `sitewise reproduce`, and the same command again: are the results equal?

    python papers/icml2023/studies/kill_and_resume.py --data DIR > results/icml2023/kill-and-resume.md

Table 1 and the EP-init table on two tiny sets, once undisturbed and once killed --kills times (the process group, with
all workers), each time after a few more rows.  Rows are compared but for their seconds, tables byte for byte.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WHAT = ("table1", "table-ep-init", "objective", "numbers")
TIMING = ("seconds", "cpu_seconds")


def start(out: Path, data: Path | None, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sitewise", "reproduce", *WHAT, "--sets", "trains,balloons", "--seeds", "42"]
    command += ["--workers", str(workers), "--out", str(out), *(["--data", str(data)] if data else [])]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def rows(out: Path) -> dict[str, Any]:
    """Every row but its timing, by its key."""
    path = out / "results.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    found = list(map(json.loads, lines))
    keys = [str([r[k] for k in ("set", "protocol", "seed", "fold", "method")]) for r in found]
    return {key: {k: v for k, v in r.items() if k not in TIMING} for key, r in zip(keys, found, strict=True)}


def tables(out: Path) -> dict[str, str]:
    """The tables and pages, without what was measured in seconds."""
    return {path.name: path.read_text() for path in sorted(out.glob("*.md")) + sorted(out.glob("*.csv"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = Path(folder) / "whole", Path(folder) / "broken"
        if start(whole, args.data, args.workers).wait() != 0:
            raise RuntimeError("the undisturbed run failed")
        total, at = len(rows(whole)), []
        for kill in range(1, args.kills + 1):
            process, goal = start(broken, args.data, args.workers), kill * total // (args.kills + 1)
            while len(rows(broken)) < goal and process.poll() is None:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            at.append(len(rows(broken)))
        if start(broken, args.data, args.workers).wait() != 0:
            raise RuntimeError("the resumed run failed")
        same, printed = rows(whole) == rows(broken), tables(whole) == tables(broken)
        print("# Killed and resumed\n")
        print(
            "Made by `python papers/icml2023/studies/kill_and_resume.py`: "
            f"`sitewise reproduce {' '.join(WHAT)}` on two sets."
        )
        print(
            f"{total} fits; killed (−9, with its workers) after {', '.join(map(str, at))} rows, then run to the end.\n"
        )
        print(f"- rows equal those of an undisturbed run, but for their seconds: {same}")
        print(f"- the {len(tables(whole))} tables and pages are equal byte for byte: {printed}")
        sys.exit(not (same and printed))


if __name__ == "__main__":
    main()
