"""When and by which versions a report was made: the one place that asks for the date, on which no decision depends."""

from __future__ import annotations

import importlib.metadata
import platform
from datetime import datetime
from typing import Any


def made_by() -> dict[str, Any]:
    """The date and the versions."""
    libraries = {name: importlib.metadata.version(name) for name in ("jax", "numpy", "scipy", "scikit-learn")}
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
    return {"date": now, "versions": {"Python": platform.python_version(), **libraries}}
