"""The code on the how-to page runs as it stands."""

import re
from pathlib import Path

import matplotlib

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "estimators.md"


def test_the_page_runs():
    matplotlib.use("agg")
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    exec(compile(code, str(PAGE), "exec"), {})
