"""Run the tests on one combination of versions; tabulate the runs in results/versions/README.md.

    uv venv -p 3.13 ENV && uv pip install -p ENV/bin/python -e '.[dev]' [--resolution lowest-direct] ["pandas<3"]
    ENV/bin/python studies/versions.py oldest         the selection of `make test`, one process, about 20 minutes
    ENV/bin/python studies/versions.py oldest tests/tables tests/estimators
    python studies/versions.py --page

The first argument of a run names how the versions were chosen.  A run adds one line to results/versions/runs.jsonl.
The page shows the last run of each combination.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "results" / "versions"
PACKAGES = ("jax", "numpy", "scipy", "scikit-learn", "pandas", "optax", "threadpoolctl", "typer", "matplotlib")
PREFACE = """# Versions: does the test suite pass on every supported version?

{answer} Each combination has an environment of its own. "Oldest" is the lowest version that every requirement of
pyproject.toml admits (`uv pip install --resolution lowest-direct`; some of them have no wheels for Python 3.13),
"newest" the newest version at the time. JAX 0.11 and NumPy 2.5 need Python 3.12. A run is `pytest -m "not slow"`, the
selection of `make test`, in one process, on the tests of a group.

    ENV/bin/python studies/versions.py newest
    python studies/versions.py --page
"""


def run(label: str, paths: list[str]) -> None:
    """Run the quick tests with this interpreter and keep their counts and the installed versions."""
    started = time.time()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "-rfE", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout[-20000:], done.stderr[-2000:], sep="\n")
    summary = done.stdout.strip().splitlines()[-1]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", summary)}
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    record = {
        "label": label, "python": platform.python_version(), "paths": paths, **counts, "failures": failures,
        "minutes": round((time.time() - started) / 60, 1), "commit": commit.stdout.strip(),
        "versions": {name: version(name) for name in PACKAGES},
    }  # fmt: skip
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "runs.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


def page() -> str:
    """Return the page of the last run of each combination and selection."""
    lines = (FOLDER / "runs.jsonl").read_text().splitlines()
    runs = {(r["python"], r["label"], tuple(r["paths"])): r for r in map(json.loads, lines)}
    failed = sum(r.get("failed", 0) + r.get("error", 0) + r.get("errors", 0) for r in runs.values())
    answer = f"{len(runs)} runs of a part of the suite, {failed} failures."
    groups = list(dict.fromkeys(paths for _, _, paths in runs if paths))
    head = ["Python", "versions", *PACKAGES, "passed", "failed", "skipped", "commit", "group"]
    rows = [head, ["---"] * len(head)]
    for (python, label, paths), r in sorted(runs.items()):
        counts = [str(r.get(word, 0)) for word in ("passed", "failed", "skipped")]
        group = str(groups.index(paths) + 1) if paths else "all"
        rows.append([python, label, *r["versions"].values(), *counts, r["commit"], group])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    table += "".join(f"\n\nGroup {k}: {', '.join(f'`{path}`' for path in each)}." for k, each in enumerate(groups, 1))
    failures = [f"- Python {r['python']}, {r['label']}: `{name}`" for r in runs.values() for name in r["failures"]]
    return "\n".join(
        [PREFACE.format(answer=answer), table, "", *(["Failures:", "", *failures, ""] if failures else [])]
    )


def main() -> None:
    if sys.argv[1:] == ["--page"]:
        (FOLDER / "README.md").write_text(page())
    elif len(sys.argv) > 1:
        run(sys.argv[1], sys.argv[2:])
    else:
        sys.exit("Give a name of the combination, such as oldest, or --page.")


if __name__ == "__main__":
    main()
