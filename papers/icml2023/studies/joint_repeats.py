"""VI with one lengthscale a feature, as printed, from starts that differ in the tenth digit.

    python papers/icml2023/studies/joint_repeats.py results/icml2023 --data DIR --sets acute-inflammation spect

Appends one line a search to vi-joint-repeats.jsonl; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sitewise_icml2023 import joint, tasks, variants
from sitewise_icml2023.book.tables import REPEATS
from sitewise_icml2023.protocols import FOLDS

METHOD = "vi-joint@ard"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    path = options.out / REPEATS
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["set"], line["fold"], line["nudge"]) for line in lines}
    for name in options.sets:
        for nudge in range(options.repeats):
            for fold in range(FOLDS):
                if (name, fold, nudge) in done:
                    continue
                record, rows = tasks.load(tasks.Task(name, "published", 42, fold, METHOD, options.data))
                found = joint.row(variants.model(variants.parse(METHOD), record.kind, rows.X), rows, nudge)
                kept = {key: found[key] for key in ("objective", "test_loglik", "test_acc", "rounds")}
                with path.open("a") as file:
                    file.write(json.dumps({"set": name, "fold": fold, "nudge": nudge, **kept}) + "\n")
                print(name, fold, nudge, kept, flush=True)


if __name__ == "__main__":
    main()
