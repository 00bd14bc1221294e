"""Kill long jobs at random times, and test that no finished work is lost.

python studies/kills.py [--kills 100] [--folder DIR]

fit        `Nested.fit(checkpoint=...)`: after every kill all complete lines of the checkpoint are still there; the
           final evidence equals that of an uninterrupted fit
surface    `sitewise surface`: after every kill all pieces of the journal are still there; the final surfaces are
           exactly those of an uninterrupted run
reproduce  the runner and the store behind the paper's tables, on short tasks (fake_tasks.py in papers/icml2023/tests):
           the runner or one of its workers is killed; the final store equals that of an uninterrupted run

Each run of the first two is a separate process, forked before JAX starts, and ended by SIGKILL or SIGINT after a random
share of the CPU time of an uninterrupted run.
"""

from __future__ import annotations

import os
import tempfile

os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Compiled programs are kept from run to run, or all time would go into compiling them again.
CACHE = tempfile.TemporaryDirectory()
os.environ["SITEWISE_CACHE"] = CACHE.name
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(CACHE.name, "jax")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "papers" / "icml2023" / "tests"))

from sitewise import VI, Data, Model, Nested, evidence, kernels, likelihoods
from sitewise.app.commands import app

COLUMNS, ROWS = 4, 30


class Run:
    """A job in a forked process; its standard output goes to a file."""

    def __init__(self, job: Callable[[], None], folder: Path) -> None:
        self.out, self.status = folder / "stdout", 0
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.chdir(folder)
                os.dup2(os.open(self.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
                os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                job()
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
            except KeyboardInterrupt:
                code = 130
            finally:
                sys.stdout.flush()
                os._exit(code)

    def seconds(self) -> float:
        """Of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def ended(self) -> bool:
        pid, self.status = os.waitpid(self.pid, os.WNOHANG)
        return pid != 0

    def finish(self) -> tuple[str, float]:
        """What an undisturbed run prints, and the processor time it takes."""
        _, self.status, usage = os.wait4(self.pid, 0)
        self._require_success()
        return self.out.read_text(), usage.ru_utime + usage.ru_stime

    def _require_success(self) -> None:
        if self.status:
            raise RuntimeError(f"an undisturbed run failed: {(self.out.parent / 'stderr').read_text()}")

    def kill_after(self, seconds: float, rng: random.Random) -> bool:
        """False if it ended before."""
        while self.seconds() < seconds:
            if self.ended():
                self._require_success()
                return False
            time.sleep(0.005)
        os.kill(self.pid, rng.choice([signal.SIGKILL, signal.SIGINT]))
        for _ in range(6000):
            if self.ended():
                return True
            time.sleep(0.01)
        os.kill(self.pid, signal.SIGKILL)  # SIGINT while XLA compiles is answered late
        os.waitpid(self.pid, 0)
        return True


def fit_job(place: Path) -> Callable[[], None]:
    def job() -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(ROWS, COLUMNS))
        y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=ROWS))
        model = Model.full(kernels.Matern52(np.ones(COLUMNS)), likelihoods.BernoulliProbit())
        learner = Nested(VI(), evidence.elbo, gradient="fixed", bounds={"kernel.*": (0.01, 100.0)})
        fit = learner.fit(model, Data.of(X, y), checkpoint=place)
        print(json.dumps({"value": fit.objective, "converged": fit.converged}))

    return job


def torture_fit(folder: Path, kills: int, rng: random.Random) -> str:
    Run(fit_job(folder / "plain"), folder).finish()  # compiles
    out, longest = Run(fit_job(folder / "plain"), folder).finish()
    truth = json.loads(out)["value"]
    place = folder / "checkpoint"
    found, grown, before = 0, 0, b""
    while found < kills:
        hit = Run(fit_job(place), folder).kill_after(rng.uniform(0.2, 1.0) * longest, rng)
        found += hit
        content = place.read_bytes() if place.exists() else b""
        assert hit or not content, "a finished run leaves no checkpoint behind"
        if content:  # else the fit has finished: the next one begins anew
            assert content.startswith(before), "a line of the checkpoint was lost"
        after = content[: content.rfind(b"\n") + 1]
        grown += len(after) > len(before)
        before = after
    end = json.loads(Run(fit_job(place), folder).finish()[0])
    assert end["converged"] and abs(end["value"] - truth) < 1e-4 * (1 + abs(truth)), (end, truth)
    assert not place.exists()
    return f"fit: {kills} kills, checkpoint grew {grown} times, ended at {end['value']:.6f} (undisturbed {truth:.6f})"


def torture_surface(folder: Path, kills: int, rng: random.Random) -> str:
    rows = [(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(48)]
    lines = [f"{a:.3f},{b:.3f},{'yes' if a + 0.3 * b > 0 else 'no'}" for a, b in rows]
    (folder / "table.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")

    def job(out: str) -> Callable[[], None]:
        words = f"surface table.csv --target label --grid 15 --methods laplace,vi --json --out {out}"
        return lambda: app(words.split())

    Run(job("plain.html"), folder).finish()
    truth, longest = Run(job("plain.html"), folder).finish()
    journal, found, seen, finished = folder / "s.html.unfinished", 0, set(), 0
    while found < kills:
        hit = Run(job("s.html"), folder).kill_after(rng.uniform(0.2, 1.0) * longest, rng)
        found += hit
        report = folder / "s.html"
        if not journal.exists() and report.exists():  # the report was there already, whole, when the kill came
            assert report.read_text().rstrip().endswith("</html>"), "a report is whole or not there"
            finished, seen = finished + 1, set()
            report.unlink()
            continue
        text = journal.read_text() if journal.exists() else ""
        names = {json.loads(line)["name"] for line in text.split("\n")[:-1]}
        assert names >= seen, "a finished piece was lost"
        seen = names
    end, _ = Run(job("s.html"), folder).finish()
    assert json.loads(end)["surfaces"] == json.loads(truth)["surfaces"]
    return f"surface: {kills} kills ({finished} runs had written their report), surfaces equal an undisturbed run's"


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
