"""Modules that the tests share, such as `cases`, are imported by their name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
