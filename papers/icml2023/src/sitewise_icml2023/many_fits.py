"""Train many models of one form: on an accelerator in one compiled program, on a CPU one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise import VEM, Data, Model, Nested
from sitewise.arrays import programs
from sitewise.data import bucket
from sitewise.learning.checkpoint import Start
from sitewise.learning.finish import finish
from sitewise.learning.fit import Fit
from sitewise.learning.objective import Evaluation, Objective, profile
from sitewise.learning.problem import Problem
from sitewise.learning.schedule import Schedule, Stage
from sitewise.learning.search import Answer, Best, Request, Trace, ascend, search
from sitewise.learning.vem import Round, Run, State, one_round
from sitewise.model import check
from sitewise.process import memory
from sitewise.process.device import on_accelerator
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

Done = Callable[[int], None]
Ascent = Generator[Request, Answer, Best]
Evaluate = Callable[[Model, Data, jax.Array, Sites], Evaluation]  # every argument has a leading axis


def fit_many(
    learner: Nested | VEM, models: Model | Sequence[Model], parts: Sequence[Data], done: Done | None = None
) -> list[Fit]:
    """Train on each part (folds, resamples, outputs); every part has its own hyperparameters.

    `models` is one model for all parts, or one model per part (for example with inducing inputs of its own).  Each part
    follows the path of `learner.fit`, for `Nested` without coarse stages and with least_gain=0.  A round costs as much
    as its slowest part.  `done` is called with the number of parts that have ended.
    """
    each = one_model_per_part(models, parts)
    if not each:
        return []
    with working_precision():
        size = bucket(max(part.rows for part in parts))
        if isinstance(learner, VEM):
            return _fit_vem(learner, each, parts, size, done)
        return _fit_nested(learner, each, parts, size, done)


def one_model_per_part(models: Model | Sequence[Model], parts: Sequence[Data]) -> list[Model]:
    """Return a list with one model per part, all of one form."""
    each = list(models) if isinstance(models, Sequence) else [models] * len(parts)
    if len(each) != len(parts):
        raise ValueError(f"Got {len(each)} models for {len(parts)} parts; give one model, or one model per part.")
    for model, part in zip(each, parts, strict=True):
        check(model, part)
    if len({(jax.tree.structure(m), *map(np.shape, jax.tree.leaves(m))) for m in each}) > 1:
        raise ValueError("fit_many needs models of one form: the same parts, with as many inducing inputs each.")
    return each


def stack(trees: Sequence[Any]) -> Any:
    """Stack trees of one shape along a new leading axis, on the host, and move the result to the device at once."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])), *trees)


def _fit_nested(learner: Nested, models: list[Model], parts: Sequence[Data], size: int, done: Done | None) -> list[Fit]:
    """Nested learning of every part, each by one search."""
    if learner.restarts:
        raise ValueError("fit_many starts every part once; set restarts=0.")
    for model in models:
        if model.prior.dense:
            memory.require_full(size, model.likelihood.latents)
    problems = [Problem.of(learner, model, part, size=size) for model, part in zip(models, parts, strict=True)]
    traces = [Trace() for _ in problems]
    if all(problem.on_host for problem in problems):  # a batch gains nothing there
        bests = []
        for problem, trace in zip(problems, traces, strict=True):
            bests.append(search(problem, Start(problem.start), trace))
            if done is not None:
                done(len(bests))
    else:
        bests = _run_together(
            [ascend(problem, Start(problem.start), trace) for problem, trace in zip(problems, traces, strict=True)],
            [problem.model for problem in problems],
            [problem.data for problem in problems],
            functools.partial(_profiles, problems[0].objective),
            done,
        )
    once = Schedule((Stage(),))
    each = zip(problems, bests, parts, traces, strict=True)
    return [finish(problem, best, [], part, once, trace) for problem, best, part, trace in each]


@functools.partial(programs.jit, static_argnums=0)
def _profiles(objective: Objective, models: Model, data: Data, vectors: jax.Array, sites: Sites) -> Evaluation:
    """Evaluate `profile` for many models and data sets of one shape, each at its own θ, from its own sites.

    They run in one batch on an accelerator, and one after the other on a CPU: factorisations in a batch can wait for
    each other in XLA's threads for ever (jaxlib 0.10.2).
    """
    one = functools.partial(profile, objective)
    if on_accelerator():
        return jax.vmap(one)(models, data, vectors, sites)
    return lax.map(lambda each: one(*each), (models, data, vectors, sites))


def _run_together(
    ascents: list[Ascent], models: list[Model], data: list[Data], evaluate: Evaluate, done: Done | None
) -> list[Best]:
    """Answer the requests of all ascents by one mapped evaluation per round.

    When a quarter of the ascents is left, the batch shrinks to a quarter, once: every further size costs a compilation.
    """
    requests = {i: next(ascent) for i, ascent in enumerate(ascents)}
    bests: dict[int, Best] = {}
    lanes = list(requests)
    stacked = stack([models[i] for i in lanes]), stack([data[i] for i in lanes])
    asked = dict(requests)  # a lane whose ascent has ended repeats its last request
    while requests:
        if len(requests) <= len(ascents) // 4 < len(lanes):
            lanes = [*requests, *[next(iter(requests))] * (len(ascents) // 4 - len(requests))]
            stacked = stack([models[i] for i in lanes]), stack([data[i] for i in lanes])
        asked.update(requests)
        vectors, sites = (stack(part) for part in zip(*(asked[i] for i in lanes), strict=True))
        answers = jax.tree.map(np.asarray, evaluate(*stacked, vectors, sites))
        for lane, i in enumerate(lanes):
            if i not in requests or lanes.index(i) != lane:
                continue
            try:
                requests[i] = ascents[i].send((jax.tree.map(lambda leaf: leaf[lane], answers), False))  # noqa: B023
            except StopIteration as end:
                bests[i] = end.value
                del requests[i]
                if done is not None:
                    done(len(bests))
    return [bests[i] for i in range(len(ascents))]


def _fit_vem(learner: VEM, models: list[Model], parts: Sequence[Data], size: int, done: Done | None) -> list[Fit]:
    """Algorithm 1 for every part; a part that has ended waits for the other parts."""
    runs = [Run(learner, model, part, size, None) for model, part in zip(models, parts, strict=True)]
    stacked = stack(models), stack([run.data for run in runs])
    states, ended = stack([run.state for run in runs]), 0
    while any(run.running for run in runs):
        running = np.array([run.running for run in runs])
        new, *found = _rounds(learner, *stacked, states, running)
        found = jax.tree.map(np.asarray, found)
        kept = [run.running and run.keeps(*jax.tree.map(lambda a: a[i], found))  # noqa: B023
                for i, run in enumerate(runs)]  # fmt: skip
        states = _chosen(jnp.asarray(kept), new, states)
        for _ in range(sum(running) - sum(run.running for run in runs)):
            ended += 1
            if done is not None:
                done(ended)
    for i, run in enumerate(runs):
        run.state = jax.tree.map(lambda a: a[i], states)  # noqa: B023
    return [learner.finish(run) for run in runs]


@functools.partial(programs.jit, static_argnums=0)
def _rounds(learner: VEM, models: Model, data: Data, states: State, running: jax.Array) -> Round:
    """Compute a round of the parts that are running: in one batch on an accelerator, else one after the other (see
    `_profiles`)."""

    def one(model: Model, data: Data, state: State, running: jax.Array) -> Round:
        def step() -> Round:
            return one_round(learner, model, data, state)

        def wait() -> Round:
            nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(step)[1:])
            return state, *nothing

        return lax.cond(running, step, wait)

    if on_accelerator():
        return jax.vmap(one)(models, data, states, running)
    return lax.map(lambda each: one(*each), (models, data, states, running))


@programs.jit
def _chosen(kept: jax.Array, new: State, old: State) -> State:
    """Take the new states of the parts that keep them, else the old states."""
    return jax.tree.map(lambda a, b: jnp.where(kept.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)
