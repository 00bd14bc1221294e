"""Damage the cache of compiled programs in many ways, and use it from many processes at once.

python studies/program_cache.py [--damages 1000] [--processes 8] [--seconds 60]

damages    programs are stored one after another, damaged (truncated, bits changed, zeroed, emptied, exchanged, replaced
           by a folder, a link, a pipe or a foreign pickle) and requested again; from time to time all files of a real
           fit are damaged at once
processes  several processes share a cache that is too small for their programs, request programs at random, and damage
           and remove each other's files; one of them is killed every two seconds

Every program is compared with NumPy, every fit with an uninterrupted one.  Prints counts; ends with an error at the
first wrong number or exception.  Takes less than five minutes on two cores.
"""

from __future__ import annotations

import os
import tempfile

CACHE = tempfile.TemporaryDirectory()
os.environ.setdefault("SITEWISE_CACHE", CACHE.name)  # processes that are started from here inherit it
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import argparse
import collections
import contextlib
import itertools
import multiprocessing
import pickle
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import GPClassifier
from sitewise.arrays import program_store, programs, rowwise
from sitewise.arrays.program_names import name_of_parts

PROGRAMS = 24
SHAPES = ((4, 3),)
A = np.linspace(-1, 1, 12).reshape(SHAPES[0])
SMALL = 10 * 40_000  # bytes that several processes may store: less than half of what they need


def forget() -> None:
    """As a new process: nothing in memory."""
    programs._memory.renew()
    rowwise._known.clear()


def ask(number: int) -> bool:
    """Whether program `number` is right: the Cholesky factor of a matrix, and its exponential."""

    def function(a: jax.Array) -> tuple[jax.Array, ...]:
        gram = a @ a.T + number * jnp.eye(4)
        return jnp.linalg.cholesky(gram), jnp.exp(a - number)

    pending = programs.Pending(function, SHAPES, lambda: number)
    with jax.enable_x64(True):
        program = programs.get(number, lambda: pending, lambda: ("study", number))
        factor, exponential = program.call(A)
    gram = A @ A.T + number * np.eye(4)
    near = np.allclose(factor, np.linalg.cholesky(gram), rtol=1e-12, atol=1e-14)
    return bool(near and np.allclose(exponential, np.exp(A - number), rtol=1e-12)) and program.note == number


class Compilations:
    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, *_: Any, **__: Any) -> None:
        self.count += event.endswith("backend_compile_duration")


def folder() -> Path:
    place = program_store.folder()
    assert place is not None
    return place


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def change_bits(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 10))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def zero(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))
    length = min(rng.choice((1, 512, 4096)), len(content) - at)
    content[at : at + length] = bytes(length)
    path.write_bytes(content)


def lengthen(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 100)))


def exchange(path: Path, rng: random.Random) -> None:
    others = [other for other in path.parent.iterdir() if other.is_file() and other != path]
    shutil.copy(rng.choice(others), path)


def anybodys_pickle(path: Path, rng: random.Random) -> None:
    path.write_bytes(pickle.dumps({"weights": [rng.random()]}))


def into_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def into_link(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice(("/nowhere", "/dev/zero", str(path))))


def into_pipe(path: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def remove(path: Path, rng: random.Random) -> None:
    path.unlink()


IN_PLACE = (cut, change_bits, zero, lengthen, exchange, anybodys_pickle, remove)
DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (*IN_PLACE, into_folder, into_link, into_pipe)


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def fit() -> bytes:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    return GPClassifier().fit(X, X[:, 0] + 0.3 * rng.normal(size=30) > 0).predict_proba(X).tobytes()


def damage(count: int, seed: int) -> None:
    rng, compilations, tally = random.Random(seed), Compilations(), collections.Counter[str]()
    expected = fit()
    for turn in range(count):
        if turn % 100 == 99:  # a real fit
            for path in list(folder().iterdir()):
                if path.is_file():
                    rng.choice(IN_PLACE)(path, rng)
            forget()
            assert fit() == expected, "a fit has changed"
            tally["fits with all files damaged"] += 1
        number = rng.randrange(PROGRAMS)
        with jax.enable_x64(True):
            path = folder() / str(name_of_parts(("study", number), SHAPES))
        forget()
        assert ask(number)
        forget()
        compiled = compilations.count
        assert ask(number), "a stored program is wrong"
        assert compilations.count == compiled and path.is_file(), "a whole file was not used"
        how = rng.choice(DAMAGES)
        how(path, rng)
        forget()
        assert ask(number), f"wrong after {how.__name__}"
        tally[how.__name__] += 1
        tally["compiled again"] += compilations.count > compiled
        if not path.is_file() or path.is_symlink():
            clear(path)
    print(f"damages: {count}, wrong numbers 0, exceptions 0; " + ", ".join(f"{k} {v}" for k, v in tally.items()))


def work(seed: int, stop: float, results: Any) -> None:
    """Ask for programs, and damage files, until the time is over; send counts every ten questions."""
    program_store._MAX_BYTES = SMALL
    rng, compilations = random.Random(seed), Compilations()
    while time.time() < stop:
        damaged, before = 0, compilations.count
        for _ in range(10):
            forget()
            assert ask(rng.randrange(PROGRAMS)), "a program is wrong"
            if rng.random() < 0.3:
                try:
                    rng.choice(IN_PLACE)(rng.choice(list(folder().iterdir())), rng)
                    damaged += 1
                except (OSError, IndexError, ValueError):  # another process was faster
                    pass
        results.send((10, compilations.count - before, damaged))


class Worker:
    """A process, with a pipe of its own: a lock that it held when it was killed would stop all others."""

    def __init__(self, seed: int, stop: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._results, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=work, args=(seed, stop, theirs))
        self.process.start()
        theirs.close()

    def collect(self) -> np.ndarray:
        """How many programs it has asked for and compiled and how many files it has damaged since the last time."""
        total = np.zeros(3, int)
        try:
            while self._results.poll():
                total += self._results.recv()
        except EOFError:
            pass
        return total


def share(count: int, seconds: float, seed: int) -> None:
    rng, seeds, stop = random.Random(seed), itertools.count(1000 * seed), time.time() + seconds
    workers, killed, largest, total = [Worker(next(seeds), stop) for _ in range(count)], 0, 0, np.zeros(3, int)
    while time.time() < stop:
        time.sleep(0.2)
        total += sum(worker.collect() for worker in workers)
        with contextlib.suppress(FileNotFoundError):  # removed in between
            largest = max(largest, sum(path.stat().st_size for path in folder().iterdir()))
        if total[0] and rng.random() < 0.1:
            victim = rng.randrange(count)
            workers[victim].process.kill()
            workers[victim].process.join()
            total += workers[victim].collect()
            workers[victim] = Worker(next(seeds), stop)
            killed += 1
    for worker in workers:
        worker.process.join(60)
        assert worker.process.exitcode == 0, f"a process ended with {worker.process.exitcode}"
        total += worker.collect()
    asked, compiled, damaged = total
    print(
        f"processes: {count} for {seconds:g} s; asked {asked}, wrong numbers 0, exceptions 0, compiled {compiled}, "
        f"files damaged by each other {damaged}, processes killed {killed}; the folder held at most "
        f"{largest / 1e6:.2f} MB (limit {SMALL / 1e6:g} MB)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    damage(options.damages, options.seed)
    for path in list(folder().iterdir()):
        clear(path)
    share(options.processes, options.seconds, options.seed)


if __name__ == "__main__":
    main()
