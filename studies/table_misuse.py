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
from collections import Counter
from pathlib import Path
from typing import Any

from misuse import OUT  # first: it sets the options of the compiler
from misusing.hunt import hunt
from misusing.judge import OFFENDERS
from misusing.of_tables import MISTAKES
from misusing.sheet_cases import run_sheet
from misusing.sheets import SHEETS

CASES = 2000


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--case", type=int, nargs="*")
    options = parser.parse_args()
    if options.case is None:
        hunt(options.cases, options.out / "tables.json", "tables.unfinished", run_sheet, summary)
    for number in options.case or ():
        print(json.dumps(run_sheet(number), ensure_ascii=False, indent=1), flush=True)


if __name__ == "__main__":
    main()
