"""Screenshots of a report: `python docs/figures/report.py`, with Chromium and pdftoppm (poppler) installed.

The table is simulated: 500 customers, of whom about a quarter left.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def table(path: Path, rows: int = 500) -> None:
    """Calls and an early contract drive customers away, more so on the basic plan; income says nothing."""
    rng = np.random.default_rng(1)
    age, months, calls = rng.integers(18, 80, rows), rng.integers(1, 72, rows), rng.poisson(2, rows)
    income = np.round(rng.lognormal(10.3, 0.5, rows), -2).astype(int)
    plan = rng.choice(["basic", "plus", "family"], rows, p=[0.4, 0.35, 0.25])
    steady = np.where(plan == "basic", 0.01, 0.06) * months
    f = -0.6 + 0.5 * calls - steady + 1.5 * np.sin(age / 9) + (plan == "basic")
    left = np.where(rng.uniform(size=rows) < 1 / (1 + np.exp(-f)), "left", "stayed")
    lines = [",".join(map(str, row)) for row in zip(age, income, calls, plan, months, left, strict=True)]
    path.write_text("\n".join(["age,income,calls,plan,months,churn", *lines]) + "\n")


def shot(page: Path, width: int, height: int, out: Path) -> None:
    """The page in a window of this size."""
    size = (f"--window-size={width},{height}", f"--screenshot={out}", page.as_uri())
    subprocess.run([*CHROMIUM, *size], check=True, capture_output=True)
    _small(Image.open(out)).save(out, optimize=True)


def _small(image: Image.Image) -> Image.Image:
    """The picture in 256 colours, evenly spread, so that thin lines keep theirs."""
    return image.convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


def printed(page: Path, folder: Path, out: Path) -> None:
    """The first three printed pages, side by side."""
    options = ("--no-pdf-header-footer", f"--print-to-pdf={folder / 'page.pdf'}", page.as_uri())
    subprocess.run([*CHROMIUM, *options], check=True, capture_output=True)
    subprocess.run(["pdftoppm", "-r", "64", "-l", "3", "-png", folder / "page.pdf", folder / "page"], check=True)
    pages = [Image.open(p) for p in sorted(folder.glob("page-*.png"))]
    sheet = Image.new("RGB", (sum(p.width for p in pages) + 20, pages[0].height), "grey")
    for k, one in enumerate(pages):
        sheet.paste(one, (k * (one.width + 10), 0))
    _small(sheet).save(out, optimize=True)


def main() -> None:
    """Make the table, compare, and take the pictures."""
    command = shutil.which("sitewise")
    if command is None:
        raise SystemExit("Install the command first: pip install '.[app]'.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table(folder / "customers.csv")
        arguments = ("compare", "customers.csv", "--target", "churn", "--positive", "left", "--out", "report.html")
        subprocess.run([command, *arguments], check=True, cwd=folder)
        page = folder / "report.html"
        shot(page, 1200, 3900, HERE / "report-1200.png")
        shot(page, 400, 2600, HERE / "report-400.png")
        printed(page, folder, HERE / "report-printed.png")


if __name__ == "__main__":
    main()
