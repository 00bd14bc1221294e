"""Lists and limits that pages repeat from the source: outcomes, kernels, methods, modules, seconds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sitewise
from sitewise import METHODS, Outcome
from sitewise.estimators.candidates import MAX_COLUMNS
from sitewise.kernel_choice import NAMED_KERNELS

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md"))
TRUST = "explanation/trust.md"
SETTINGS = "how-to/estimators.md"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (TRUST, [f"`{one.name}`" for one in Outcome]),
        (SETTINGS, [f'`"{name}"`' for name in NAMED_KERNELS]),
        (SETTINGS, [f'`"{name}"`' for name in METHODS]),
        ("how-to/which-model.md", [f'`"{name}"`' for name in METHODS]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0].strip('`"'),
)
def test_a_page_has_the_whole_list(page: str, names: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert [name for name in names if name not in text] == []


def test_pages_give_the_limit_of_the_default_kernel() -> None:
    found = [
        (page.name, number)
        for page in PAGES
        for number in re.findall(r"\b2\s+to\s+(\d+)\s+(?:columns|inputs)", page.read_text())
    ]
    assert len(found) >= 5
    assert [one for one in found if one[1] != str(MAX_COLUMNS)] == []


def test_the_map_of_the_code_names_every_module() -> None:
    tree = (ROOT / "docs" / "explanation" / "architecture.md").read_text().split("```")[1]
    named = {word.split("/")[0] for line in re.findall(r"^  (\S.*?)   ", tree, re.MULTILINE) for word in line.split()}
    modules = {path.stem for path in Path(sitewise.__file__).parent.iterdir() if path.suffix == ".py" or path.is_dir()}
    missing = {name for name in modules if not name.startswith("__")} - named
    assert missing == set()


def test_seconds_of_a_fit_are_the_stored_ones() -> None:
    cases = json.loads((ROOT / "results" / "benchmarks" / "fit.json").read_text())["cases"]
    stored = {one["case"].partition(",")[0]: one["cpu"] for one in cases if one["n"] == 281 and "cpu" in one
              and one["contestant"] == "sitewise"}  # fmt: skip
    choosing = " ".join((ROOT / "docs" / "explanation" / "choosing.md").read_text().split())
    row = " | ".join(f"{stored[name]:.2f}" for name in ("laplace", "ep", "vi", "hybrid"))
    assert f"| CPU seconds per fit, n = 281, after compilation | {row} |" in choosing
    performance = (ROOT / "docs" / "explanation" / "performance.md").read_text()
    assert f"| Laplace, n = 281 | {stored['laplace']:.3f} |" in performance
    assert f"| EP, n = 281 | {stored['ep']:.2f} |" in performance
    assert f"| VI, n = 281 | {stored['vi']:.2f} |" in performance
