"""The `sitewise` command.  Heavy imports wait until a command runs.

Other packages add commands by entry points of the group `sitewise.commands`, from the name of the command to a
function for typer.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated

import typer

from sitewise.app.commands import bug_info, certify, compare, demo, draw_surface, fit_model, model_formula, predict_rows
from sitewise.app.process import ends_in_a_sentence, note
from sitewise.errors import UserError

GROUP = "sitewise.commands"


def build() -> typer.Typer:
    """Return the application: the commands of this package, then the commands that installed packages add."""
    app = typer.Typer(
        add_completion=True,
        no_args_is_help=True,
        help="Gaussian processes with non-Gaussian likelihoods: choose inference and evidence independently.",
    )
    app.callback()(_version)
    own: dict[str, Callable[..., None]] = {
        "demo": demo.demo, "fit": fit_model.fit, "predict": predict_rows.predict, "compare": compare.compare,
        "model": model_formula.model,
        "surface": draw_surface.surface, "certificate": certify.certificate, "info": bug_info.info,
    }  # fmt: skip
    for name, command in own.items():
        app.command(name)(command)
    taken = set(own)
    for entry in entry_points(group=GROUP):
        if entry.name in taken:
            continue
        try:
            app.command(entry.name)(entry.load())
        except Exception as problem:  # a broken package must not disable the other commands
            note(f"the command {entry.name!r} cannot be loaded ({problem}); install {entry.value.split('.')[0]} again.")
        else:
            taken.add(entry.name)
    if "reproduce" not in taken:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command("reproduce", context_settings=anything)(_reproduce)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        import platform

        from sitewise import __version__
        from sitewise.app.report.page import date_and_versions

        versions = {"sitewise": __version__, **date_and_versions()["versions"]}
        print(", ".join(f"{name} {version}" for name, version in versions.items()) + f"; {platform.platform()}")
        raise typer.Exit


def _version(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print versions and platform, and exit."),
    ] = False,
) -> None:
    """sitewise"""


@ends_in_a_sentence
def _reproduce() -> None:
    """Reproduce the tables and figures of the paper.  Needs the package sitewise-icml2023."""
    raise UserError(
        "the paper's experiments are a separate package; run `pip install ./papers/icml2023` in a checkout of sitewise."
    )


app = build()
