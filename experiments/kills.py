"""Kill long jobs at random, again and again, and see that nothing finished is lost.

python experiments/kills.py [--kills 100] [--folder DIR]

fit        `Nested.fit(checkpoint=...)` in a process of its own: after every kill the checkpoint is absent or whole, and
           its value has not fallen; at the end the evidence is that of an undisturbed fit
surface    `sitewise surface`: after every kill all pieces that were in the journal are still there; at the end the
           surfaces are those of an undisturbed run, digit for digit
reproduce  the runner and the store behind `sitewise reproduce`, on tasks that take a moment (tests/fake_tasks.py): the
           runner or one of its workers is killed; at the end the store is that of an undisturbed run

Half of the kills of the first two are SIGKILL, half SIGINT.  The row that is printed for each job goes to
docs/explanation/trust.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
COLUMNS, ROWS = 4, 30

FIT = """
import sys, json, numpy as np
from sitewise import Data, Model, Nested, VI, evidence, kernels, likelihoods
rng = np.random.default_rng(0)
X = rng.normal(size=({rows}, {columns}))
y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size={rows}))
model = Model.full(kernels.Matern52(np.ones({columns})), likelihoods.BernoulliProbit())
fit = Nested(VI(), evidence.elbo, gradient="fixed", bounds={{"kernel.*": (0.01, 100.0)}}).fit(
    model, Data.of(X, y), checkpoint=sys.argv[1]
)
print(json.dumps({{"value": fit.objective, "converged": fit.converged}}))
"""


def environment(folder: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "SITEWISE_CACHE": str(folder / "cache"),
            "JAX_COMPILATION_CACHE_DIR": str(folder / "cache" / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05"}  # fmt: skip


def started(command: list[str], folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def killed(command: list[str], folder: Path, longest: float, rng: random.Random) -> bool:
    """Run for a random time, then kill; False if it ended before."""
    process = started(command, folder)
    try:
        process.wait(timeout=rng.uniform(0.15, 1.0) * longest)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(rng.choice([signal.SIGKILL, signal.SIGINT]))
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:  # SIGINT while XLA compiles is answered late
            process.kill()
            process.wait()
        return True
    finally:
        process.stdout.close()
        process.stderr.close()


def undisturbed(command: list[str], folder: Path) -> tuple[str, float]:
    began = time.monotonic()
    process = started(command, folder)
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(err)
    return out, time.monotonic() - began


def torture_fit(folder: Path, kills: int, rng: random.Random) -> str:
    program = FIT.format(rows=ROWS, columns=COLUMNS)
    plain = [sys.executable, "-c", program, str(folder / "plain")]
    undisturbed(plain, folder)  # compiles
    out, longest = undisturbed(plain, folder)
    truth = json.loads(out)["value"]
    place = folder / "checkpoint"
    command, last, found, resumed = [sys.executable, "-c", program, str(place)], -float("inf"), 0, 0
    while found < kills:
        hit = killed(command, folder, longest, rng)
        found += hit
        if not hit:
            last = -float("inf")  # it finished: the next fit begins anew
        assert not list(folder.glob("*.partial")) or hit, "a finished run leaves nothing behind"
        if place.exists():
            value = json.loads(place.read_text())["value"]
            assert value >= last, f"the checkpoint fell from {last} to {value}"
            resumed += value > last
            last = value
    end = json.loads(undisturbed(command, folder)[0])
    assert end["converged"] and abs(end["value"] - truth) < 1e-4 * (1 + abs(truth)), (end, truth)
    assert not place.exists()
    return f"fit: {kills} kills, checkpoint grew {resumed} times, ended at {end['value']:.6f} (undisturbed {truth:.6f})"


def torture_surface(folder: Path, kills: int, rng: random.Random) -> str:
    rows = [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(48)]
    lines = [f"{a:.3f},{b:.3f},{'yes' if a + 0.3 * b > 0 else 'no'}" for a, b in rows]
    (folder / "table.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")

    def command(out: str) -> list[str]:
        words = f"surface table.csv --target label --grid 25 --methods laplace,vi --json --out {out}"
        return [sys.executable, "-c", "from sitewise.cli import app; app()", *words.split()]

    undisturbed(command("plain.html"), folder)
    truth, longest = undisturbed(command("plain.html"), folder)
    journal, found, seen, finished = folder / "s.html.unfinished", 0, set(), 0
    while found < kills:
        hit = killed(command("s.html"), folder, longest, rng)
        found += hit
        if not hit:
            finished, seen = finished + 1, set()
            continue
        text = journal.read_text() if journal.exists() else ""
        names = {json.loads(line)["name"] for line in text[: text.rfind("\n") + 1].splitlines()}
        assert names >= seen, "a finished piece was lost"
        seen = names
        if (folder / "s.html").exists():
            assert (folder / "s.html").read_text().rstrip().endswith("</html>"), "a report is whole or not there"
    end, _ = undisturbed(command("s.html"), folder)
    assert json.loads(end)["surfaces"] == json.loads(truth)["surfaces"]
    return f"surface: {kills} kills ({finished} runs ended before theirs), surfaces equal those of an undisturbed run"


def torture_reproduce(folder: Path, kills: int, rng: random.Random) -> str:
    import fake_tasks

    hit = fake_tasks.torture(folder, kills=kills, count=10 * kills, seed=rng.randrange(1000))
    same = fake_tasks.rows(folder / "results.jsonl") == fake_tasks.expected(10 * kills)
    assert same, "the store differs from that of an undisturbed run"
    return (
        f"reproduce: {hit['runner']} kills of the runner, {hit['worker']} of workers, store equals an undisturbed one"
    )


JOBS = {"fit": torture_fit, "surface": torture_surface, "reproduce": torture_reproduce}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=tuple(JOBS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        for name, job in JOBS.items():
            if options.only in (None, name):
                folder = (options.folder or Path(temporary)) / name
                folder.mkdir(parents=True, exist_ok=True)
                share = options.kills * 2 // 5 if name == "reproduce" else options.kills * 3 // 10
                print(
                    job(folder, share if options.only is None else options.kills, random.Random(options.seed)),
                    flush=True,
                )


if __name__ == "__main__":
    main()
