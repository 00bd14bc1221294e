"""One line that says what is done, how much of it, since when and for how long; silent where nobody watches."""

import io
import time
from types import SimpleNamespace

import pytest

from sitewise.process import progress
from sitewise.process.progress import bar, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def drawings(self) -> list[str]:
        """What was on the line, drawing by drawing."""
        return [part.removesuffix("\x1b[K") for part in self.getvalue().split("\r")[1:]]


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def watch(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None) -> None:
    """Let `stream` be stderr for the module alone: pytest replaces that of the process between fixture and test."""
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    watch(monkeypatch, found)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_pieces_are_counted(terminal: Terminal, clock: Clock) -> None:
    with bar("fitting", 10, done=2) as line:
        clock.now += 60.0
        line.advance()  # includes compilation, and is all there is to go by
        clock.now += 2.0
        line.say("fitting EP")
        line.advance()  # not drawn: nobody can read ten lines a second
        clock.now += 1.0
        line.say("fitting VI")
    assert terminal.drawings() == [
        "fitting  2 of 10, 0:00:00",
        "fitting  3 of 10, 0:01:00, about 0:07:00 left",
        "fitting EP  3 of 10, 0:01:02, about 0:06:58 left",
        "fitting VI  4 of 10, 0:01:03, about 0:00:11 left",
        "",
    ]


def test_a_share_a_download_and_work_without_a_total(terminal: Terminal, clock: Clock) -> None:
    with bar("fitting", 1, pieces=False) as line:
        clock.now += 1.0
        line.tell("round 12", 0.25)
    assert terminal.drawings()[1] == "round 12  25 %, 0:00:01, about 0:00:03 left"
    with bar("iris", None) as line:
        clock.now += 1.0
        line.received(2_000_000, 8_000_000)
        clock.now += 1.0
        line.received(3_000_000, None)
    assert terminal.drawings()[3:6] == [
        "iris  0:00:00", "iris  2.0 of 8.0 MB, 0:00:01, about 0:00:03 left", "iris  3.0 MB, 0:00:02",
    ]  # fmt: skip
    with bar("annealing", None) as line:
        clock.now += 3661.0
        line.say("annealing: 3 rounds")
    assert terminal.drawings()[-2:] == ["annealing: 3 rounds  1:01:01", ""]


def test_the_recent_speed_counts(clock: Clock) -> None:
    line = progress.Bar("fitting", 1000)
    for _ in range(100):  # slow at first
        clock.now += 60.0
        line.advance()
    for _ in range(700):
        clock.now += 1.0
        line.advance()
    assert line.seconds_left() == pytest.approx(200.0)
    clock.now += 50.0
    assert line.seconds_left() == pytest.approx(150.0)
    clock.now += 1e6
    assert line.seconds_left() == 0.0


def test_the_line_fits_into_the_terminal(terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    with bar("a long description of what is being done", 3):
        pass
    (drawn, _) = terminal.drawings()
    assert drawn == "a long desc…  0 of 3, 0:00:00" and len(drawn) == 29


def test_at_most_ten_drawings_a_second(terminal: Terminal) -> None:
    began = time.monotonic()
    with bar("fitting", 10**6) as line:
        while time.monotonic() - began < 0.5:
            line.advance()
    assert 3 <= len(terminal.drawings()) <= 8


def test_the_elapsed_time_goes_on_while_a_piece_takes_long(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_REDRAW_SECONDS", 0.0)
    deadline = time.monotonic() + 10
    with bar("fitting", 2):
        while len(terminal.drawings()) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    count = len(terminal.drawings())
    time.sleep(0.05)
    assert len(terminal.drawings()) == count  # nothing is drawn any more


def test_the_line_is_erased_however_the_work_ends(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), bar("fitting", 2):
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_terminal_that_has_gone_does_not_end_the_work(terminal: Terminal) -> None:
    with bar("fitting", 2) as line:
        terminal.close()
        line.advance()
    assert line.done == 1


@pytest.mark.parametrize("kind", ["file", "dumb", "none", "closed"])
def test_silent_where_stderr_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    stream = Terminal() if kind == "dumb" else io.StringIO()
    monkeypatch.setenv("TERM", "dumb" if kind == "dumb" else "xterm")
    watch(monkeypatch, None if kind == "none" else stream)
    if kind == "closed":
        stream.close()
    with bar("fitting", 2) as line:
        line.say("fitting EP")
        line.advance()
        line.tell("fitting VI", 2)
        line.received(1, None)
    assert kind == "closed" or stream.getvalue() == ""


def test_verbose_writes_plain_lines_where_stderr_is_not_a_terminal(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    stream = io.StringIO()
    watch(monkeypatch, stream)
    with shown(True, "GPClassifier 1/1") as report:
        for step in range(96):
            report(f"step {step}", step / 96)
            clock.now += 0.125
    assert stream.getvalue().splitlines() == [
        "GPClassifier 1/1: starting: 0 %, 0:00:00",
        "GPClassifier 1/1: step 40: 42 %, 0:00:05, about 0:00:07 left",
        "GPClassifier 1/1: step 80: 83 %, 0:00:10, about 0:00:02 left",
        "GPClassifier 1/1: step 95: 99 %, 0:00:12, about 0:00:00 left",  # the end
    ]


def test_verbose_goes_on_while_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first inference or a compilation may take minutes: the plain lines show that time passes."""
    stream = io.StringIO()
    watch(monkeypatch, stream)
    monkeypatch.setattr(progress, "_PLAIN_LINE_SECONDS", 0.02)
    deadline = time.monotonic() + 10
    with shown(True, "GPClassifier 1/1"):
        while len(stream.getvalue().splitlines()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert all(line.startswith("GPClassifier 1/1: starting: 0 %") for line in stream.getvalue().splitlines())


def test_verbose_on_a_terminal_and_by_a_function(terminal: Terminal, clock: Clock) -> None:
    with shown(True, "GPClassifier 1/1") as report:
        clock.now += 1.0
        report("step 1", 0.5)
    assert terminal.drawings()[1] == "GPClassifier 1/1: step 1  50 %, 0:00:01, about 0:00:01 left"
    with shown(print, "label") as report:
        assert report is print
    for nothing in (False, 0):
        with shown(nothing, "label") as report:
            assert report is None
