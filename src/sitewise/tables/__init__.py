"""Encode tables with numbers, dates and categories as the numeric inputs of a model.

`Table` holds columns; `understand` parses strings as numbers and dates; `describe` makes a `Recipe`, which encodes this
table and later tables in the same way.  A question that only the user can answer is a `Problem`; one error lists all
problems of a table.
"""

from sitewise.tables.describe import describe
from sitewise.tables.problems import Problem, TableError, explain
from sitewise.tables.reading import understand
from sitewise.tables.recipe import Recipe
from sitewise.tables.table import Reading, Table, listed, table_of

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
