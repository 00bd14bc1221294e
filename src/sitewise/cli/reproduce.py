"""L4. `sitewise reproduce`: the paper's tables and figures."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sitewise.bench import paper, protocols, runner, sources, store, suites, tables, tasks
from sitewise.bench.problems import Problem
from sitewise.cache import user_cache
from sitewise.cli.process import save_or_exit

TABLES = ("table1", "table2", "table3", "table-ard", "table-ep-init")
FIGURES = ("fig1", "fig2", "fig3", "fig4", "fig5", "figs-surfaces")
# How near the means of our log densities should come to the printed ones.
LIMITS = {"laplace": 0.003, "vi": 0.005, "hybrid-vem": 0.01}
WHAT = (*TABLES, *FIGURES, "protocols")


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line said; None where it said nothing."""

    protocol: tuple[str, ...]
    seeds: tuple[int, ...] | None
    methods: tuple[str, ...] | None
    sets: tuple[str, ...] | None
    out: Path
    quick: bool
    data: Path | None
    workers: int
    dask: str | None
    stored: bool = False
    together: bool = False

    @property
    def store(self) -> Path:
        """One store for all tables: what they share runs once."""
        return self.out / "results.jsonl"


def run(what: Sequence[str], options: Options) -> None:
    console = Console()
    for name in what:
        if name in TABLES:
            make_table(name, options, console)
        elif name == "protocols":
            compare_protocols(options, console)
        else:
            make_figure(name, options, console)


def seed_list(text: str) -> tuple[int, ...]:
    """Seeds from text such as 42 or 42,1-9."""
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise Problem(f"--seeds takes numbers and ranges such as 42,1-9; got {text!r}.")
        out += range(int(first), int(last or first) + 1)
    return tuple(out)


def chosen_suite(name: str, options: Options) -> suites.Suite:
    suite = suites.suites()[name]
    if options.sets:
        suite = dataclasses.replace(suite, sets=options.sets)
    if options.quick:
        suite = suite.quick()
    changes = {key: value for key in ("seeds", "methods") if (value := getattr(options, key))}
    return dataclasses.replace(suite, **changes)


def stored_rows(suite: suites.Suite, options: Options, console: Console) -> list[dict]:
    """The rows of the store, after the tasks that it lacks have run."""
    todo = tasks.suite(suite.sets, options.protocol, suite.seeds, suite.methods, options.data, suite.folds)
    if not options.stored:
        fetch_sets({task.set for task in todo}, options, console)
        run_tasks(todo, options.store, options.workers, options.dask, console, options.together)
    return store.read(options.store)


def make_table(name: str, options: Options, console: Console) -> None:
    """The table as .md, .tex and .csv, once per protocol and metric; that of one seed has a name of its own."""
    suite = chosen_suite(name, options)
    rows = stored_rows(suite, options, console)
    reference = suite.reference(suite.seeds)
    for rules in options.protocol:
        for metric in suite.metrics:
            built = tables.build(rows, name, metric, rules, suite.methods, suite.sets, suite.seeds, reference)
            stem = f"{reference or name}-{rules}-{metric}"
            for suffix, render in ((".md", tables.markdown), (".tex", tables.latex), (".csv", tables.as_csv)):
                save_or_exit(options.out / (stem + suffix), render(built).encode())
            console.print(tables.markdown(built), markup=False, soft_wrap=True)
    if name == "table1":
        draw_fig4(options, suite, rows)
        if "published" in options.protocol:
            text = tables.agreement(rows, reference or name, LIMITS, suite.seeds)
            save_or_exit(options.out / f"{reference or name}-agreement.md", text.encode())


def compare_protocols(options: Options, console: Console) -> None:
    """Table 1 under both protocols, side by side, with what the row number alone achieves."""
    from sitewise.bench import contrast

    both = dataclasses.replace(options, protocol=("published", "clean"), seeds=options.seeds or (42,))
    suite = chosen_suite("table1", both)
    rows = stored_rows(suite, both, console)
    sets = suite.sets if options.quick or options.sets else (*suite.sets, *suites.suites()["table3"].sets)
    fetch_sets(set(sets), both, console)  # the row number is read off the files
    text = contrast.markdown(rows, suite.methods, sets, suite.seeds, options.data)
    save_or_exit(options.out / "protocols.md", text.encode())
    console.print(text, markup=False, soft_wrap=True)


def fetch_sets(names: set[str], options: Options, console: Console) -> None:
    """Have every data file on this machine before any worker starts."""
    wanted = {protocols.protocol(rules).replace.get(name, name) for rules in options.protocol for name in names}
    with bars(console) as progress:
        for name in sorted(wanted):
            find_shown(name, options.data, progress)


def find_shown(name: str, data: Path | None, progress: Progress) -> Path:
    """The set's file, with a bar while it is downloaded."""
    bar = progress.add_task(f"data: {name}", total=None)
    try:
        return sources.find(name, data, lambda got, total: progress.update(bar, completed=got, total=total))
    finally:
        progress.remove_task(bar)


def bars(console: Console) -> Progress:
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True)


def run_tasks(
    todo: Sequence[tasks.Task], path: Path, workers: int, dask: str | None, console: Console, together: bool = False
) -> None:
    """Bring the store up to date with a progress bar; tasks that are in it already do not run."""
    box = store.Store(path)
    done = box.done()
    box.close()
    missing = sum(task.key not in done for task in todo)
    console.print(f"{len(todo)} tasks, {len(todo) - missing} of them in {path} already.", soft_wrap=True)
    if not missing:
        return
    with bars(console) as progress:
        bar = progress.add_task("fits", total=missing)

        def report(state: runner.Progress) -> None:
            last = " ".join(map(str, state.last.key))
            failed = f", {state.failed} failed" if state.failed else ""
            progress.update(bar, completed=state.done, description=f"fits{failed}: {last}")

        if together:
            end = runner.run_together(todo, path, report=report)
        else:
            executor = _executor(dask, min(workers, missing))
            try:
                end = runner.run(todo, path, executor, report=report)
            finally:
                executor.close()
    if end is not None and end.failed:
        console.print(
            f"{end.failed} tasks failed; {path} holds their errors, and the same command tries them again.",
            soft_wrap=True,
        )


def _executor(dask: str | None, workers: int) -> runner.Executor:
    if dask:
        from sitewise.bench.cluster import Cluster

        return Cluster(tasks.run, dask)
    from sitewise.bench.pool import Pool

    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(user_cache("jax"))
    return Pool(tasks.run, workers, {"JAX_COMPILATION_CACHE_DIR": cache})


def save_figure(figure, stem: Path, numbers: dict[str, np.ndarray]) -> None:
    """PNG, PDF and the arrays behind them."""
    for suffix in (".png", ".pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], dpi=130)
        save_or_exit(stem.with_name(stem.name + suffix), buffer.getvalue())
    buffer = io.BytesIO()
    np.savez(buffer, **numbers)  # type: ignore[arg-type]
    save_or_exit(stem.with_name(stem.name + ".npz"), buffer.getvalue())


def draw_fig4(options: Options, suite: suites.Suite, rows: Sequence[dict]) -> None:
    from sitewise.bench.figures import fig4

    for rules in options.protocol:
        numbers = fig4.compute(rows, rules, suite.methods, suite.sets, suite.seeds)
        title = f"protocol {rules}, seeds {', '.join(map(str, suite.seeds))}"
        save_figure(
            fig4.draw(numbers, title), options.out / f"fig4{'-seed42' * (suite.seeds == (42,))}-{rules}", numbers
        )


def make_figure(name: str, options: Options, console: Console) -> None:
    if name == "fig4":
        make_table("table1", options, console)
        return
    with console.status(f"{name} …") as status:
        tell: Callable[[str], None] = lambda text: status.update(f"{name}: {text}")  # noqa: E731
        if name == "fig1":
            from sitewise.bench.figures import fig1

            numbers = fig1.compute(options.data, mcmc=not options.quick, store=options.out / "fig1.parts", done=tell)
            figure = fig1.draw(numbers)
            report_fig1(numbers, console)
        elif name == "fig3":
            from sitewise.bench.figures import fig3

            numbers = fig3.compute(options.data, 7 if options.quick else 21, done=tell)
            figure = fig3.draw(numbers)
        elif name == "fig5":
            from sitewise.bench.figures import fig5

            # Quick: the climb only; the objective falls much later.
            rounds, points = (60, 9) if options.quick else (1200, 21)
            numbers = fig5.compute(options.data, rounds, points, done=tell)
            figure = fig5.draw(numbers)
        else:
            make_surfaces(name, options, tell)
            return
    save_figure(figure, options.out / name, numbers)


def make_surfaces(name: str, options: Options, tell: Callable[[str], None]) -> None:
    """Figs. 2 and 6–9; a quick run leaves MCMC out."""
    from sitewise.bench.figures import surfaces

    chosen = options.sets or (("ionosphere",) if name == "fig2" or options.quick else surfaces.SETS)
    grid = surfaces.square(9 if options.quick else 21)
    for data_set in chosen:
        fold = surfaces.rows(data_set, options.data)
        out = surfaces.approximate(fold, grid.vectors, done=lambda count: tell(f"{data_set}: {count} points"))  # noqa: B023
        if not options.quick:
            parts = options.out / f"surface-{data_set}.parts"
            gold = surfaces.gold(fold, grid.vectors, store=parts, done=tell)
            out |= {f"mcmc_{key}": value for key, value in gold._asdict().items()}
        numbers = {**out, **grid._asdict(), "rows": np.array(len(fold.y))}
        save_figure(surfaces.draw(data_set, out, grid, len(fold.y)), options.out / f"surface-{data_set}", numbers)


def report_fig1(numbers: dict[str, np.ndarray], console: Console) -> None:
    printed = paper.fig1()["evidence"]
    if len(numbers["log_lengthscale"]) != len(printed["vi"]):
        return
    names = [m for m in ("vi", "hybrid", "mcmc") if f"{m}_evidence" in numbers]
    for method in names:
        gap = np.max(np.abs(numbers[f"{method}_evidence"] - np.array(printed[method])))
        console.print(f"{method}: largest difference from the printed curve {gap:.4f} per row")
    best = {
        m: numbers["log_lengthscale"][np.argmax(numbers[f"{m}_evidence"])] for m in ("laplace", "ep", "vi", "hybrid")
    }
    console.print("best log ℓ: " + ", ".join(f"{m} {x:.1f}" for m, x in best.items()) + "; MCMC in the paper 2.6")
