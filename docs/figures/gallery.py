"""Thumbnails of the gallery: `python docs/figures/gallery.py [NAME ...]`, with the extra `docs` installed.

Runs the cells of docs/gallery.md and saves the figure of each example, or the first panel if it has several, as
docs/figures/gallery/NAME.png, with the NAME that the grid at the top of the page links to the example.
"""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "gallery.md"
WIDTH = 320  # pixels
CELL = re.compile(r"^```\{code-cell\} python\n(?::[^\n]*\n)*(.*?)^```", re.DOTALL | re.MULTILINE)
CARD = re.compile(r"\[!\[[^\]]*\]\(figures/gallery/(\w+)\.png\)\n[^\]]*\]\(#([^)]+)\)")


def anchor(title: str) -> str:
    """The anchor of a heading on the built page."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def examples() -> tuple[str, dict[str, str]]:
    """The cells above the first example, and the cells of each example by the name of its thumbnail."""
    first, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    names = {target: name for name, target in CARD.findall(first)}
    cells = {names[anchor(text.splitlines()[0])]: "\n".join(CELL.findall(text)) for text in sections}
    return "\n".join(CELL.findall(first)), cells


def main(wanted: list[str]) -> None:
    os.environ["MATPLOTLIBRC"] = str(HERE.parent / "matplotlibrc")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from PIL import Image

    pyplot.show = lambda: None
    imports, cells = examples()
    (HERE / "gallery").mkdir(exist_ok=True)
    for name in wanted or cells:
        pyplot.close("all")
        exec(compile(f"{imports}\n{cells[name]}", str(PAGE), "exec"), {"__name__": "page"})
        path = HERE / "gallery" / f"{name}.png"
        figure = pyplot.gcf()
        figure.canvas.draw()  # the layout is computed here
        first = figure.axes[0].get_tightbbox().transformed(figure.dpi_scale_trans.inverted()).padded(0.05)
        figure.savefig(path, bbox_inches=first if len(figure.axes) > 1 else None)
        picture = Image.open(path).convert("RGB")
        picture.thumbnail((WIDTH, WIDTH))
        picture.quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
