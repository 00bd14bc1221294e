"""The Python on every page runs as it stands, from top to bottom; a block that is not run says why above it."""

import os
import re
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- not run: [^>]+ -->\n)?```python\n(.*?)```", re.DOTALL)


def code(page: Path) -> str:
    return "\n".join(block for skipped, block in BLOCK.findall(page.read_text()) if not skipped)


PAGES = [p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if code(p)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_page_runs(page, tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    exec(compile(code(page), str(page), "exec"), {"__name__": "page"})
    assert os.listdir(tmp_path) == [], "a page must not leave files behind"


def test_links_between_pages_lead_somewhere():
    wrong = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                wrong.append(f"{page.relative_to(ROOT)} → {target}")
    assert not wrong, wrong
