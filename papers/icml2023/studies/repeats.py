"""The searches of the ARD tables, as printed, from starts that differ in the tenth digit.

    python papers/icml2023/studies/repeats.py results/icml2023 --data DIR --method laplace-softplus@ard --sets spect

Appends one line a search to ard-repeats.jsonl; those that are there are not made again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sitewise.errors import UserError
from sitewise.process.log import Log
from sitewise_icml2023 import tasks, variants
from sitewise_icml2023.book.tables import REPEATS
from sitewise_icml2023.protocols import FOLDS

KEY = ("set", "method", "fold", "nudge")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--method", choices=[f"{name}@ard" for name in tasks.PRINTED], required=True)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    box = Log(options.out / REPEATS, lambda row: tuple(row[name] for name in KEY), _refuse)
    done, method = set(box.read()[0]), variants.parse(options.method)
    search = tasks.PRINTED[method.learner]
    for name in options.sets:
        for nudge in range(options.repeats):
            for fold in range(FOLDS):
                key = (name, options.method, fold, nudge)
                if key in done:
                    continue
                record, rows = tasks.load(tasks.Task(name, "published", 42, fold, options.method, options.data))
                found = search(variants.model(method, record.kind, rows.X), rows, nudge)
                kept = {what: found[what] for what in ("objective", "test_loglik", "test_acc", "rounds")}
                box.append({**dict(zip(KEY, key, strict=True)), **kept, "commit": tasks.provenance()["commit"]})
                print(*key, kept, flush=True)
    box.close()


def _refuse(path: Path, number: int) -> None:
    raise UserError(f"Line {number} of {path} is not of a search; repair it by hand.")


if __name__ == "__main__":
    main()
