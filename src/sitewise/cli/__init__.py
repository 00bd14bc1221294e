"""L4. The `sitewise` command.  Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sitewise.cli import certificate, compare, experiments, fit, predict, surface
from sitewise.cli.process import ends_in_a_sentence

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    help="Gaussian processes with non-Gaussian likelihoods: choose inference and evidence independently.",
)


def _show_version(asked: bool) -> None:
    if asked:
        from sitewise import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """sitewise"""


@app.command()
@ends_in_a_sentence
def demo(
    out: Annotated[Path, typer.Option(help="Where the picture goes; the report goes beside it.")] = Path(
        "out/demo.png"
    ),
    cache: Annotated[bool, typer.Option(help="Keep compiled programs for the next run.")] = True,
) -> None:
    """Fit Laplace, EP, VI and the hybrid on scikit-learn's breast-cancer data; print a table, leave a report."""
    from sitewise.cli.demo import run
    from sitewise.cli.process import check_writable, own_process, save_or_exit

    check_writable(out)
    own_process(cache)
    shown = run(out.suffix)
    save_or_exit(out, shown.picture)
    save_or_exit(out.with_suffix(".html"), shown.report)


app.command()(fit.fit)
app.command()(predict.predict)
app.command()(compare.compare)
app.command()(surface.surface)
app.command()(certificate.certificate)
app.command()(experiments.reproduce)
app.command()(experiments.bench)
app.command()(experiments.data)
