"""The range of versions of JAX that the project declares is the range that is tested."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def declared() -> list[str]:
    """The requirements on JAX: of the library and of its extra for GPUs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    every = [*project["dependencies"], *project["optional-dependencies"]["cuda"]]
    return [line for line in every if re.match(r"jax(\[|[<>=]|$)", line)]


def bounds(requirement: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lower and the upper bound of a requirement such as jax>=0.10,<0.11."""
    found = re.fullmatch(r"jax(?:\[\w+\])?>=([\d.]+),<([\d.]+)", requirement)
    assert found, f"{requirement}: JAX needs a lower and an upper bound"
    return numbers(found[1]), numbers(found[2])


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def test_jax_is_bounded_alike_wherever_it_is_required() -> None:
    found = [bounds(requirement) for requirement in declared()]
    assert len(found) == 2 and found[0] == found[1]


@pytest.mark.parametrize("package", ["jax", "jaxlib"])
def test_the_installed_jax_and_the_constraint_lie_within_the_bounds(package: str) -> None:
    low, high = bounds(declared()[0])
    assert low <= numbers(version(package)) < high
    pinned = re.search(rf"^{package}==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned and low <= numbers(pinned[1]) < high


def test_a_missing_bound_is_found() -> None:
    with pytest.raises(AssertionError, match="an upper bound"):
        bounds("jax>=0.10")
