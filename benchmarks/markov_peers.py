"""Compare libraries on long time series: same data and start, CPU seconds, learned values, hold-out density.

    python benchmarks/markov_peers.py [--env .bench/env] [--rows 2000 10000 100000] [--table]

The series are those of `markov_data.py` (the hold-out set has a fifth as many rows at random times).  Every library
starts from half the lengthscale, half the standard deviation and twice the noise, learns by its own optimiser, and is
fitted twice (once from 10⁵ rows on) in a separate process on one core.  Cold is the first fit, including compilation,
warm the second; predictions of hold-out rows are in neither.  "sitewise hybrid" is the Markov prior, "sitewise
hybrid-full" the dense prior.  Every result is one line of results/markov/peers.jsonl and is not measured again; --table
writes results/markov/peers.md.  Evidences of different methods are different approximations of one number.  BayesNewton
1.3.4 is not included: it installs without its dependencies, and with them (objax, numba, tensorflow-probability, JAX
0.10) it does not import, because JAX no longer has `jax.lib.xla_bridge`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from environments import CannotInstall, python_of
from markov_data import NOISE, REGIMES, simulate

from process import ONE_THREAD, on_one_core

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "markov"
COLD = {"SITEWISE_PROGRAM_CACHE": "off"}  # nothing that an earlier process has compiled
LONG = 100_000  # rows from which on there is one fit, most of which is no compilation
# Of each regime the contestants, each with the largest number of rows at which it is measured.
OURS = {"sitewise hybrid": 10**6, "sitewise ep": 10**6, "sitewise laplace": 10**6}
CONTESTANTS: dict[str, dict[str, int]] = {
    "binary, probit, Matérn-5/2": {**OURS, "gpboost": 10**5},
    "binary, Matérn-5/2": {**OURS, "sitewise hybrid-full": 2000, "gpboost": 10**5},
    "counts, Matérn-3/2": {**OURS, "sitewise hybrid-full": 2000, "gpboost": 10**5},
    "gaussian, Matérn-3/2": {"sitewise hybrid": 10**6, "tinygp": 10**5, "statsmodels": 10**5, "gpboost": 10**5},
}


def run(contestant: str, name: str, rows: int, seed: int, environments: Path, cap: float, fits: int) -> dict:
    regime = REGIMES[name]
    series = simulate(regime, rows, seed)
    library, _, variant = contestant.partition(" ")
    python = sys.executable if library == "sitewise" else str(python_of(library, environments))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "series.npz"
        np.savez(
            file, **series._asdict(), likelihood=regime.likelihood, order=regime.order, start_lengthscale=0.5,
            start_variance=regime.deviation**2 / 4, start_noise=2 * NOISE,
        )  # fmt: skip
        command = [python, str(HERE / "contestants" / f"markov_{library}.py"), str(file), str(fits), variant]
        about = {"contestant": contestant, "series": name, "rows": rows, "seed": seed}
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=cap,
                env={**os.environ, **ONE_THREAD, **COLD}, preexec_fn=on_one_core,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            return {**about, "error": f"no answer within {spent:.0f} CPU s, {cap:.0f} s by the clock"}
    if done.returncode:
        return {**about, "error": (done.stderr.strip().splitlines() or ["it ended"])[-1][:200]}
    return {**about, **json.loads(done.stdout.splitlines()[-1])}


def finished(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def lines(rows: list[dict]) -> Iterator[str]:
    yield (
        "| series | rows | seed | library | CPU s cold | CPU s warm | wall s warm | peak MiB | ℓ | σ | noise "
        "| evidence per row | hold-out log density per row |"
    )
    yield "|" + "---|" * 13
    for name, contestants in CONTESTANTS.items():
        order = {key: place for place, key in enumerate(contestants)}
        some = [row for row in rows if row["series"] == name]
        for row in sorted(some, key=lambda r: (r["rows"], r["seed"], order.get(r["contestant"], 99))):
            head = f"| {name} | {row['rows']} | {row['seed']} | {row['contestant']} "
            if "error" in row:
                yield head + f"| {row['error']} |" + " |" * 8
                continue
            warm = row.get("warm", {})
            seconds = [row["cold"]["cpu"], warm.get("cpu"), warm.get("wall")]
            shown = " | ".join("" if s is None else f"{s:.3g}" for s in seconds)
            noise = f"{row['noise']:.3f}" if "noise" in row else ""
            yield (
                head + f"| {shown} | {row['peak_mib']:.0f} | {row['lengthscale']:.3f} | {row['deviation']:.3f} "
                f"| {noise} | {row['evidence'] / row['rows']:.5f} | {row['held_out']:.5f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", type=Path, default=HERE.parent / ".bench" / "env")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rows", nargs="*", type=int, default=[2_000, 10_000, 100_000])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--only", nargs="*", help="contestants, by name")
    parser.add_argument("--cap", type=float, default=600.0, help="seconds of one contestant's two fits")
    parser.add_argument("--fits", type=int, choices=(1, 2), help="for these rows; without it two, one from 10⁵ rows on")
    parser.add_argument("--series", nargs="*", help="series, by name")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    path = options.out / "peers.jsonl"
    if options.table:
        words = "\n\n".join((__doc__ or "").split("\n\n")[0::2])
        text = "\n".join(lines(finished(path)))
        title = "Long time series: comparison with other libraries"
        (options.out / "peers.md").write_text(f"# {title}\n\n{words}\n\n{text}\n")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    done = {(row["contestant"], row["series"], row["rows"], row["seed"]) for row in finished(path)}
    for rows in options.rows:
        for seed in options.seeds:
            for name, contestants in CONTESTANTS.items():
                for contestant, largest in contestants.items():
                    wanted = not options.only or contestant in options.only
                    wanted = wanted and (not options.series or name in options.series)
                    if not wanted or rows > largest or (contestant, name, rows, seed) in done:
                        continue
                    try:
                        fits = options.fits or (1 if rows >= LONG else 2)
                        row = run(contestant, name, rows, seed, options.env, options.cap, fits)
                    except CannotInstall as problem:
                        row = {
                            "contestant": contestant,
                            "series": name,
                            "rows": rows,
                            "seed": seed,
                            "error": str(problem),
                        }
                    with path.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print({k: v for k, v in row.items() if k != "library"}, flush=True)


if __name__ == "__main__":
    main()
