"""The application: tables, columns, comparison, reports and the `sitewise` command, on top of the library."""

from __future__ import annotations

import importlib.util
import sys

_NEEDED = ("typer", "rich", "matplotlib")  # the extra `app`


def main() -> None:
    """Run the console command `sitewise`; without the extra `app` it ends with one sentence."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        print("error: the command line needs `pip install 'sitewise[app]'`.", file=sys.stderr)
        sys.exit(1)
    from sitewise.app.commands import app

    app()
