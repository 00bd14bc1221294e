"""L0. Where the library may keep files between runs."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(part: str) -> Path:
    """SITEWISE_CACHE, or `sitewise` in the user's cache folder; `part` is the folder in it."""
    base = os.environ.get("SITEWISE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "sitewise"
    )
    return Path(base) / part
