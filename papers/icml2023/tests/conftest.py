"""`fake_tasks` and the library's `cases` are imported by name, here and in the processes that the tests start."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[3] / "tests")]
