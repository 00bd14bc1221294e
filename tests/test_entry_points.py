"""Commands that installed packages add to `sitewise`."""

from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from sitewise.app import commands

OWN = {"demo", "fit", "predict", "compare", "model", "surface", "certificate", "info"}


def hello(name: str) -> None:
    """Says hello."""
    print(f"hello {name}")


def built(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> tuple[set[str], CliRunner, object]:
    monkeypatch.setattr(commands, "entry_points", lambda group: [e for e in entries if e.group == group])
    app = commands.build()
    return {command.name for command in app.registered_commands}, CliRunner(), app


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "sitewise.commands")


def test_a_package_adds_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitewise.hello", hello, raising=False)
    names, runner, app = built(monkeypatch, entry("hello", "sitewise:hello"), entry("reproduce", "sitewise:hello"))
    assert names == OWN | {"hello", "reproduce"}
    assert runner.invoke(app, ["hello", "you"]).output == "hello you\n"
    assert runner.invoke(app, ["reproduce", "it"]).output == "hello it\n"


def test_no_package_replaces_a_command_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitewise.hello", hello, raising=False)
    _, runner, app = built(monkeypatch, entry("fit", "sitewise:hello"))
    assert "hello" not in runner.invoke(app, ["fit", "--help"]).output


def test_a_broken_package_takes_no_command_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, _, _ = built(monkeypatch, entry("other", "not_installed.commands:other"))
    assert names == OWN | {"reproduce"}
    assert "'other' cannot be loaded" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["table1"], ["table1", "--seeds", "42", "--quick"]])
def test_without_the_paper_reproduce_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    names, runner, app = built(monkeypatch)
    assert names == OWN | {"reproduce"}
    assert "reproduce" in runner.invoke(app, ["--help"]).output
    result = runner.invoke(app, ["reproduce", *arguments])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error:") and "pip install ./papers/icml2023" in result.stderr
    assert result.stderr.count("\n") == 1
