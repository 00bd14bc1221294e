"""Every folder of results/ has a README, and the index lists each folder once with a command that exists."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.name for path in RESULTS.iterdir() if path.is_dir())


def test_every_folder_has_a_readme_that_begins_with_a_title_and_names_a_command() -> None:
    wrong = []
    for name in FOLDERS:
        readme = RESULTS / name / "README.md"
        text = readme.read_text() if readme.exists() else ""
        if not text.startswith("# ") or not re.search(r"\.py\b|make |sitewise reproduce", text):
            wrong.append(name)
    assert not wrong, wrong


def test_the_index_lists_every_folder_once() -> None:
    listed = re.findall(
        r"^\| \[([\w-]+)\]\(([\w-]+)/README\.md\) \|", (RESULTS / "README.md").read_text(), re.MULTILINE
    )
    assert [first for first, _ in listed] == [second for _, second in listed] == FOLDERS


def test_a_row_of_the_index_has_a_question_an_answer_and_a_command() -> None:
    rows = [line for line in (RESULTS / "README.md").read_text().splitlines() if line.startswith("| [")]
    wrong = [row for row in rows if not re.fullmatch(r"\| \[.+\) \| .+\? \| .*\d.* \| `[^`]+` \|", row)]
    assert not wrong, wrong


def test_decision_notes_are_half_a_page() -> None:
    notes = (RESULTS.parent / "docs" / "decisions").glob("*.md")
    long = {note.name: len(note.read_text().splitlines()) for note in notes}
    assert {name: lines for name, lines in long.items() if lines > 36} == {}


def test_the_page_of_default_kernels_keeps_the_compressed_rows(tmp_path: Path) -> None:
    from default_kernel_table import write

    stored = [RESULTS / "default-kernel" / name for name in ("rows.jsonl.gz", "rivals.jsonl.gz")]
    for file in stored:
        shutil.copy(file, tmp_path)
    write(tmp_path / "rows.jsonl", tmp_path)
    assert [(tmp_path / file.name).read_bytes() for file in stored] == [file.read_bytes() for file in stored]
