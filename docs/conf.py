"""How the documentation is built: `make docs`.  Sphinx with MyST-NB, so that every page is Markdown (decision 007).

The source directory is the repository, so that links from the pages to results/ and to other files of the repository
work on the site.
"""

import html
import inspect
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import sitewise

sys.path.insert(0, str(Path(__file__).parent))
import docstrings
import source_tables

project = "sitewise"
release = version = sitewise.__version__
copyright = "the sitewise contributors"
html_title = f"sitewise {release}"
html_theme = "furo"
html_static_path = ["_static"]
html_domain_indices = False  # docs/reference/index.md is the index of modules
html_css_files = ["site.css", "reference.css"]  # cards of the front page, tables on a phone; reference pages
smartquotes = False  # f'' is a second derivative
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
myst_enable_extensions = ["colon_fence", "substitution"]
myst_substitutions = {name: made() for name, made in source_tables.TABLES.items()}
myst_heading_anchors = 3
root_doc = "docs/index"
include_patterns = ["docs/**", "results/**", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = [".*", "out", "build", "dist"]
nb_execution_mode = "cache"  # executes a tutorial whose cells have changed; to execute all, delete out/.jupyter_cache
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # that a program was compiled; tests/docs checks that no tutorial warns
nb_merge_streams = True
MAX_UNBROKEN = 13  # letters of code that stay on one line
logging.getLogger("traitlets").setLevel(logging.WARNING)  # nbclient announces every page that it executes
os.environ["MATPLOTLIBRC"] = str(Path(__file__).with_name("matplotlibrc"))
# Compilation is most of the time of the pages.  Without LLVM's optimisation it takes half of the time; these programs
# have a cache of their own, because the same programs are slower in a long fit.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ["SITEWISE_CACHE"] = str(Path(__file__).parents[1] / "out" / ".programs")
autosummary_generate = False  # the pages are written by hand
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # the base class describes a method that a subclass only implements
maximum_signature_line_length = 88
autodoc_typehints = "none"
python_use_unqualified_type_names = True


def convert_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Replace a docstring by reStructuredText."""
    lines[:] = docstrings.to_rst(obj, lines)


def class_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: object, shown: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Show the parameters of `__init__`, where autodoc shows the `*args` of a `__new__` that checks them."""
    if what != "class" or shown != "(*args, **kwargs)":
        return None
    given = [one.replace(annotation=one.empty) for one in inspect.signature(obj).parameters.values()]
    return str(inspect.Signature(given)), ""


def add_title(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give a title to a stored table that has none: the name of its file."""
    if docname.startswith("results/") and not source[0].startswith("# "):
        source[0] = f"# {docname.removeprefix('results/')}\n\n{source[0]}"


def break_names(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Allow long code to be broken after a blank or a separator, on narrow screens; keep short code on one line."""

    def marked(code: re.Match[str]) -> str:
        if len(html.unescape(re.sub(r"<[^>]*>", "", code[2]))) <= MAX_UNBROKEN:
            return f'{code[1]} short">{code[2]}</code>'
        words = re.sub(r"(?<=\w)([_.=(,/])(?=[\w&])(?![^<]*>)", r"\1<wbr>", code[2])
        return f'{code[1]}">{words}</code>'

    if "body" in context:
        context["body"] = re.sub(r'(<code class="[^"]*literal[^"]*)">(.*?)</code>', marked, context["body"])


def redirect(app: Sphinx, problem: Exception | None) -> None:
    """Let index.html at the top of the site lead to the front page."""
    Path(app.outdir, "index.html").write_text('<meta http-equiv="refresh" content="0; url=docs/index.html">\n')


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-process-signature", class_signature)
    app.connect("source-read", add_title)
    app.connect("html-page-context", break_names)
    app.connect("build-finished", redirect)
