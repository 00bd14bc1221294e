"""`python -m sitewise` is the command `sitewise`."""

from sitewise.app import main

main()
