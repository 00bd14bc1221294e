"""Run numbered cases, keep their verdicts until all are finished, and write a summary."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from misusing.judge import OFFENDERS
from sitewise.errors import UserError
from sitewise.process import files
from sitewise.process.log import Log

Row = dict[str, Any]


def hunt(
    cases: int, out: Path, unfinished: str, run: Callable[[int], Row], summary: Callable[[list[Row]], Row]
) -> None:
    """Write the summary of all cases to `out`; a stopped run continues from the file `unfinished` beside it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    log = Log(out.with_name(unfinished), dict, _refuse)
    done = {row["case"]: row for row in log.read()[0]}
    started = time.monotonic()
    try:
        for number in range(cases):
            if number not in done:
                done[number] = run(number)
                log.append(done[number])
                if done[number]["verdict"] in OFFENDERS:
                    print(json.dumps(done[number], ensure_ascii=False), flush=True)
            if (number + 1) % 200 == 0:
                print(f"{number + 1} of {cases} cases, {time.monotonic() - started:.0f} s", flush=True)
    finally:
        log.close()
    text = json.dumps(summary([done[number] for number in range(cases)]), indent=1, ensure_ascii=False)
    files.write_whole(out, (text + "\n").encode())
    log.path.unlink()


def _refuse(file: Path, number: int) -> None:
    raise UserError(f"Line {number} of {file} is no verdict; repair it by hand.")
