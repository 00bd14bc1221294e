"""Make 2 000 plausible mistakes with tables, and test that none passes without a message.

    python studies/table_misuse.py [--cases N] [--case NUMBER ...]

A case is one of ten simulated tables (`misusing.sheets`) with one of ten kinds of mistakes (`misusing.of_tables`), in
a pipeline with a TableEncoder or in the reading step of the command.  results/misuse/tables.json holds the counts by
table, mistake and verdict (`misusing.judge`), and every undetected mistake.  Until a run is finished its verdicts are
in tables.unfinished in the same folder, and a stopped run continues.  `misuse.py --page` writes the counts to the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from misuse import OUT  # first: it sets the options of the compiler
from misusing.judge import OFFENDERS
from misusing.of_tables import MISTAKES
from misusing.sheet_cases import run_sheet
from misusing.sheets import SHEETS
from sitewise.errors import UserError
from sitewise.process import files
from sitewise.process.log import Log

CASES = 2000


def _refuse(file: Path, number: int) -> None:
    raise UserError(f"Line {number} of {file} is no verdict; repair it by hand.")


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts by verdict, by table, mistake and verdict, and the offenders."""
    counts = {table: {mistake: Counter[str]() for mistake in MISTAKES} for table in SHEETS}
    for row in rows:
        counts[row["table"]][row["mistake"]][row["verdict"]] += 1
    return {
        "cases": len(rows),
        "verdicts": dict(sorted(Counter(row["verdict"] for row in rows).items())),
        "counts": {t: {m: dict(sorted(c.items())) for m, c in by.items()} for t, by in counts.items()},
        "offenders": [row for row in rows if row["verdict"] in OFFENDERS],
    }


def hunt(cases: int, folder: Path) -> None:
    """Append the verdicts of the cases that have none, and write the summary."""
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "tables.unfinished", dict, _refuse)
    done = {row["case"]: row for row in log.read()[0]}
    started = time.monotonic()
    try:
        for number in range(cases):
            if number not in done:
                done[number] = run_sheet(number)
                log.append(done[number])
                if done[number]["verdict"] in OFFENDERS:
                    print(json.dumps(done[number], ensure_ascii=False), flush=True)
            if (number + 1) % 200 == 0:
                print(f"{number + 1} of {cases} cases, {time.monotonic() - started:.0f} s", flush=True)
    finally:
        log.close()
    text = json.dumps(summary([done[number] for number in range(cases)]), indent=1, ensure_ascii=False)
    files.write_whole(folder / "tables.json", (text + "\n").encode())
    log.path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--case", type=int, nargs="*")
    options = parser.parse_args()
    if options.case is None:
        hunt(options.cases, options.out)
    for number in options.case or ():
        print(json.dumps(run_sheet(number), ensure_ascii=False, indent=1), flush=True)


if __name__ == "__main__":
    main()
