"""Count clicks and words from the README or the front page to the answers of thirty questions of newcomers.

    python studies/first_look.py        results/first-look/README.md, in seconds

Three readers with ten questions each: a practitioner, a researcher, and an engineer who deploys.  Every question has
a path of links and the words of its answer, written by hand in results/first-look/questions.json; the script fails if
a link or an answer is no longer there.  Until the last page a reader scans titles, bold words and links down to the
next link.  On the last page the reader scans down to the paragraph, table or list item with the answer, and reads
from its beginning to the answer.  A minute is 240 words (the mean of silent reading), and a click takes ten seconds.
Minutes are computed from these counts: nobody was timed, and wrong turns are not counted.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "results" / "first-look"
WORDS_PER_MINUTE = 240
MINUTES_PER_CLICK = 1 / 6
LINK = r"\[([^\]]+)\]\(([^)\s]+)\)"


def count(text: str) -> int:
    """Return the number of words; the addresses of links and the marks of tables are none."""
    return len(re.findall(r"\w[\w'.-]*", re.sub(LINK, r"\1", text)))


def scanned(text: str) -> int:
    """Return the number of words in titles, bold words and links."""
    titles = re.findall(r"^#+ .*$", text, re.MULTILINE)
    return sum(
        map(count, [*titles, *re.findall(r"\*\*([^*]+)\*\*", text), *(one for one, _ in re.findall(LINK, text))])
    )


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")


def start_of(text: str, name: str) -> int:
    """Return where the section of an anchor begins."""
    if not name:
        return 0
    found = [m.start() for m in re.finditer(r"^#+ (.*)$", text, re.MULTILINE) if anchor(m[1]) == name]
    if not found:
        raise ValueError(f"there is no section {name!r}")
    return found[0]


def walk(path: list[str], answer: str) -> tuple[int, int, str]:
    """Return clicks, words, and the page of the answer; the path is a page and then the texts of links."""
    page, begin, words = ROOT / path[0], 0, 0
    for step in path[1:]:
        text = page.read_text()
        links = [m for m in re.finditer(LINK, text[begin:]) if " ".join(m[1].split()) == step]
        if not links:
            raise ValueError(f"{page.relative_to(ROOT)} has no link {step!r}")
        words += scanned(text[begin : begin + links[0].start()])
        target, _, name = links[0][2].partition("#")
        page = (page.parent / target).resolve() if target else page
        begin = start_of(page.read_text(), name)
    text = page.read_text()
    found = re.search(r"\s+".join(map(re.escape, answer.split())), text[begin:])
    if not found:
        raise ValueError(f"{page.relative_to(ROOT)} does not say {answer!r}")
    end = begin + found.end()
    # The answer's paragraph, list item or table begins after the last empty line, or at a bold word or item before it.
    top = max(begin, text.rfind("\n\n", 0, end), text.rfind("\n- ", 0, end), text.rfind("\n**", 0, end))
    words += scanned(text[begin:top]) + count(text[top:end])
    return len(path) - 1, words, str(page.relative_to(ROOT))


def minutes_of(clicks: int, words: int) -> float:
    return words / WORDS_PER_MINUTE + clicks * MINUTES_PER_CLICK


def main() -> None:
    stored = json.loads((FOLDER / "questions.json").read_text())
    lines, worst = [], 0.0
    for reader, questions in stored["readers"].items():
        lines += ["", f"## {reader}", ""]
        lines += ["| question | answer | path | clicks | words | minutes |", "|---|---|---|---:|---:|---:|"]
        for question, short, path, answer in questions:
            clicks, words, page = walk(path, answer)
            minutes = minutes_of(clicks, words)
            worst = max(worst, minutes)
            way = " → ".join([f"`{path[0]}`", *path[1:]])
            if clicks:  # README.md is no page of the site
                way += f": [page](../../{page})"
            lines.append(f"| {question} | {short} | {way} | {clicks} | {words} | {minutes:.1f} |")
    number = sum(len(questions) for questions in stored["readers"].values())
    head = [
        "# First look: thirty questions of newcomers, and where README and site answer them",
        "",
        f"`python studies/first_look.py`: {number} questions, the slowest answer after {worst:.1f} minutes. "
        + " ".join((__doc__ or "").split("\n\n")[2].split()),
        "",
        "## What was changed because of it",
        "",
        *(f"- {one}" for one in stored["changed"]),
    ]
    (FOLDER / "README.md").write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    main()
