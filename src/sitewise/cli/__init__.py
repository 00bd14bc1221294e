"""L4. The `sitewise` command.  Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    help="Gaussian processes with non-Gaussian likelihoods: choose inference and evidence independently.",
)


@app.callback()
def main() -> None:
    """sitewise"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo.png"),
    cache: Annotated[bool, typer.Option(help="Keep compiled programs for the next run.")] = True,
) -> None:
    """Fit Laplace, EP, VI and the hybrid on scikit-learn's breast-cancer data; print a table, draw a picture."""
    from sitewise.cli.demo import run
    from sitewise.cli.process import own_process, save_or_exit

    own_process(cache)
    save_or_exit(out, run(out.suffix))
