"""Code and documents use the field's words: private words of this project do not come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = ("*.md", "docs/**/*.md", "results/**/*.md", "src/**/*.py", "papers/icml2023/src/**/*.py")
# A private word, what to write instead, and a sentence in which the word must be found.
PRIVATE = [
    (r"\brivals?\b", "baseline or competitor", "beside two rivals"),
    (r"\bcontestants?\b", "baseline, model or method", "every contestant on every fold"),
    (r"\bprocessors?\b", "CPU", "two processor cores"),
    (r"\b(at|by) (its|their) word\b", "calibrated", "probabilities that can be taken at their word"),
    (r"\b(teach(es)?|taught)\b", "used for learning, learned from", "the rows that teach the hyperparameters"),
    (r"\brehears(e|es|ed|als?)\b", "warm-up or coarse stage", "a rehearsal with few rows"),
    (r"\bloose sites\b", "approximate sites", "solved with loose sites"),
    (r"\bon the way\b", "not converged, or: during the search", "a fit that is on the way"),
    (r"(?<![\w.])lean\b", "fast variant", "the lean sweep"),
    (r"\bvariance that is none\b", "zero variance", "a variance that is none"),
    (r"\bto who\b", "name the reader, or leave him out", "for the message to who passes one"),
    (r"\bnames that he knows\b", "parameter names", "by the names that he knows"),
    (r"\bso and so\b", "a full sentence", "was said to be so and so"),
    (
        r"(\b\d+ [mµn]?s|\bCPU s|\bseconds|\bnats|\bbytes|\bnumbers|\b[kMG]B|\blengthscales?) an? "
        r"(row|fit|fold|feature|column|class|call|set|draw|step)\b",
        "per row, per fit, per fold …",
        "0.02 nats a row",
    ),
    (r"\b(means?(,| and)|average,? and|its|their) deviations?\b", "standard deviation", "means and deviations"),
]
# Names that files of earlier versions and of the benchmarks have.
NAMES = re.compile(r'"rivals"|`rivals`|`--no-rivals`|"processor"|benchmarks/contestants')


def uses(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the text and the replacement of every private word; line breaks count as blanks."""
    text = NAMES.sub("", text)
    for pattern, instead, _ in PRIVATE:
        for found in re.finditer(pattern.replace(" ", r"[\s#]+"), text, re.IGNORECASE):
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), instead


def test_code_and_documents_use_the_words_of_the_field() -> None:
    paths = sorted({path for files in FILES for path in ROOT.glob(files)})
    assert len(paths) > 300
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word!r}; write: {instead}"
        for path in paths
        for line, word, instead in uses(path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("pattern", "instead", "sentence"), PRIVATE)
def test_every_private_word_is_found(pattern: str, instead: str, sentence: str) -> None:
    for text in (sentence, sentence.capitalize() + ".", "first line\n" + sentence.replace(" ", "\n    # ")):
        assert instead in [advice for _, _, advice in uses(text)], text


def test_words_of_the_field_are_no_private_words() -> None:
    assert not list(uses("Baselines on a CPU: 50 ns per row; a fit has means and standard deviations; clean."))
