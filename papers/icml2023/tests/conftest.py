"""`fake_tasks` is imported by its name, here and in the processes that the tests start."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
