"""The code on the how-to pages runs as it stands."""

import re
from pathlib import Path

import matplotlib
import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("page", ["estimators.md", "robust-regression.md", "write-a-likelihood.md"])
def test_the_page_runs(page):
    matplotlib.use("agg")
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL))
    exec(compile(code, page, "exec"), {"__name__": "page"})
