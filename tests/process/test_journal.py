"""A journal gives back what was finished for the same job, and nothing else."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods
from sitewise.errors import UserError
from sitewise.process import journal
from sitewise.process.journal import Journal, digest_of, key_of

X = np.linspace(-1, 1, 12)[:, None]
Y = np.where(np.arange(12) % 3, 1.0, -1.0)
MODEL = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())


def test_pieces_are_found_again_until_the_job_is_done(tmp_path: Path) -> None:
    out = tmp_path / "c.html"
    journal = Journal.beside(out, "key")
    assert journal.pieces == {} and list(tmp_path.iterdir()) == []
    value = {"score": 0.1 + 0.2, "array": np.array([1.0, np.nan]), "bad": np.inf, "words": ["ä", "\r\n"]}
    given = journal.add("first", value)
    journal.add("second", 1)
    journal.add("second", 2)
    again = Journal.beside(out, "key")
    for found in (given, journal.pieces["first"], again.pieces["first"]):
        assert found["score"] == 0.1 + 0.2 and found["bad"] is None and found["words"] == ["ä", "\r\n"]
        np.testing.assert_array_equal(found["array"], value["array"])
    assert again.pieces["second"] == 2 and again.damaged == 0
    assert journal.path == tmp_path / "c.html.unfinished" and journal.path.exists()
    again.done()
    assert list(tmp_path.iterdir()) == []
    again.done()


def test_an_interrupted_job_says_what_is_kept(tmp_path: Path) -> None:
    journal = Journal.beside(tmp_path / "out", "key")
    assert "nothing was finished" in str(journal.interrupted(5))
    journal.add("first", 1.0)
    assert "1 of 5 pieces are kept in" in str(journal.interrupted(5))
    assert str(journal.path) in str(journal.interrupted(5))


def test_jobs_may_share_a_file(tmp_path: Path) -> None:
    one, two = Journal(tmp_path / "j", "one"), Journal(tmp_path / "j", "two")
    one.add("piece", 1)
    two.add("piece", 2)
    one.add("other", 3)
    assert Journal(tmp_path / "j", "one").pieces == {"piece": 1, "other": 3}
    assert Journal(tmp_path / "j", "two").pieces == {"piece": 2}
    assert Journal(tmp_path / "j", "three").pieces == {} and Journal(tmp_path / "j", "three").damaged == 0


def test_half_a_line_that_a_kill_left_does_not_swallow_the_next(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "key")
    journal.add("first", 1.0)
    whole = journal.path.read_bytes()
    for cut in (1, len(whole) // 2, len(whole) - 1):
        for strict in (False, True):
            journal.path.write_bytes(whole + whole[:cut])
            Journal(journal.path, "key", strict).add("second", 2.0)
            again = Journal(journal.path, "key", strict)
            assert again.pieces == {"first": 1.0, "second": 2.0} and again.damaged == 0


def damaged_lines(line: bytes) -> Iterator[bytes]:
    """Arrays that are cut short, claim to be larger, are not base64 or not numbers, all with a checksum that matches;
    then a number, a name and a checksum that have changed, and text."""
    entry = json.loads(line)
    dtype, shape, content = entry["value"]["__array__"]
    for array in (
        [dtype, shape, content[:-4]],
        [dtype, [10**12], content],
        [dtype, shape, "*" + content[1:]],
        ["|O", shape, content],
    ):
        value = {"__array__": array}
        signed = {**entry, "value": value, "crc32": journal._checksum("key", "first", value)}
        yield json.dumps(signed).encode() + b"\n"
    other = base64.b64encode(np.array([2.0, 1.0]).tobytes()).decode()
    yield json.dumps({**entry, "value": {"__array__": [dtype, shape, other]}}).encode() + b"\n"
    yield line.replace(b'"name": "first"', b'"name": "fir5t"')
    yield json.dumps({k: v for k, v in entry.items() if k != "crc32"}).encode() + b"\n"
    yield b'["not", "an", "entry"]\n'
    yield b"nonsense\n"
    yield b"\xff\xfe\n"


def test_a_damaged_line_is_left_out_or_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "key")
    journal.add("first", np.array([1.0, 2.0]))
    line = journal.path.read_bytes()
    journal.add("second", 2)
    rest = journal.path.read_bytes()[len(line) :]
    for broken in damaged_lines(line):
        journal.path.write_bytes(broken + rest)
        found = Journal(journal.path, "key")
        assert found.pieces == {"second": 2} and found.damaged == 1
        found.add("third", 3)
        assert set(Journal(journal.path, "key").pieces) == {"second", "third"}
        before = journal.path.read_bytes()
        with pytest.raises(UserError, match="not a checkpoint, or a damaged one; remove it to start again"):
            Journal(journal.path, "key", strict=True)
        assert journal.path.read_bytes() == before


def test_a_strict_journal_takes_nothing_of_others(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal(path, "other").add("best", [1.0])
    foreign = path.read_bytes()
    with pytest.raises(UserError, match="checkpoint of another fit"):
        Journal(path, "key", strict=True)
    path.write_bytes(b"")
    mine = Journal(path, "key", strict=True)
    mine.add("best", [2.0])
    own = path.read_bytes()
    # The end of a file may be a line of ours that was cut short, and is then given up; somebody's text is not.
    for end in (b"my notes", b'{"key": "other", "na', foreign[:-1]):
        for content in (own + end, end):
            path.write_bytes(content)
            with pytest.raises(UserError, match="not a checkpoint"):
                Journal(path, "key", strict=True)
            assert path.read_bytes() == content


def test_names_of_jobs_tell_everything_apart() -> None:
    parts = ("settings", MODEL, Data.of(X, Y), 0)
    name = digest_of(*parts)
    assert digest_of("settings", MODEL, Data.of(X, Y), 0) == name and len(name) == 64
    longer = Model.full(kernels.Matern52(2.0), likelihoods.BernoulliProbit())
    logit = Model.full(kernels.Matern52(), likelihoods.BernoulliLogit())
    others = [
        ("other", *parts[1:]), (*parts[:2], Data.of(X, -Y), 0), (*parts[:2], Data.of(2 * X, Y), 0), (*parts[:3], 1),
        ("settings", longer, *parts[2:]), ("settings", logit, *parts[2:]), parts[:3],
    ]  # fmt: skip
    assert len({name, *(digest_of(*other) for other in others)}) == 1 + len(others)
    pairs = [(1, 23), (12, 3), ("1", 23), np.array([1, 23]), np.array([[1], [23]]), np.array([1.0, 23.0]), [1, 23]]
    assert len({digest_of(pair) for pair in pairs}) == len(pairs)
    assert digest_of(jnp.arange(3.0)) == digest_of(np.arange(3.0))


def test_names_of_settings() -> None:
    assert key_of("0.2.0", {"a": 1, "b": np.nan}) == key_of("0.2.0", {"b": None, "a": 1})
    assert key_of("0.2.0", [1, 2]) != key_of("0.2.0", [1], 2) and len(key_of()) == 16
