"""Run the tests on one combination of versions; tabulate the runs in results/versions/README.md.

    uv venv --seed -p 3.13 ENV
    uv pip install -p ENV/bin/python -e '.[dev]' -e papers/icml2023 [--resolution lowest-direct] ["pandas<3"]
    ENV/bin/python studies/versions.py oldest         the selection of `make test`, one process, 15 to 20 CPU minutes
    ENV/bin/python studies/versions.py oldest tests/tables tests/estimators
    python studies/versions.py --page

The first argument of a run names how the versions were chosen.  A run adds one line to results/versions/runs.jsonl for
each folder of tests when the folder ends, so that a run that was stopped can continue with the other folders.  The page
adds up the last run of each folder.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "results" / "versions"
PACKAGES = ("jax", "numpy", "scipy", "scikit-learn", "pandas", "threadpoolctl", "typer", "matplotlib")
PREFACE = """# Versions: does the test suite pass on every supported version?

{answer}

Each combination has an environment of its own. "Oldest" is the lowest version that every requirement of pyproject.toml
admits (`uv pip install --resolution lowest-direct`; on Python 3.13 the lowest versions that have wheels), "newest" the
newest version at the time. JAX 0.11 and NumPy 2.5 need Python 3.12. A run is `pytest -m "not slow"`, the selection of
`make test`, in one process.

    ENV/bin/python studies/versions.py newest
    python studies/versions.py --page
"""


class Recorder:
    """A plugin of pytest that writes the counts of each folder of tests when the last test of the folder has ended."""

    def __init__(self, label: str) -> None:
        commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        self.head = {"label": label, "python": platform.python_version()}
        self.tail = {"commit": commit.stdout.strip(), "versions": {name: version(name) for name in PACKAGES}}
        self.started: dict[str, float] = {}
        self.left: Counter[str] = Counter()
        self.counts: dict[str, Counter[str]] = {}
        self.failures: dict[str, list[str]] = {}
        self.reasons: dict[str, Counter[str]] = {}

    def count(self, report) -> None:
        """Count the outcome of a test, or of the collection of a file that failed or was skipped."""
        folder = folder_of(report.nodeid)
        counts = self.counts.setdefault(folder, Counter())
        failures, reasons = self.failures.setdefault(folder, []), self.reasons.setdefault(folder, Counter())
        if report.failed and report.nodeid not in failures:
            failures.append(report.nodeid)
        elif report.skipped:
            counts["skipped"] += 1
            expected = getattr(report, "wasxfail", None)  # the reason of a test that is expected to fail, and did
            reasons[f"expected to fail: {expected}" if expected else report.longrepr[2].removeprefix("Skipped: ")] += 1
        elif report.passed and report.when == "call":
            counts["passed"] += 1

    pytest_runtest_logreport = count

    def pytest_collectreport(self, report) -> None:
        if not report.passed:
            self.count(report)

    def pytest_collection_finish(self, session) -> None:
        self.left = Counter(folder_of(item.nodeid) for item in session.items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.started.setdefault(folder_of(nodeid), cpu_seconds())

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        folder = folder_of(nodeid)
        self.left[folder] -= 1
        if self.left[folder] == 0:
            failures, counts = self.failures[folder], self.counts[folder]
            record = {
                **self.head, "folder": folder, "passed": counts["passed"], "failed": len(failures),
                "skipped": counts["skipped"], "failures": failures, "reasons": self.reasons[folder],
                "cpu_seconds": round(cpu_seconds() - self.started[folder]), **self.tail,
            }  # fmt: skip
            with (FOLDER / "runs.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the processes that it started."""
    return sum(os.times()[:4])


def folder_of(nodeid: str) -> str:
    """Return the folder that a test counts to: tests/tables of tests/tables/test_a.py, tests of tests/test_b.py."""
    return "/".join(nodeid.split("::")[0].split("/")[:-1][:2])


def run(label: str, paths: list[str]) -> None:
    """Run the quick tests with this interpreter and keep their counts and the installed versions."""
    import pytest

    FOLDER.mkdir(exist_ok=True)
    os.chdir(ROOT)
    sys.path[0] = str(ROOT)  # as of `python -m pytest`: processes that tests start import the tests from there
    options = ["-m", "not slow", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    sys.exit(pytest.main([*options, *(paths or ["tests", "papers/icml2023/tests"])], plugins=[Recorder(label)]))


def page() -> str:
    """Return the page of the last run of each combination and folder."""
    lines = (FOLDER / "runs.jsonl").read_text().splitlines()
    runs: dict[tuple[str, str], dict[str, dict]] = {}
    for record in map(json.loads, lines):
        runs.setdefault((record["python"], record["label"]), {})[record["folder"]] = record
    tests: dict[str, int] = {}  # of each folder, as many as the fullest run of it has
    for record in (record for found in runs.values() for record in found.values()):
        tests[record["folder"]] = max(tests.get(record["folder"], 0), total(record))
    head = ["Python", "versions", *PACKAGES, "passed", "failed", "skipped", "tests run", "commit"]
    rows, missing, fewer, failures = [head, ["---"] * len(head)], [], [], []
    reasons: Counter[str] = Counter()
    for (python, label), found in sorted(runs.items()):
        last = list(found.values())[-1]
        counts = [str(sum(r[word] for r in found.values())) for word in ("passed", "failed", "skipped")]
        commits = ", ".join(dict.fromkeys(r["commit"] for r in found.values()))
        share = f"{100 * sum(map(total, found.values())) / sum(tests.values()):.0f} %"
        rows.append([python, label, *last["versions"].values(), *counts, share, commits])
        less = sorted(folder for folder, record in found.items() if total(record) < tests[folder])
        for folders, points in ((sorted(set(tests) - set(found)), missing), (less, fewer)):
            if folders:
                points.append(f"- Python {python}, {label}: {', '.join(f'`{folder}`' for folder in folders)}")
        failures += [f"- Python {python}, {label}: `{name}`" for r in found.values() for name in r["failures"]]
        for record in found.values():
            reasons.update(record["reasons"])
    answer = (
        f"All of `make test` was run on {len(runs) - len(missing)} of {len(runs)} combinations"
        f"{', a part of it on the others' if missing else ''}: {len(failures)} failures."
    )
    parts = [PREFACE.format(answer=answer), "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    of_fewer = "Fewer tests than on another combination: scikit-learn has other checks, or the commit is an earlier one"
    for title, points in (("Not run", missing), (of_fewer, fewer), ("Failures", failures)):
        if points:
            parts.append(f"\n{title}:\n\n" + "\n".join(points))
    skips = [f"- {reason} ({number})" for reason, number in sorted(reasons.items())]
    parts.append("\nReasons of the skipped tests, with their numbers over all combinations:\n\n" + "\n".join(skips))
    return "\n".join(parts) + "\n"


def total(record: dict) -> int:
    return record["passed"] + record["failed"] + record["skipped"]


def main() -> None:
    if sys.argv[1:] == ["--page"]:
        (FOLDER / "README.md").write_text(page())
    elif len(sys.argv) > 1:
        run(sys.argv[1], sys.argv[2:])
    else:
        sys.exit("Give a name of the combination, such as oldest, or --page.")


if __name__ == "__main__":
    main()
