"""`reproduce` and `data`: reproduce the paper, and manage its data sets.  Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitewise.app.process import ends_in_a_sentence


@ends_in_a_sentence
def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            help="Tables (table1, …), figures (fig1, …), protocols, or all; a wrong name lists what there is."
        ),
    ],
    protocol: Annotated[str, typer.Option(help="published, clean, or both with a comma between.")] = "published",
    seeds: Annotated[str, typer.Option(help="Such as 42 or 42,1-9; the paper's if left out.")] = "",
    methods: Annotated[str, typer.Option(help="With commas between; the table's if left out.")] = "",
    sets: Annotated[str, typer.Option(help="With commas between; the table's if left out.")] = "",
    out: Annotated[Path, typer.Option(help="Folder for results.jsonl, tables and figures.")] = Path("out/reproduce"),
    quick: Annotated[bool, typer.Option(help="Minutes instead of hours: fewer sets, folds and grid points.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the data sets; else SITEWISE_DATA.")] = None,
    workers: Annotated[int, typer.Option(help="Processes; 0 is one per core.")] = 0,
    dask: Annotated[str, typer.Option(help="Address of a dask scheduler, tcp://HOST:PORT.")] = "",
    stored: Annotated[bool, typer.Option("--stored", help="Tables of what the store holds; no fits.")] = False,
    together: Annotated[
        bool, typer.Option("--together", help="Seeds, folds and sets of similar size in one program: for a GPU.")
    ] = False,
) -> None:
    """Reproduce the tables and figures of the paper, with the printed numbers beside ours.  Can be resumed."""
    import os

    from sitewise.app.process import own_process
    from sitewise.errors import UserError
    from sitewise_icml2023.options import Options, seed_list
    from sitewise_icml2023.reproduce import WHAT, run

    own_process()
    wanted = list(WHAT) if "all" in what else what
    for name in wanted:
        if name not in WHAT:
            raise UserError(f"Unknown {name!r}; choose from {', '.join(WHAT)}, all.")
    options = Options(
        protocol=_names(protocol), seeds=seed_list(seeds) if seeds else None, methods=_names(methods) or None,
        sets=_names(sets) or None, out=out, quick=quick, data=data, workers=workers or os.cpu_count() or 1,
        dask=dask or None, stored=stored, together=together,
    )  # fmt: skip
    run(wanted, options)


@ends_in_a_sentence
def data(
    action: Annotated[str, typer.Argument(help="list [NAME …], path NAME, fetch [NAME …], or check.")],
    names: Annotated[list[str] | None, typer.Argument(help="Data sets.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--data", help="Folder with the data sets; else SITEWISE_DATA.")
    ] = None,
) -> None:
    """List the paper's data sets, find or fetch their files, check their checksums."""
    from sitewise.errors import UserError
    from sitewise_icml2023.data_sets import check, fetch, show_list, show_path

    if action == "list":
        show_list(names or [], folder)
    elif action == "path" and names:
        show_path(names[0], folder)
    elif action == "fetch":
        fetch(names or [], folder)
    elif action == "check":
        check(names or [], folder)
    else:
        raise UserError("`data` takes list [NAME …], path NAME, fetch [NAME …] or check.")


def main() -> None:
    """The console command `sitewise-icml2023`."""
    app = typer.Typer(no_args_is_help=True, help="The tables, figures and data sets of the ICML 2023 paper.")
    app.command()(reproduce)
    app.command()(data)
    app()


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
