"""Algorithm 1 (`hybrid-vem`) on the five folds of a set as one batched program, for an accelerator.

    python papers/icml2023/studies/vem_batch.py --sets ionosphere --data DIR --store results/icml2023/results.jsonl

What `sitewise reproduce table1 --methods hybrid-vem --together` does, and one number more in each row: `ep_at_theta`,
the evidence that nested learning sees at the hyperparameters found (sites converged, exact expectations), which is
what `means.py` sets beside the nested hybrid.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from sitewise import Data, Model, Nested, evidence, kernels, likelihoods
from sitewise_icml2023 import protocols, registry, tasks
from sitewise_icml2023.store import Store


def nested_evidence(task: tasks.Task, theta: dict[str, float]) -> float:
    kernel = kernels.Matern52(np.asarray(theta["kernel.lengthscale"]), np.asarray(theta["kernel.variance"]))
    model = Model.full(kernel, likelihoods.BernoulliProbit(), jitter=1e-6)
    _, rows = tasks.load(task)
    return Nested(evidence=evidence.ep, fixed=("kernel.*",)).fit(model, Data.of(rows.X, rows.y)).objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--store", type=Path, default=Path("results/icml2023/results.jsonl"))
    parser.add_argument("--data", type=Path, default=None)
    args = parser.parse_args()
    store = Store(args.store)
    done = store.done()
    for name in args.sets or sorted(registry.suite("table1"), key=lambda s: registry.get(s).rows):
        for seed in args.seeds:
            group = tasks.suite([name], ["published"], [seed], ["hybrid-vem"], args.data)
            if all(task.key in done for task in group):
                continue
            rows = tasks.run_together(group)
            for task, row in zip(group, rows, strict=True):
                store.append({**row, "ep_at_theta": nested_evidence(task, row["theta"])})
            print(name, seed, [(r["rounds"], r["reason"][:12], round(r["test_loglik"], 4)) for r in rows],
                  f"{rows[0]['seconds'] * protocols.FOLDS:.1f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
