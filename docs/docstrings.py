"""Docstrings for the reference: numpydoc sections become field lists, indented blocks keep their layout.

Docstrings are plain text.  A section is a title underlined with hyphens, and an entry of Parameters, Attributes or
Returns is a line `name : type, default=value` with an indented description.  A class need not repeat the parameters
that a base class documents, and `as in GPRegressor.effect` in place of a type refers to another function.  `problems`
lists what is wrong with a docstring; the tests require that it finds nothing.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import sitewise

LISTS = ("Parameters", "Attributes", "Returns")  # sections of entries
OTHERS = ("Examples", "See Also", "Notes", "References")
_HEAD = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.+?))?(?:, default=(.+))?")
_SHARED = "as in "  # followed by the function that describes the parameters
_HOMES = ("likelihoods", "kernels", "means", "evidence", "inference", "estimators", "mcmc", "parameters")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_LAID_OUT = re.compile(r"[^\s.:;?!] {2,}\S")  # columns of text, unlike the two spaces after a sentence


class Entry(NamedTuple):
    """One entry of a section: `**side` or `low, high`, its type, its default as Python code, its description."""

    head: str
    kind: str
    default: str | None
    text: list[str]

    @property
    def names(self) -> list[str]:
        return [name.lstrip("*") for name in self.head.split(", ")]


def sections(doc: str) -> dict[str, list[str]]:
    """Return the lines of each section of a docstring; the lines before the first section have the title ''."""
    lines = inspect.cleandoc(doc).split("\n")
    found: dict[str, list[str]] = {"": []}
    title = ""
    for at, line in enumerate(lines):
        if at + 1 < len(lines) and line and re.fullmatch("-{3,}", lines[at + 1]):
            title = line
            found[title] = []
        elif not (re.fullmatch("-{3,}", line) and lines[at - 1] == title):
            found[title].append(line)
    return found


def entries(lines: Iterable[str]) -> list[Entry]:
    """Return the entries of a section; ValueError for a line that is neither an entry nor an indented description."""
    found: list[Entry] = []
    for line in lines:
        if not line or line.startswith("    "):
            if found:
                found[-1].text.append(line[4:])
            continue
        head = _HEAD.fullmatch(line)
        if head is None:
            raise ValueError(f"the line {line!r} is not 'name : type' and not indented")
        found.append(Entry(head[1], head[2] or "", head[3], []))
    return found


def _entries_of(obj: Any, title: str) -> list[Entry]:
    return entries(sections(obj.__doc__ or "").get(title, []))


def signature(obj: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function or class by name; none for exceptions, enumerations and protocols."""
    if inspect.isclass(obj) and (issubclass(obj, BaseException | enum.Enum) or getattr(obj, "_is_protocol", False)):
        return {}
    found = {name: one for name, one in inspect.signature(obj).parameters.items() if name not in ("self", "cls")}
    for field in dataclasses.fields(obj) if dataclasses.is_dataclass(obj) else ():
        if field.default_factory is not dataclasses.MISSING and field.name in found:
            found[field.name] = found[field.name].replace(default=field.default_factory())
    return found


def parameters(obj: Any) -> list[Entry]:
    """Return the entries of Parameters in the order of the signature, those of base classes included."""
    own = _entries_of(obj, "Parameters")
    if not inspect.isclass(obj):
        return own
    taken = {name for entry in own + _entries_of(obj, "Attributes") for name in entry.names}
    inherited: list[Entry] = []
    order = list(signature(obj))
    for base in obj.__mro__[1:]:
        if base.__module__.startswith("sitewise"):
            for entry in _entries_of(base, "Parameters"):
                if not taken & set(entry.names) and set(entry.names) <= set(order):
                    inherited.append(entry)
                    taken |= set(entry.names)
    return sorted(own + inherited, key=lambda entry: order.index(entry.names[0]) if entry.names[0] in order else -1)


def _differs(written: str | None, actual: Any) -> bool:
    """Return whether a written default is not the default of the signature."""
    if written is None or actual is inspect.Parameter.empty:
        return written is not None or actual is not inspect.Parameter.empty
    try:
        value = eval(written, {**vars(sitewise), "inf": float("inf")})
    except Exception:
        return True
    return value is not actual and (type(value) is not type(actual) or repr(value) != repr(actual))


def _unlike(formal: dict[str, inspect.Parameter], entry: Entry) -> Iterator[str]:
    """Yield which parameters differ from those of the function that the entry refers to."""
    other = signature(_reached(entry.kind.removeprefix(_SHARED)))
    for name in entry.names:
        if name not in formal or name not in other or formal[name].default != other[name].default:
            yield f"{name} is not the parameter of {entry.kind.removeprefix(_SHARED)}"


def _reached(path: str) -> Any:
    """Return the object at a path within `sitewise`, such as GPRegressor.effect."""
    return functools.reduce(getattr, path.split("."), sitewise)


def problems(obj: Any) -> Iterator[str]:
    """Yield what is wrong with the docstring of a function, method or class."""
    doc = obj.__doc__
    if not doc:
        yield "there is no docstring"
        return
    for title in sections(doc):
        if title and title not in LISTS + OTHERS:
            yield f"the section {title!r} is not one of {', '.join(LISTS + OTHERS)}"
    try:
        given, attributes = parameters(obj), _entries_of(obj, "Attributes")
        listed = given + attributes + _entries_of(obj, "Returns")
    except ValueError as error:
        yield str(error)
        return
    for entry in listed:
        if not "".join(entry.text).strip() and entry.head != "self":
            yield f"{entry.head} has no description"
    formal = signature(obj)
    for entry in given:
        if entry.kind.startswith(_SHARED):
            yield from _unlike(formal, entry)
            continue
        if not entry.kind and not entry.head.startswith("*"):
            yield f"{entry.head} has no type"
        for name in entry.names:
            if name not in formal:
                yield f"{name} is documented and is no parameter"
            elif formal[name].kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
                default = formal[name].default
                if _differs(entry.default, default):
                    yield f"{name}: the default {entry.default} is documented, and {default!r} is the default"
    documented = {name for entry in given + attributes for name in entry.names}
    yield from (f"the parameter {name} is not documented" for name in formal if name not in documented)
    if inspect.isclass(obj) and dataclasses.is_dataclass(obj):
        known = {name for base in obj.__mro__ for name in [*vars(base), *vars(base).get("__annotations__", {})]}
        for entry in attributes:
            yield from (f"{name} is documented and is no attribute" for name in entry.names if name not in known)


# -- reStructuredText ------------------------------------------------------------------------------------------------


def to_rst(obj: Any, lines: list[str]) -> list[str]:
    """Return the docstring of an object as reStructuredText."""
    out: list[str] = []
    parts = sections("\n".join(lines))
    if not getattr(obj, "__module__", "sitewise").startswith("sitewise"):
        return lines  # another package's
    if inspect.isclass(obj) and "Parameters" not in parts and parameters(obj):
        parts = {"": parts.pop(""), "Parameters": [], **parts}
    for title, text in parts.items():
        if title in LISTS:
            found = parameters(obj) if title == "Parameters" else entries(text)
            out += [f":{title}:", "", *textwrap.indent("\n".join(_definitions(found)), "    ").split("\n"), ""]
        elif title == "See Also":
            out += [".. seealso::", "", *textwrap.indent("\n".join(_links(text)), "    ").split("\n"), ""]
        elif title == "Examples":
            out += [".. rubric:: Examples", "", *text, ""]
        else:
            out += [*([f".. rubric:: {title}", ""] if title else []), *_prose(text)]
    return out


def _definitions(found: list[Entry]) -> Iterator[str]:
    for entry in found:
        head = ", ".join(f"**{_plain(name)}**" for name in entry.head.split(", "))
        kind = re.sub(r"\b[A-Z][\w.]+\b", lambda name: _linked(name[0]), _plain(entry.kind))
        if entry.default is not None:
            kind = f"{kind}, default= ``{entry.default}``"
        yield f"{head} : {kind}" if kind else head
        yield from (f"    {line}" for line in (_prose(entry.text) or ["\\ "]))
        yield ""


def _linked(name: str) -> str:
    """Return a name within a type as a link to the class, if it is one of the library."""
    for home in (sitewise, *(getattr(sitewise, module) for module in _HOMES)):
        if hasattr(home, name.partition(".")[0]):
            return f":py:obj:`{name} <{home.__name__}.{name}>`"
    return name


def _links(lines: list[str]) -> Iterator[str]:
    """Yield the lines `name : description` of a See Also section."""
    for line in filter(None, lines):
        name, _, about = line.strip().partition(" : ")
        yield f"- :py:obj:`{name}`: {_inline(about)}" if about else f"- :py:obj:`{name}`"


def _prose(lines: list[str]) -> list[str]:
    out: list[str] = []
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = block.split("\n")
        listed = rows[0].startswith("- ")
        if not listed and (all(row.startswith(" ") for row in rows) or any(map(_LAID_OUT.search, rows))):
            out += [".. code-block:: none", "", *(f"    {row}" for row in textwrap.dedent(block).split("\n")), ""]
        elif block:
            out += [*_inline(block).split("\n"), ""]
    return out


def _inline(text: str) -> str:
    """Return plain text with escaped markup; `names` in backticks become links where the reference has them."""
    pieces = re.split(r"`([^`]+)`", text)
    for k, piece in enumerate(pieces):
        if not k % 2:
            pieces[k] = _plain(piece)
        else:
            code = " ".join(piece.split())
            pieces[k] = f":py:obj:`{code}`" if _NAME.fullmatch(code) else f"``{code}``"
    # Code must not touch a letter on either side.
    return "\\ ".join(pieces) if len(pieces) > 1 else pieces[0]


def _plain(text: str) -> str:
    return re.sub(r"([\\*|_])", r"\\\1", text)
