"""What the wheels of the library and of the paper hold."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "."]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build needs; the paper lies beside the library, as in a checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    for package in ("src", "papers/icml2023"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    return folder


def contents(folder: Path) -> dict[str, str]:
    """The files of the wheel that is built there; those that describe it with their text."""
    subprocess.run(COMMAND, cwd=folder, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        return {name: archive.read(name).decode() if ".dist-info/" in name else "" for name in archive.namelist()}


@pytest.fixture(scope="module")
def library(checkout: Path) -> dict[str, str]:
    return contents(checkout)


def described(wheel: dict[str, str], file: str) -> str:
    return next(text for name, text in wheel.items() if name.endswith(f".dist-info/{file}"))


def test_the_wheel_holds_the_library_and_the_application_and_nothing_else(library: dict[str, str]) -> None:
    found = {name for name in library if ".dist-info/" not in name}
    modules = {name for name in found if name.startswith("sitewise/") and name.endswith(".py")}
    assert found == modules | {"sitewise/py.typed"}
    assert {"sitewise/__init__.py", "sitewise/app/commands/__init__.py", "sitewise/kernels/base.py"} <= modules
    assert not [name for name in library if "icml2023" in name]


def test_the_library_needs_numbers_only_and_the_application_its_extra(library: dict[str, str]) -> None:
    lines = described(library, "METADATA").splitlines()
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist")]
    plain = {re.split("[<>]", line)[0] for line in needed if "extra ==" not in line}
    assert plain == {"jax", "numpy", "scipy", "scikit-learn", "threadpoolctl"}
    app = {line.split(">")[0] for line in needed if line.endswith('extra == "app"')}
    assert app == {"typer", "rich", "matplotlib"}
    assert "sitewise = sitewise.app:main" in described(library, "entry_points.txt")


def test_the_papers_wheel_holds_its_data_and_adds_its_commands(checkout: Path) -> None:
    wheel = contents(checkout / "papers" / "icml2023")
    found = {name for name in wheel if ".dist-info/" not in name}
    assert all(name.startswith("sitewise_icml2023/") for name in found)
    assert {f"sitewise_icml2023/{name}.json" for name in ("paper", "protocols", "registry")} <= found
    entries = described(wheel, "entry_points.txt")
    assert "[sitewise.commands]" in entries and "sitewise-icml2023 = sitewise_icml2023.commands:main" in entries
