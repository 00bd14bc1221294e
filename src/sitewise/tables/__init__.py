"""Tables as people keep them, and the numbers that a model takes: cells, dates, columns, and what must be asked.

`Table` holds columns; `understand` reads text as numbers and dates; `describe` makes a `Recipe`, which turns this table
and later ones into inputs in the same way.  What cannot be decided is a `Problem`; all of them are told at once.
"""

from sitewise.tables.describe import describe
from sitewise.tables.problems import Problem, TableError, explain
from sitewise.tables.reading import Reading, understand
from sitewise.tables.recipe import Recipe
from sitewise.tables.table import Table, listed, table_of

__all__ = [
    "Problem",
    "Reading",
    "Recipe",
    "Table",
    "TableError",
    "describe",
    "explain",
    "listed",
    "table_of",
    "understand",
]
