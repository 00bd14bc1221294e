"""Are the dependencies the pinned ones, and is a vulnerability of them known?

A distribution that stands in constraints.txt must be installed in that version, so that an audit of that file is an
audit of what runs here; others are named.  Then pip-audit asks an advisory service, if it is installed and the
service can be reached; if not, this says so and ends with code 0: the check of the pins is done.  An index without
advisories makes pip-audit skip distributions and report no vulnerability; the number of distributions that were not
looked up is therefore printed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"
OWN = {"sitewise", "sitewise-icml2023"}
INSTALLERS = {"pip", "wheel"}  # they come with the environment


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = (line.split("#")[0].split(";")[0].strip() for line in CONSTRAINTS.read_text().splitlines())
    return {canonical(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def strays(installed: dict[str, str], pins: dict[str, str]) -> list[str]:
    """Sentences about what is installed in another version than the pinned one."""
    return [
        f"{name} {version} is installed, but constraints.txt has {pins[name]}"
        for name, version in sorted(installed.items())
        if name not in OWN | INSTALLERS and pins.get(name, version) != version
    ]


def findings(report: str) -> tuple[list[str], int, int]:
    """Return sentences about known vulnerabilities, and how many distributions were looked up and were not."""
    found = json.loads(report)["dependencies"]
    known = [
        f"{one['name']} {one['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for one in found
        for flaw in one.get("vulns", [])
    ]
    skipped = sum("skip_reason" in one for one in found)
    return known, len(found) - skipped, skipped


def main() -> int:
    installed = {canonical(d.metadata["Name"]): d.version for d in importlib.metadata.distributions()}
    pins = pinned()
    wrong = strays(installed, pins)
    for sentence in wrong:
        print(f"audit: {sentence}.", file=sys.stderr)
    unknown = sorted(set(installed) - set(pins) - OWN - INSTALLERS)
    print(f"audit: {len(installed)} distributions installed, {len(wrong)} of them in another version than pinned.")
    if unknown:
        print(f"audit: not in constraints.txt, and not ours: {', '.join(unknown)}.")
    if importlib.util.find_spec("pip_audit") is None:
        print("audit: known vulnerabilities were not looked up, as pip-audit is not installed (pip install pip-audit).")
        return bool(wrong)
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(CONSTRAINTS), "--no-deps", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if "ConnectionError" in done.stderr or "Max retries" in done.stderr or "ServiceError" in done.stderr:
        print("audit: known vulnerabilities were not looked up, as the advisory service cannot be reached from here.")
        return bool(wrong)
    if not done.stdout:
        print(done.stderr, file=sys.stderr)
        return done.returncode or 1
    known, looked_up, skipped = findings(done.stdout)
    for sentence in known:
        print(f"audit: {sentence}.", file=sys.stderr)
    print(f"audit: {looked_up} distributions looked up, {len(known)} known vulnerabilities.")
    if skipped:
        print(f"audit: {skipped} distributions were not looked up, as the package index has no advisories of them.")
    return bool(wrong or known)


if __name__ == "__main__":
    sys.exit(main())
