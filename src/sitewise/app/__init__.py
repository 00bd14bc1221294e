"""The `sitewise` command: read tables, fit and compare models, predict, write reports."""

from __future__ import annotations

import importlib.util
import sys

_REQUIRED_PACKAGES = ("typer", "rich", "matplotlib")  # of the extra `app`


def main() -> None:
    """Run the console command `sitewise`; without the extra `app`, print what to install and exit."""
    if any(importlib.util.find_spec(name) is None for name in _REQUIRED_PACKAGES):
        print("error: the command line needs `pip install 'sitewise[app]'`.", file=sys.stderr)
        sys.exit(1)
    from sitewise.app.commands import app

    app()
