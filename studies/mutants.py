"""Do the tests notice a wrong program?  Change one operator, constant or returned value; run the tests that cover it.

    python studies/mutants.py cover --jobs 16          # which test runs which line; needs pytest-cov
    python studies/mutants.py run --jobs 16            # 400 mutants, each against the tests that cover its line
    python studies/mutants.py run --jobs 16 --again    # survivors that are not equivalent, against more tests
    python studies/mutants.py table                    # results/mutants/README.md

`run` continues where it was stopped.  Rows go to results/mutants/mutants.jsonl.  Two files are written by hand:
results/mutants/survivors.json holds a word on each equivalent mutant, and tests.json the tests that were written for a
survivor, against which it is run again.  The program cache is off while lines are counted, because a program that
is loaded from it is not traced.  A line that only one test of a process traces is attributed to this test alone: a
survivor is therefore run again with all tests of its folder before it counts as one.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue
from typing import Any

from mutating.places import Mutant, changed, sample

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("src/sitewise")
WORK = ROOT / "out" / "mutants"
RESULTS = ROOT / "results" / "mutants"
CORE = frozenset({"numerics", "kernels", "likelihoods", "priors", "inference", "evidence.py", "learning"})
COUNT, SEED = 400, 42
EQUIVALENT = "equivalent: "  # begins the words on a survivor that changes no result
# Tests of the first run of a mutant and of further ones: seconds while lines were counted, and their number.
FIRST, FURTHER = (40.0, 40), (200.0, 1000)
MAX_SECONDS = 300.0  # of one run; a mutant that does not end is noticed
# Tests of the repository's texts and of its packaging fail after any change of a line, or read other files.
NOT_OF_RESULTS = (
    "tests/docs/",
    "tests/test_layers",
    "tests/test_wheel",
    "tests/test_vocabulary",
    "tests/test_versions",
)


def cover(jobs: int, arguments: list[str]) -> None:
    """Write which tests run which lines, and how long each test takes, to out/mutants/lines.json.gz."""
    WORK.mkdir(parents=True, exist_ok=True)
    settings = WORK / "coveragerc"
    settings.write_text(f"[run]\nsource = {ROOT / SOURCE}\ndata_file = {WORK / 'coverage'}\n")
    command = [sys.executable, "-m", "pytest", "-n", str(jobs), "-p", "no:cacheprovider", f"--cov-config={settings}"]
    command += [
        "--cov",
        "--cov-context=test",
        "--cov-report=",
        "--durations=0",
        "--durations-min=0.0",
        "-vv",
        *arguments,
    ]
    environment = _environment(ROOT, WORK) | {"SITEWISE_PROGRAM_CACHE": "off"}
    with (WORK / "cover.log").open("w") as log:
        subprocess.run(command, cwd=ROOT, env=environment, stdout=log, check=False)
    lines, failed, seconds = _contexts(), set(), defaultdict(float)
    for line in (WORK / "cover.log").read_text().splitlines():
        words = line.split()
        if len(words) > 2 and words[1] in ("call", "setup", "teardown") and words[0].endswith("s"):
            seconds[words[2]] += float(words[0][:-1])
        elif len(words) > 1 and words[0] in ("FAILED", "ERROR"):
            failed.add(words[1])
    content = json.dumps({"lines": lines, "seconds": seconds, "failed": sorted(failed)})
    (WORK / "lines.json.gz").write_bytes(gzip.compress(content.encode()))
    print(f"{len(seconds)} tests, {len(failed)} failed, {len(lines)} files")


def _contexts() -> dict[str, dict[int, list[str]]]:
    """Return the tests that ran each line of each file."""
    from coverage import CoverageData

    data = CoverageData(str(WORK / "coverage"))
    data.read()
    found: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        tests = {
            line: sorted({context.rsplit("|", 1)[0] for context in contexts if context})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        found[str(Path(file).relative_to(ROOT / SOURCE))] = tests
    return found


class Tests:
    """The tests that cover a mutant, the quick ones of its own folder first."""

    def __init__(self, path: Path) -> None:
        """Read the file that `cover` wrote; without it only mutants with tests in tests.json can be run."""
        empty = {"lines": {}, "seconds": {}, "failed": []}
        content = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else empty
        self.seconds: dict[str, float] = content["seconds"]
        failed = set(content["failed"])
        self.lines = {
            file: {int(line): [test for test in tests if test not in failed and not test.startswith(NOT_OF_RESULTS)]
                   for line, tests in lines.items()}
            for file, lines in content["lines"].items()
        }  # fmt: skip

    def covering(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the mutant's statement; at module level, those that run any line of the file."""
        lines = self.lines.get(mutant.file, {})
        first, last = mutant.statement
        inside = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        return self._ordered(inside or {test for tests in lines.values() for test in tests}, mutant)

    def around(self, mutant: Mutant) -> list[str]:
        """Return the covering tests, then every test that runs any line of the file."""
        covering = self.covering(mutant)
        others = {test for tests in self.lines.get(mutant.file, {}).values() for test in tests} - set(covering)
        return covering + self._ordered(others, mutant)

    def _ordered(self, tests: set[str], mutant: Mutant) -> list[str]:
        folder, stem = mutant.folder.removesuffix(".py"), Path(mutant.file).stem

        def key(test: str) -> tuple[bool, bool, float]:
            own = f"test_{stem}" in test.partition("::")[0]
            return (not own, f"/{folder}" not in test, self.seconds.get(test, 1.0))

        return sorted(tests, key=key)

    def within(self, tests: list[str], limits: tuple[float, int]) -> list[str]:
        """Return the first tests that together stay within (seconds, number), at least one."""
        kept, total = [], 0.0
        for test in tests:
            total += self.seconds.get(test, 1.0)
            if kept and (total > limits[0] or len(kept) >= limits[1]):
                continue
            kept.append(test)
        return kept


def _environment(tree: Path, caches: Path) -> dict[str, str]:
    paths = [tree / "src", tree / "papers" / "icml2023" / "src", *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)), "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "JAX_COMPILATION_CACHE_DIR": str(WORK / "jax"), "SITEWISE_CACHE": str(caches / "sitewise"),
        "JAX_PLATFORMS": "cpu", "SITEWISE_DATA": os.environ.get("SITEWISE_DATA", str(ROOT.parent / "shared" / "data")),
    }  # fmt: skip


def outcome(mutant: Mutant, chosen: list[str], tree: Path) -> dict[str, Any]:
    """Run the tests against the mutant in its own copy of the tree; return its row."""
    row = dataclasses.asdict(mutant)
    path = tree / SOURCE / mutant.file
    text = path.read_text()
    try:
        mutated = changed(text, mutant)
    except ValueError:
        return row | {"outcome": "gone"}
    start = time.monotonic()
    path.write_text(mutated)
    try:
        noticed = _noticed(chosen, tree) if chosen else ""
    finally:
        path.write_text(text)
    name = "noticed" if noticed else "survived" if chosen else "not covered"
    return row | {"outcome": name, "by": noticed, "tests": len(chosen), "seconds": round(time.monotonic() - start)}


def _noticed(chosen: list[str], tree: Path) -> str:
    """Return the first test that fails, "time" if the tests do not end, or "" if all pass."""
    names = tree / "chosen.txt"
    names.write_text("\n".join(chosen))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{names}"]
    settings: dict[str, Any] = {"cwd": tree, "env": _environment(tree, tree), "timeout": MAX_SECONDS}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    except subprocess.TimeoutExpired:
        return "time"
    if done.returncode == 0:
        return ""
    added = [line for line in done.stdout.splitlines() if "not found: " in line]  # a test that is no longer there
    if added:
        return _noticed([name for name in chosen if not any(name in line for line in added)], tree)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else f"exit {done.returncode}"


def run(jobs: int, again: bool, minutes: float) -> None:
    """Run the mutants that have no row yet, or the survivors again, on copies of the tree."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    tests = Tests(WORK / "lines.json.gz")
    rows = read()
    drawn = list(rows) if again else sample(ROOT / SOURCE, COUNT, SEED, CORE)
    words, written = by_hand("survivors"), by_hand("tests")
    wanted = [mutant for mutant in drawn if mutant not in rows or (again and _unnoticed(rows, mutant))]
    wanted = [mutant for mutant in wanted if not words.get(mutant.name, "").startswith(EQUIVALENT)]
    print(f"{len(wanted)} to run", flush=True)
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as place, (RESULTS / "mutants.jsonl").open("a") as output:
        trees: Queue[Path] = Queue()
        for number in range(jobs):
            tree = Path(place) / str(number)
            ignored = shutil.ignore_patterns(
                ".git", ".venv", ".carry", "out", ".pytest_cache", "__pycache__", ".*_cache"
            )
            shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
            trees.put(tree)

        def one(mutant: Mutant) -> dict[str, Any] | None:
            if time.monotonic() > end:
                return None
            chosen = tests.within(*((tests.around(mutant), FURTHER) if again else (tests.covering(mutant), FIRST)))
            chosen = written.get(mutant.name, chosen)
            tree = trees.get()
            try:
                return outcome(mutant, chosen, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            for done in as_completed([pool.submit(one, mutant) for mutant in wanted]):
                row = done.result()
                if row is not None:
                    output.write(json.dumps(row, ensure_ascii=False) + "\n")
                    output.flush()
    counts: dict[str, int] = defaultdict(int)
    for row in read().values():
        counts[row["outcome"]] += 1
    print(dict(counts))


def _unnoticed(rows: dict[Mutant, dict[str, Any]], mutant: Mutant) -> bool:
    return mutant in rows and rows[mutant]["outcome"] in ("survived", "not covered")


def read() -> dict[Mutant, dict[str, Any]]:
    """Return the latest row of each mutant."""
    path = RESULTS / "mutants.jsonl"
    found: dict[Mutant, dict[str, Any]] = {}
    fields = [field.name for field in dataclasses.fields(Mutant)]
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        mutant = Mutant(**{name: tuple(row[name]) if name == "statement" else row[name] for name in fields})
        found[mutant] = row
    return found


def by_hand(name: str) -> dict[str, Any]:
    """Return the file written by hand, by name of the mutant."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table() -> None:
    """Write results/mutants/README.md: the share noticed by folder, and every survivor with a word on it."""
    words = by_hand("survivors")
    rows = {mutant: row for mutant, row in read().items() if row["outcome"] != "gone"}
    text = [
        "# Do the tests notice a wrong program?", "",
        f"{len(rows)} mutants: one changed operator, comparison, constant or returned value each, drawn at random "
        f"(seed {SEED}) from src/sitewise, half of them in the seven folders of the mathematics. Each was run against "
        "the tests that cover its line, a survivor again against the tests that were written for it. "
        "Made by `python studies/mutants.py`.", "",
        "A survivor is *equivalent* if no result changes beyond the stated tolerance: a number of quadrature points, "
        "a tolerance, a start of an iteration, a limit on time or memory, a message. "
        "The last column leaves these out.", "",
        "| folder | mutants | noticed | share | share without equivalent ones |", "|---|---|---|---|---|",
    ]  # fmt: skip
    text += list(_score_lines(rows, words))
    text += ["", "## Survivors", "", "| place | before → after | a word |", "|---|---|---|"]
    for mutant in sorted(rows, key=lambda mutant: (mutant.file, mutant.line)):
        if _unnoticed(rows, mutant):
            change = f"`{mutant.before}` → `{mutant.after}`".replace("|", "\\|")
            text.append(f"| {mutant.file}:{mutant.line} {mutant.function} | {change} | {words.get(mutant.name, '')} |")
    (RESULTS / "README.md").write_text("\n".join(text) + "\n")


def _score_lines(rows: dict[Mutant, dict[str, Any]], words: dict[str, str]) -> Iterator[str]:
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in rows:
        inside = mutant.folder in CORE
        groups["**the seven folders of the mathematics**" if inside else "**elsewhere**"].append(mutant)
        groups[mutant.folder if inside or not mutant.folder.endswith(".py") else "single files"].append(mutant)
    for name in sorted(groups, key=lambda name: (name.startswith("**"), name)):
        mutants = groups[name]
        noticed = sum(rows[mutant]["outcome"] == "noticed" for mutant in mutants)
        same = sum(
            words.get(mutant.name, "").startswith("equivalent")
            for mutant in mutants
            if rows[mutant]["outcome"] != "noticed"
        )
        without = f"{100 * noticed / max(len(mutants) - same, 1):.0f} %"
        yield f"| {name} | {len(mutants)} | {noticed} | {100 * noticed / len(mutants):.0f} % | {without} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("cover", "run", "table"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="run the survivors again")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after this time")
    parser.add_argument("--tests", nargs="*", default=[], help="cover only these tests")
    given = parser.parse_args()
    if given.step == "cover":
        cover(given.jobs, given.tests)
    elif given.step == "run":
        run(given.jobs, given.again, given.minutes)
    else:
        table()


if __name__ == "__main__":
    main()
