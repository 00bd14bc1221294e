"""The Python on every page runs from top to bottom, cells of the tutorials included; links and named paths exist.

`make docs` executes the tutorials again in Jupyter, to show what they print and plot; here no Jupyter is needed.
"""

from __future__ import annotations

import os
import re
import runpy
import warnings
from collections.abc import Iterator
from pathlib import Path

import jax
import matplotlib
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
GALLERY = ROOT / "docs" / "gallery.md"
TUTORIALS = [GALLERY, *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
BLOCK = re.compile(
    r"^(<!-- not run: [^>]+ -->\n)?```(python|\{code-cell\} python)\n((?::[^\n]*\n)*)(.*?)^```",
    re.DOTALL | re.MULTILINE,
)
# Paths of the repository as pages name them; capital letters, braces and a folder `a` stand for any name.
NAMED = re.compile(r"`((?:src|papers|studies|tests|benchmarks|docs|results)/[a-z0-9_./-]+)`")


def code(page: Path) -> str:
    """All blocks that are to be run, in the order of the page."""
    return "\n".join(block for skipped, _, _, block in BLOCK.findall(page.read_text()) if not skipped)


@pytest.fixture
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, figures that are not shown, and JAX's precision as it was."""
    from matplotlib import pyplot

    matplotlib.use("agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    monkeypatch.chdir(tmp_path)
    double = jax.config.read("jax_enable_x64")
    yield tmp_path
    jax.config.update("jax_enable_x64", double)
    pyplot.close("all")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[] if p.name == "README.md" else pytest.mark.slow) for p in PAGES if code(p)],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_the_page_runs(page: Path, own_settings: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(code(page), str(page), "exec"), {"__name__": "page"})
    said = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    assert page not in TUTORIALS or said == []
    assert os.listdir(own_settings) == [], "a page must not leave files behind"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_is_executed_by_the_site_and_has_a_figure(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n"), "MyST-NB needs these lines"
    plain = [block for skipped, kind, _, block in BLOCK.findall(text) if kind == "python" and not skipped]
    assert not plain, "a python block is not executed by the site: write {code-cell} python"
    assert "plt.show()" in code(page)


def test_a_problem_of_the_gallery_is_one_short_cell_with_a_figure() -> None:
    _, *problems = re.split(r"^## ", GALLERY.read_text(), flags=re.MULTILINE)
    assert len(problems) == 12
    for problem in problems:
        (cell,) = (block.strip() for _, _, tags, block in BLOCK.findall(problem) if "hide-input" not in tags)
        assert len(cell.splitlines()) <= 27 and cell.endswith("plt.show()"), problem.splitlines()[0]


def test_every_problem_of_the_gallery_has_a_thumbnail_that_links_to_it() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "figures" / "gallery.py"))
    titles = re.findall(r"^## (.+)", GALLERY.read_text(), flags=re.MULTILINE)
    cards = script["CARD"].findall(GALLERY.read_text())
    assert [target for _, target in cards] == [script["anchor"](title) for title in titles]
    stored = {path.stem: path.stat().st_size for path in (ROOT / "docs" / "figures" / "gallery").glob("*.png")}
    assert set(stored) == {name for name, _ in cards}
    assert max(stored.values()) < 30_000


def test_the_comparison_with_catboost_is_the_stored_one() -> None:
    script = runpy.run_path(str(ROOT / "studies" / "diabetes_catboost.py"))
    assert script["table"]() in (ROOT / "docs" / "tutorials" / "real-table.md").read_text()


def titles(page: Path) -> list[str]:
    """The anchors of the headings of a page, as GitHub and MyST write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one) for one in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)]
    return [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in found]


def test_links_between_pages_lead_somewhere() -> None:
    wrong = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "results").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)\s]+)", page.read_text()):
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            if "://" not in target and not (path.exists() and (not anchor or anchor in titles(path))):
                wrong.append(f"{page.relative_to(ROOT)} → {target}")
    assert not wrong, wrong


def test_paths_named_on_the_pages_exist() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [*PAGES, *(ROOT / "results").rglob("README.md")]
        for name in NAMED.findall(page.read_text())
        if "/a/" not in name and not (ROOT / name).exists()
    ]
    assert not wrong, wrong


def test_scripts_named_on_the_pages_exist() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [*PAGES, *(ROOT / "results").rglob("*.md")]
        for name in re.findall(r"python ([a-z0-9_./-]+\.py)", page.read_text())
        if not (ROOT / name).exists()
    ]
    assert not wrong, wrong
