"""Measure time series of up to a million counts on an accelerator: accuracy, times per part, a fit.

    python benchmarks/markov_gpu.py --out results/markov/gpu --limit 900

Runs on the device of JAX.  First the traced engine on the device is compared with the host engine on the CPU (short
series); then one value with its exact gradient (VI, EP's evidence) from 10³ to 10⁶ rows; then a hybrid fit of the
longest series.  Every number is printed and written immediately, into laws.json, scaling.json and fit.json of --out;
parts that would begin after --limit seconds are skipped and named.  Seconds are wall-clock seconds: `compile` is the
first call minus the second, `sites` is inference alone from the likelihood's own start, and `gradient` is value and
gradient from converged sites.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from markov_data import REGIMES, simulate

from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, posterior, resolve, value_and_grad
from sitewise.arrays import sweeps
from sitewise.arrays.engine import traced
from sitewise.data import bucket
from sitewise.inference import Inference
from sitewise.learning.problem import Problem
from sitewise.process import device
from sitewise.process.precision import working_precision

PARTS = ("laws", "scaling", "fit")
LAW_ROWS = 300
NAME = "counts, Matérn-3/2"
LAWS = {
    "counts": (kernels.Matern32(0.7, 1.2), likelihoods.Poisson(), VI(), evidence.ep),
    "binary": (kernels.Matern52(0.7, 4.0) + kernels.Constant(0.3), likelihoods.BernoulliLogit(), EP(), evidence.ep),
    "outliers": (
        kernels.Cosine(1.9) * kernels.Matern32(1.1), likelihoods.StudentT(0.3, 4.0), Laplace(), evidence.laplace
    ),
}  # fmt: skip


class Clock:
    """Seconds since the start, and whether there is time for more."""

    def __init__(self, limit: float) -> None:
        self.began, self.limit = time.monotonic(), limit

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def left(self) -> bool:
        return self.seconds < self.limit

    def say(self, words: str) -> None:
        print(f"[{self.seconds:7.1f} s] {words}", flush=True)


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    found = jax.block_until_ready(job())
    return time.monotonic() - began, found


def peak() -> float | None:
    """The most device memory in use so far, GiB, where the device says so."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats["peak_bytes_in_use"] / 2**30 if "peak_bytes_in_use" in stats else None


@contextlib.contextmanager
def as_accelerator(wanted: bool) -> Iterator[None]:
    """The traced engine with its parallel recursions, also on a processor."""
    if not wanted:
        yield
        return
    own = sweeps.on_accelerator
    sweeps.on_accelerator = lambda: True
    try:
        with traced():
            yield
    finally:
        sweeps.on_accelerator = own


def apart(one: Any, other: Any) -> float:
    """The largest difference of two trees' arrays, each in units of the largest entry of the array."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b))) / max(np.max(np.abs(np.asarray(a))), 1e-300))
        for a, b in pairs
    )


def laws(clock: Clock, pretend: bool) -> Iterator[dict]:
    """The traced engine on the device against the host engine: sites, value, gradient, predictions."""
    rng = np.random.default_rng(5)
    for name, (kernel, likelihood, inference, read) in LAWS.items():
        if not clock.left():
            return
        X = rng.uniform(0, LAW_ROWS / 8, (LAW_ROWS, 1))
        X[5:8] = X[40]
        f = 1.2 * np.sin(2 * X[:, 0])
        noise = f + 0.3 * rng.standard_t(3, LAW_ROWS)
        y = {"counts": rng.poisson(np.exp(f)), "binary": np.sign(noise), "outliers": noise}[name].astype(float)
        job = functools.partial(everything, Model.markov(kernel, likelihood), Data.of(X, y), inference, read)
        with device.on_cpu():
            wanted = job()
        with as_accelerator(pretend):
            seconds, found = timed(job)
        parts = {k: apart(a, b) for k, a, b in zip(("value", "gradient", "sites", "f"), wanted, found, strict=True)}
        yield {"likelihood": name, "method": inference.name, "rows": LAW_ROWS, "seconds": seconds, **parts}


def everything(model: Model, data: Data, inference: Inference, read: evidence.Evidence) -> tuple[Any, ...]:
    (value, solution), slopes = value_and_grad(inference, read, has_aux=True)(model, data)
    with working_precision():
        q = posterior(model, data, solution.sites)
        f = q.f(np.linspace(-1, LAW_ROWS / 8 + 1, 50)[:, None])
    return np.asarray(value), jax.tree.leaves(slopes), tuple(solution.sites), f


def model_of(rows: int) -> tuple[Model, Data]:
    series = simulate(REGIMES[NAME], rows, 0, 0)
    return Model.markov(kernels.Matern32(0.5, 0.5), likelihoods.Poisson()), Data.of(series.X, series.y)


def scaling(rows: int) -> dict:
    """Seconds of one evaluation, as the search makes it, and of inference alone."""
    model, data = model_of(rows)
    with working_precision():
        problem = Problem.of(resolve("hybrid"), model, data, size=bucket(rows))
        vector = problem.start
        first, _ = timed(lambda: problem.evaluate(vector, problem.first_sites))
        cold, found = timed(lambda: problem.evaluate(vector, problem.first_sites))
        warm, again = timed(lambda: problem.evaluate(vector, found.solution.sites))
        inference = problem.pair.inference
        first_sites, _ = timed(lambda: inference.solve(problem.model, problem.data, problem.first_sites).sites)
        sites, solution = timed(lambda: inference.solve(problem.model, problem.data, problem.first_sites))
    return {
        "rows": rows, "padded": problem.data.rows, "compile": first - cold, "compile_sites": first_sites - sites,
        "sites": sites, "steps": int(solution.stats.steps), "value_and_gradient": cold, "gradient": warm,
        "steps_of_gradient": int(again.solution.stats.steps), "value": float(found.value),
        "gradient_at_start": np.asarray(found.gradient).tolist(), "outcome": found.solution.outcome.name,
        "peak_gib": peak(),
    }  # fmt: skip


def fit(rows: int, clock: Clock) -> Iterator[dict]:
    """A hybrid fit; one record for each evaluation, and one at the end."""
    model, data = model_of(rows)
    marks = [clock.seconds]

    def callback(entry: Any) -> None:
        marks.append(clock.seconds)
        values = {k: float(v) for k, v in entry.items() if k.startswith("kernel")}
        clock.say(f"evaluation {len(marks) - 1}: {entry['objective']:.6f}, {entry['steps']} steps, {values}")
        if not clock.left():
            raise TimeoutError

    try:
        done = resolve("hybrid").fit(model, data, callback=callback)
    except TimeoutError:
        yield {
            "rows": rows,
            "ended": "the limit",
            "seconds": marks[-1] - marks[0],
            "evaluations": np.diff(marks).tolist(),
        }
        return
    seconds = clock.seconds - marks[0]
    learned = {name: float(value) for name, value in done.parameters.items()}
    record = {
        "rows": rows, "seconds": seconds, "evaluations": np.diff(marks).tolist(), "learned": learned,
        "objective": float(done.objective), "converged": bool(done.converged), "reason": done.reason,
        "rows_a_second": rows / seconds, "peak_gib": peak(),
    }  # fmt: skip
    yield record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which nothing more is begun")
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--pretend", action="store_true", help="on a processor, compute as an accelerator would")
    options = parser.parse_args()
    clock = Clock(options.limit)
    options.out.mkdir(parents=True, exist_ok=True)
    about = {"device": jax.devices()[0].device_kind, "platform": jax.default_backend(), "jax": jax.__version__}
    clock.say(f"{about['device']} ({about['platform']}), jax {about['jax']}")

    def keep(name: str, found: Iterator[dict]) -> None:
        rows: list[dict] = []
        for record in found:
            rows.append(record)
            clock.say(f"{name}: {json.dumps(record)}")
            (options.out / f"{name}.json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")

    def sizes() -> Iterator[dict]:
        for rows in options.sizes:
            if not clock.left():
                clock.say(f"left out: {rows} rows")
                continue
            with as_accelerator(options.pretend):
                yield scaling(rows)

    def largest() -> Iterator[dict]:
        if not clock.left():
            clock.say("left out: the fit")
            return
        with as_accelerator(options.pretend):
            yield from fit(max(options.sizes), clock)

    jobs = {"laws": lambda: laws(clock, options.pretend), "scaling": sizes, "fit": largest}
    for part in options.parts:
        keep(part, jobs[part]())


if __name__ == "__main__":
    main()
