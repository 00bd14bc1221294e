"""Fig. 5 on every fold of seed 42: Algorithm 1 on past the round in which its learning objective falls.

    python papers/icml2023/studies/conflict.py --data DIR --out results/icml2023/conflict.jsonl
    python papers/icml2023/studies/conflict.py --render results/icml2023/conflict.jsonl > results/icml2023/conflict.md

The folds are those whose stored run of `hybrid-vem` was stopped by the E/M conflict; all other runs end before
anything falls.  They are continued without the stopping rule for --beyond rounds, sets of similar size in one program
(for a GPU; on a CPU name a few sets).  One JSON line per fold, with every tenth round; resumable by groups.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from sitewise import VEM, Data
from sitewise.learning.fit import Fit
from sitewise_icml2023 import many_fits, protocols, store, tasks, variants
from sitewise_icml2023.figures.fig5 import stop

Row = dict[str, Any]
EVERY = 10


def stopped(rows: list[Row]) -> list[Row]:
    """Stored runs of Algorithm 1, seed 42, that the conflict ended."""
    return [r for r in rows if r["method"] == "hybrid-vem" and r["seed"] == 42 and "fell" in r["reason"]]


def continued(chosen: list[Row], beyond: int, data: Path | None) -> list[Row]:
    """Train these folds without the stopping rule, in one program."""
    method = variants.parse("hybrid-vem")
    learner = variants.learner(method, "classification", "")
    assert isinstance(learner, VEM)  # Algorithm 1
    rounds = max(r["rounds"] for r in chosen) + beyond
    learner = dataclasses.replace(learner, stop_on_fall=False, max_rounds=rounds)
    folds = [protocols.fold(r["set"], "published", 42, r["fold"], data) for r in chosen]
    parts = [Data.of(tasks.widened(fold.X), fold.y) for fold in folds]
    model = variants.model(method, "classification", folds[0].X)
    began = time.perf_counter()
    fits = many_fits.fit_many(learner, model, parts)
    seconds = (time.perf_counter() - began) / len(parts)
    return [summary(r, fit, beyond) | {"seconds": round(seconds, 2)} for r, fit in zip(chosen, fits, strict=True)]


def summary(row: Row, fit: Fit, beyond: int) -> Row:
    """Where the objective first fell, how far it went down from there, and every tenth round."""
    trace = {k: np.array([e[k] for e in fit.trace]) for k in ("ep", "elbo", "kernel.lengthscale", "kernel.variance")}
    fall = stop(trace["ep"])
    last = len(trace["ep"]) - 1 if fall is None else min(fall + beyond, len(trace["ep"]) - 1)
    kept = slice(0, last + 1, EVERY)
    numbers: Row = {"set": row["set"], "fold": row["fold"], "n": row["n"], "stopped": row["rounds"], "last": last}
    numbers["fall"] = fall
    if fall is not None:
        after = trace["ep"][fall : last + 1]
        numbers |= {"ep_fall": after[0], "ep_best": trace["ep"][: last + 1].max(), "ep_lowest": after.min()}
        numbers |= {"ep_last": after[-1], "elbo_fall": trace["elbo"][fall], "elbo_last": trace["elbo"][last]}
    numbers = {k: float(v) if isinstance(v, np.floating) else v for k, v in numbers.items()}
    return {**numbers, **{k: [float(f"{x:.7g}") for x in v[kept]] for k, v in trace.items()}}


def render(rows: list[Row], stored: list[Row]) -> str:
    """Per set: how often, how soon, and how much the objective loses if one does not stop."""
    profile = {(r["set"], r["fold"]): r["objective"] for r in stored
               if (r["method"], r["protocol"], r["seed"]) == ("hybrid", "published", 42)}  # fmt: skip
    lines = [
        "# The conflict of E- and M-step, continued (Fig. 5 on all sets)",
        "",
        "Made by `python papers/icml2023/studies/conflict.py --render results/icml2023/conflict.jsonl`. Folds of "
        "seed 42 whose run of Algorithm 1 the conflict ended, continued for 300 rounds. Nats, medians over the "
        "folds; *to the "
        "profile maximum*: what the exact gradient (`hybrid`) found above the objective at the fall.",
        "",
        "| set | training rows | folds of five | round of the fall | to the profile maximum | gained after the fall "
        "| lost at worst | at the end |",
        "|---" * 8 + "|",
    ]
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["fall"] is not None:
            by[row["set"]].append(row)
    for name, mine in sorted(by.items(), key=lambda item: item[1][0]["n"]):

        def middle(values: list[float]) -> float:
            return float(np.median(values))

        gap = middle([profile[name, r["fold"]] - r["ep_fall"] for r in mine if (name, r["fold"]) in profile])
        lines.append(
            f"| {name} | {mine[0]['n']} | {len(mine)} | {middle([r['fall'] + 1 for r in mine]):.0f} | {gap:+.4f} "
            f"| {middle([r['ep_best'] - r['ep_fall'] for r in mine]):+.4f} "
            f"| {middle([r['ep_lowest'] - r['ep_fall'] for r in mine]):+.4f} "
            f"| {middle([r['ep_last'] - r['ep_fall'] for r in mine]):+.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--beyond", type=int, default=300)
    parser.add_argument("--store", type=Path, default=Path("results/icml2023/results.jsonl"))
    parser.add_argument("--out", type=Path, default=Path("results/icml2023/conflict.jsonl"))
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--render", type=Path, help="print the table of these results and stop")
    args = parser.parse_args()
    stored = store.read(args.store)
    if args.render:
        print(render([json.loads(line) for line in args.render.read_text().splitlines()], stored))
        return
    done = (
        {(r["set"], r["fold"]) for r in map(json.loads, args.out.read_text().splitlines())}
        if args.out.exists()
        else set()
    )
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in stopped(stored):
        if (row["set"], row["fold"]) not in done and (not args.sets or row["set"] in args.sets):
            groups[min(size for size in tasks.SIZES if row["n"] <= size)].append(row)
    for size, chosen in sorted(groups.items()):
        began = time.perf_counter()
        with args.out.open("a") as file:
            for row in continued(chosen, args.beyond, args.data):
                file.write(json.dumps(row) + "\n")
        print(f"{len(chosen)} folds of at most {size} rows: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
