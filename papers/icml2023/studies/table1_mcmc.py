"""The MCMC column of Table 1: hyperparameters sampled, test log density averaged, one JSON line per (set, fold).

    python papers/icml2023/studies/table1_mcmc.py --data DIR --jobs 16 --out results/mcmc/table1.jsonl

All 27 sets, published protocol, seed 42, log-uniform priors within [1e-5, 1e6]; the smallest sets first.  Where R-hat
is above 1.05 or bulk ESS below 200, the fold is sampled again with three times as many draws, up to twice; `attempts`
has them all.  Resumable: finished lines are kept.  --table prints the comparison of the means over the folds with the
worst R-hat and bulk ESS of a fold, and runs nothing.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sampled_fold import Row, all_of, sampled, stored

from sitewise import Model, kernels, likelihoods
from sitewise_icml2023 import paper
from sitewise_icml2023.protocols import FOLDS, fold
from sitewise_icml2023.registry import get, suite

SEED = 42


class Task(NamedTuple):
    name: str
    fold: int
    draws: int
    data: Path | None
    published: float | None


def run(task: Task) -> Row:
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    rows = fold(task.name, "published", SEED, task.fold, task.data)
    found = sampled(model, rows, task.draws, np.log(1e-12))
    return {"set": task.name, "seed": SEED, "fold": task.fold, **found, "published": task.published}


def table(rows: list[Row]) -> str:
    """Beside each mean that of the public folds of this seed; where there are none, the printed mean over all seeds."""
    lines = ["| set | rows | ours | published | difference | R-hat | ESS | accepted | longest | seconds |"]
    lines.append("|---" * 10 + "|")
    printed = paper.printed("table1", "loglik")
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        ours = float(np.mean([row["test_loglik"] for row in mine]))
        public = [row["published"] for row in mine]
        theirs, mark = (printed[name]["mcmc"].mean, " (10 seeds)") if None in public else (float(np.mean(public)), "")
        few = f" ({len(mine)} folds)" if len(mine) < FOLDS else ""
        lines.append(
            f"| {name}{few} | {mine[-1]['n']} | {ours:.4f} | {theirs:.4f}{mark} | {ours - theirs:+.4f} | "
            f"{max(row['rhat'] for row in mine):.3f} | {min(row['ess'] for row in mine):.0f} | "
            f"{min(row['accepted'] for row in mine):.2f} | {max(row['draws'] for row in mine)} | "
            f"{sum(row['seconds'] for row in mine):.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/mcmc/table1.jsonl"))
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--folds", nargs="*", type=int, default=list(range(FOLDS)))
    parser.add_argument("--draws", type=int, default=160, help="of each of four chains, at first")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if not args.table:
        done = {(row["set"], row["fold"]) for row in stored(args.out)}
        public = paper.published_folds(args.data)

        def published(name: str, index: int) -> float | None:
            # the published mcmc entries hold the seeds 1..9, 42: the last block is seed 42
            return public[name]["mcmc"]["test_loglik"][45 + index] if name in public else None

        tasks = [
            Task(name, index, args.draws, args.data, published(name, index))
            for name in args.sets or sorted(suite("table1"), key=lambda s: get(s).rows)
            for index in args.folds
            if (name, index) not in done
        ]
        all_of(run, tasks, args.jobs, args.out)
    print(table(sorted(stored(args.out), key=lambda row: (row["n"], row["set"]))))


if __name__ == "__main__":
    main()
