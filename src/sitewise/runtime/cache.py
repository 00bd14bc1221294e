"""Where the library may keep files between runs."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(part: str) -> Path:
    """The folder `part` of SITEWISE_CACHE or, if that is not set, of `sitewise` in the user's cache folder."""
    base = os.environ.get("SITEWISE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "sitewise"
    )
    return Path(base) / part
