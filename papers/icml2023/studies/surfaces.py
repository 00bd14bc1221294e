"""Evidence and predictive-density surfaces of the paper's Figs. 2 and 6–9, with the MCMC gold standard.

    python papers/icml2023/studies/surfaces.py --set ionosphere --data DIR --out FILE.npz

At every point of the grid log ℓ, log σ ∈ [−1, 5] (isotropic Matérn-5/2, probit): Laplace, EP, VI and hybrid
evidences and test log densities, and log Z by annealed importance sampling with standard errors.  Writes FILE.npz,
FILE.csv, FILE.png and FILE.json (seconds, summary); resumable: finished blocks are kept in FILE.unfinished.
`--tables FOLDER` prints the tables of results/surfaces/README.md from the CSV files there.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import jax
import numpy as np

from sitewise.mcmc.points import Points, block_sizes
from sitewise.process.device import on_accelerator
from sitewise.process.journal import Journal
from sitewise_icml2023 import paper
from sitewise_icml2023.figures import surface_plots, surfaces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=surfaces.SETS)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", type=Path, metavar="FOLDER")
    parser.add_argument("--points", type=int, default=21, help="grid points an axis")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--steps", type=int, default=256, help="first schedule length; fourfold where needed")
    parser.add_argument("--max-steps", type=int, default=4096)
    parser.add_argument("--target-se", type=float, default=0.3)
    parser.add_argument("--draws", type=int, default=32, help="draws a chain for predictions, 4 moves apart")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--block", type=int, default=None, help="points in a block; all on a GPU, 21 on a CPU")
    parser.add_argument("--device-batch", type=int, default=None, help="points side by side (GPU memory)")
    parser.add_argument("--warm", action="store_true", help="compile first, so that the seconds are those of the run")
    args = parser.parse_args()
    if args.tables:
        print(tables(args.tables))
        return
    if not (args.set and args.data and args.out):
        parser.error("--set, --data and --out are needed for a run")

    fold = surfaces.rows(args.set, args.data)
    grid = surfaces.square(args.points)
    vectors, n = grid.vectors, len(fold.y)
    seconds: dict[str, float] = {}

    def timed(label: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        seconds[label] = time.perf_counter() - start
        print(f"{label}: {seconds[label]:.2f} s", flush=True)
        return result

    def sample(
        store: Path | None,
        steps: int,
        max_steps: int,
        draws: int,
        show: Callable[[str], None] | None = None,
        points: np.ndarray = vectors,
        block: int | None = args.block,
    ) -> Points:
        return surfaces.gold(
            fold, points, chains=args.chains, steps=steps, max_steps=max_steps, target_se=args.target_se,
            draws=draws, seed=args.seed, block=block, batch=args.device_batch, store=store, done=show,
        )  # fmt: skip

    print(f"{args.set}: n = {n}, {len(vectors)} points, {jax.devices()[0].device_kind}, jax {jax.__version__}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    if args.warm:
        timed("compile mcmc (all block sizes)", lambda: warm(sample, vectors, args))
        start = time.perf_counter()

    def show(text: str) -> None:
        print(f"  {time.perf_counter() - start:7.2f} s  {text}", flush=True)

    unfinished = args.out.with_suffix(".unfinished")
    found = timed("mcmc", lambda: sample(unfinished, args.steps, args.max_steps, args.draws, show=show))
    out = {f"mcmc_{name}": value for name, value in found._asdict().items()}

    def others() -> dict[str, np.ndarray]:
        return surfaces.approximate(fold, vectors, args.device_batch)

    found_others = timed("laplace, ep, vi (with compilation)", others)
    if args.warm:
        found_others = timed("laplace, ep, vi", others)
    out |= {**found_others, **grid._asdict(), "rows": np.array(n)}
    np.savez(args.out, **out)
    args.out.with_suffix(".csv").write_text(surface_plots.as_csv(out, grid))
    report = summary(args, out, seconds, n)
    args.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    surface_plots.draw(args.set, out, grid, n).savefig(args.out.with_suffix(".png"), dpi=110)
    Journal(unfinished, "").done()


def warm(sample: Callable[..., Points], vectors: np.ndarray, args: argparse.Namespace) -> None:
    """Compile every program of the run, by runs of length 1."""
    block = args.block or (len(vectors) if on_accelerator() else 21)
    for size in block_sizes(min(block, len(vectors))):
        sample(None, 1, 1, 1, points=vectors[:size], block=block)


def tables(folder: Path) -> str:
    """How far the evidences lie from log Z, and where each has its maximum on the grid, as Markdown."""
    names = ("mcmc", "ep", "hybrid", "vi", "laplace")
    far = ["| set | standard error, median / largest | points flagged | "
           + " | ".join(f"{name} − log Z" for name in names[1:]) + " |", "|---" * 7 + "|"]  # fmt: skip
    best = ["| set | " + " | ".join(names) + " |", "|---" * 6 + "|"]
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            points = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        column = {key: np.array([point[key] for point in points]) for key in points[0]}
        cells = []
        for name in names[1:]:
            gap = column[f"{name}_evidence"] - column["mcmc_log_z"]
            cells.append(f"{np.median(gap):.2f} / {np.max(np.abs(gap)):.1f}")
        se, flagged = column["mcmc_se"], int(np.sum(column["mcmc_tight"] == 0))
        far.append(f"| {path.stem} | {np.median(se):.2f} / {se.max():.2f} | {flagged} | " + " | ".join(cells) + " |")
        cells = []
        for name in names:
            top = points[int(np.argmax(column["mcmc_log_z" if name == "mcmc" else f"{name}_evidence"]))]
            density = top[f"{'vi' if name == 'hybrid' else name}_test_log_density"]  # the hybrid has VI's posterior
            cells.append(f"({top['log_lengthscale']:g}, {top['log_sigma']:g}) {density:.3f}")
        best.append(f"| {path.stem} | " + " | ".join(cells) + " |")
    return "\n".join([*far, "", *best])


def summary(
    args: argparse.Namespace, out: dict[str, np.ndarray], seconds: dict[str, float], rows: int
) -> dict[str, Any]:
    """What the run found, printed and returned."""
    report = {
        "set": args.set, "rows": rows, "points": len(out["mcmc_se"]), "chains": args.chains,
        "device": jax.devices()[0].device_kind, "jax": jax.__version__, "seconds": seconds,
        "se_median": float(np.median(out["mcmc_se"])), "se_max": float(np.max(out["mcmc_se"])),
        "gap_max": float(np.max(np.abs(out["mcmc_upper"] - out["mcmc_lower"]))),
        "flagged": int(np.sum(~out["mcmc_tight"])),
        "steps": {str(k): int(v) for k, v in zip(*np.unique(out["mcmc_steps"], return_counts=True), strict=True)},
        "stuck_max": float(np.max(out["mcmc_stuck"])),
    }  # fmt: skip
    for name in surfaces.METHODS:
        gap = out[f"{name}_evidence"] - out["mcmc_log_z"]
        report[f"{name}_minus_mcmc"] = {"median": float(np.median(gap)), "max_abs": float(np.max(np.abs(gap)))}
        if name != "hybrid":
            report[f"{name}_not_converged"] = int(np.sum(out[f"{name}_code"] != 0))
    if args.set == "ionosphere" and args.points == 21:
        row = int(np.argmin(np.abs(out["log_sigma"] - 2.3)))
        ours = out["mcmc_log_z"].reshape(21, 21)[row] / rows
        printed = np.array(paper.fig1()["evidence"]["mcmc"])
        report["fig1a_max_difference"] = float(np.max(np.abs(ours - printed)))
        print("fig1a (log σ = 2.3)  log ℓ   ours      published  difference")
        for log_l, a, b in zip(out["log_lengthscale"], ours, printed, strict=True):
            print(f"{log_l:26.1f} {a:10.5f} {b:10.5f} {a - b:10.5f}")
    print(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main()
