"""L4. `sitewise bench`: the paper's comparison on the user's own CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sitewise.bench import csvfile, store, tables, tasks
from sitewise.cli.process import save_or_exit
from sitewise.cli.reproduce import run_tasks


def run(
    path: Path, target: str, methods: Sequence[str], seeds: Sequence[int], out: Path, workers: int, dask: str | None
) -> None:
    """Five folds per seed and method, clean protocol.  The store's folder is named after the file's content, so that
    an edited file never meets old results."""
    console = Console()
    source = csvfile.source(path.resolve(), target)
    record = csvfile.record(source)
    folder = out / f"{record.name}-{target}-{record.sha256[:8]}"
    console.print(f"{path}: {record.rows} rows, {record.features} columns of features, {record.kind}", soft_wrap=True)
    todo = [task._replace(source=source) for task in tasks.suite([record.name], ["clean"], seeds, methods)]
    run_tasks(todo, folder / "results.jsonl", workers, dask, console)
    rows = store.read(folder / "results.jsonl")
    for metric in ("loglik", "accuracy") if record.kind == "classification" else ("loglik",):
        table = tables.build(rows, record.name, metric, "clean", methods, [record.name], seeds)
        for suffix, render in ((".md", tables.markdown), (".tex", tables.latex), (".csv", tables.as_csv)):
            save_or_exit(folder / (metric + suffix), render(table).encode())
        console.print(tables.markdown(table), markup=False, soft_wrap=True)
