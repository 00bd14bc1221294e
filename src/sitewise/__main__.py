"""`python -m sitewise` is the command `sitewise`."""

from sitewise.cli import app

app()
