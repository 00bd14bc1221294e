"""L4. Expected problems: their message is one sentence that says what to do, and is all that a user should see."""

from __future__ import annotations


class Problem(ValueError):
    """Something the user can put right."""


class DataError(Problem):
    """A data set could not be found, fetched or trusted."""


class StoreError(Problem):
    """The store cannot be read or written."""
