"""Count converged points of inference on the paper's 21 × 21 grid (ionosphere, fold 3 of seed 42).

python studies/grid_convergence.py        (SITEWISE_DATA names the data folder)
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sitewise import EP, VI, Data, Laplace, evidence
from sitewise.surface import evidence_surface
from sitewise_icml2023.protocols import fold


def main() -> None:
    rows = fold("ionosphere", "published", 42, 3)
    data = Data.of(rows.X, rows.y)
    axis = np.linspace(-1, 5, 21)
    print("| method | converged | steps mean / max | largest residual | seconds (compile apart) | CPU seconds |")
    print("|---|---|---|---|---|---|")
    for method, read in ((Laplace(), evidence.laplace), (EP(), evidence.ep), (VI(), evidence.elbo)):
        evidence_surface(method, read, data, axis, axis[:1])  # compiles
        wall, cpu = time.perf_counter(), time.process_time()
        s = evidence_surface(method, read, data, axis, axis)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert np.all(np.isfinite(s.evidence))
        print(
            f"| {method.name} | {np.sum(s.code == 0)} of {s.code.size} | {s.steps.mean():.1f} / {s.steps.max()} "
            f"| {s.residual.max():.1e} | {wall:.1f} | {cpu:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
