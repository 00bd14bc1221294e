"""The one error class that the library, the application and the packages on top of them share."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the user can put right: its message is one sentence that says what to do."""
