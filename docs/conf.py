"""How the documentation is built: `make docs`.  Sphinx with MyST-NB, so that every page is Markdown (decision 007)."""

import logging
import os
import re
from pathlib import Path

from sphinx.application import Sphinx

import sitewise

project = "sitewise"
release = version = sitewise.__version__
copyright = "the sitewise contributors"
html_title = f"sitewise {release}"
html_theme = "furo"
smartquotes = False  # f'' is a second derivative
extensions = ["myst_nb", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nb_execution_mode = "cache"  # executes a tutorial whose cells have changed; to execute all, delete out/.jupyter_cache
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # that a program was compiled; tests/docs checks that no tutorial warns
nb_merge_streams = True
logging.getLogger("traitlets").setLevel(logging.WARNING)  # nbclient announces every page that it executes
os.environ["MATPLOTLIBRC"] = str(Path(__file__).with_name("matplotlibrc"))
autodoc_default_options = {"members": True, "member-order": "bysource", "imported-members": True}
autodoc_typehints = "none"
python_use_unqualified_type_names = True


def _escaped(line: str) -> str:
    """Plain text as reStructuredText; `names` in backticks become code."""
    pieces = re.split(r"`([^`]+)`", line)
    for k, piece in enumerate(pieces):
        pieces[k] = f"``{piece.strip()}``" if k % 2 else re.sub(r"([\\*|_])", r"\\\1", piece)
    # Code must not touch a letter on either side.
    return "\\ ".join(pieces) if len(pieces) > 1 else pieces[0]


def as_written(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Our docstrings are plain text: paragraphs stay paragraphs, and indented blocks keep their layout."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = block.split("\n")
        if len(rows) > 1 and re.fullmatch(r"-{3,}", rows[1].strip()):
            out += [f"**{rows[0].strip()}**", ""]
            rows = rows[2:]
        laid_out = any(row.startswith(" ") or re.search(r"\S {2,}\S", row.replace(".  ", ". ")) for row in rows)
        if rows and laid_out:
            out += ["::", "", *(f"    {row}" for row in rows), ""]
        else:
            out += [*(_escaped(row) for row in rows), ""]
    lines[:] = out


def replace_outside_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replaces links to files outside docs/ by the file's name, so that the site has no link that leads nowhere."""
    pages = Path(app.srcdir).resolve()
    folder = (pages / docname).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        inside = target.is_relative_to(pages)
        return link[0] if inside else f"{link[1]} (`{target.relative_to(pages.parent)}`)"

    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)", named, source[0])


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", as_written)
    app.connect("source-read", replace_outside_links)
