"""Make thousands of plausible user errors, and test that none gives a wrong result without a warning.

    python studies/misuse.py [--cases N] [--case NUMBER] [--kind NAME] [--page]

Each case is a small correct problem with one or two mistakes (`misusing.kinds`).  The result must be the right numbers,
a clear error or a warning.  results/misuse/summary.json holds the counts by kind and verdict, and every undetected
mistake; until a run is finished its verdicts are in cases.unfinished in the same folder, and a stopped run continues.
--case runs one case, --kind some cases of one kind; --page writes the list of kinds to docs/explanation/misuse.md.
"""

from __future__ import annotations

import os
from importlib.metadata import version

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Small problems: compile what has to be compiled fast.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from misusing.cases import NAMES, drawn, run
from misusing.hunt import hunt
from misusing.judge import OFFENDERS
from misusing.kinds import KINDS
from misusing.page import render

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "misuse"
PAGE = ROOT / "docs" / "explanation" / "misuse.md"


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by verdict, by kind and verdict, and the offenders.  A case with two mistakes counts for its first."""
    by_kind: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
    for row in rows:
        by_kind[row["kinds"][0]][row["verdict"]] += 1
    return {
        "cases": len(rows),
        "two_mistakes": sum(len(row["kinds"]) > 1 for row in rows),
        "verdicts": dict(sorted(Counter(row["verdict"] for row in rows).items())),
        "groups": {
            group: dict(sorted(sum((by_kind[k.name] for k in KINDS.values() if k.group == group), Counter()).items()))
            for group in dict.fromkeys(kind.group for kind in KINDS.values())
        },
        "kinds": {name: dict(sorted(counts.items())) for name, counts in by_kind.items()},
        "offenders": [row for row in rows if row["verdict"] in OFFENDERS],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=6000)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--case", type=int, nargs="*")
    parser.add_argument("--kind")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.case is not None or options.kind is not None:
        first = NAMES.index(options.kind) if options.kind else 0
        for number in options.case or range(first, options.cases, len(NAMES)):
            print(json.dumps(run(drawn(number)), ensure_ascii=False, indent=1), flush=True)
    elif options.page:
        found = [json.loads((options.out / name).read_text("utf-8")) for name in ("summary.json", "tables.json")]
        PAGE.write_text(render(*found), encoding="utf-8")
    else:
        hunt(
            options.cases, options.out / "summary.json", "cases.unfinished", lambda number: run(drawn(number)), summary
        )


if __name__ == "__main__":
    main()
