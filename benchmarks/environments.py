"""Make one virtual environment per library on first use; skip a library that cannot be installed, with the reason."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = {
    "sitewise": "sitewise_", "scikit-learn": "sklearn_", "gpboost": "gpboost_", "gpy": "gpy_", "gpflow": "gpflow_",
    "gpytorch": "gpytorch_", "gpjax": "gpjax_",
}  # fmt: skip


class CannotInstall(Exception):
    """The peer's packages cannot be had; the message says why."""


def requirements() -> dict[str, list[str]]:
    return {name: entry["requires"] for name, entry in tomllib.loads((HERE / "peers.toml").read_text()).items()}


def command(contestant: str, folder: Path) -> list[str]:
    """How a contestant is started; the second word of its name is an argument of its script.

    sitewise runs in the environment of `run.py` itself.
    """
    library, _, variant = contestant.partition(" ")
    script = str(HERE / "contestants" / f"{SCRIPTS[library]}.py")
    return [sys.executable if library == "sitewise" else str(python_of(library, folder)), script, variant]


def python_of(peer: str, folder: Path) -> Path:
    """The interpreter of the environment of a peer, which is made if it is not there."""
    home, wanted = folder / peer, "\n".join(requirements()[peer])
    python, stamp = home / "bin" / "python", home / "installed.txt"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"installing {peer} …", flush=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    _call([sys.executable, "-m", "venv", str(home)])
    _call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements()[peer]])
    stamp.write_text(wanted)
    return python


def _call(arguments: list[str]) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise CannotInstall((errors or ["pip failed"])[-1][:200])
