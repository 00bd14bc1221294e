"""Error class for mistakes of the user, shared by the library, the application and packages that build on them."""

from __future__ import annotations


class UserError(ValueError):
    """An error that the user can correct; its message is one sentence that says what to do."""
