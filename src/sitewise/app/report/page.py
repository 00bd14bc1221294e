"""HTML building blocks of the reports: markup, style, script, date and versions.  All text is escaped here."""

from __future__ import annotations

import html
import importlib.metadata
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

# The page may load nothing from outside, even if a section contains an error.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

_LIGHT = """--ground: #ffffff; --card: #f6f7f9; --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --accent: #2f6fd6;
  --c0: #2f6fd6; --c1: #d9822b; --c2: #2a9d6f; --c3: #b5478f; --c4: #7a8699;"""
_DARK = """--ground: #12161c; --card: #1b2129; --ink: #e7ebf0; --soft: #a3aebb; --line: #333d49; --accent: #7fb0ff;
  --c0: #7fb0ff; --c1: #f0ab5f; --c2: #5fd0a0; --c3: #e58ac4; --c4: #9aa6b5;"""

STYLE = """
:root { color-scheme: light dark; LIGHT }
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) { DARK } }
:root[data-theme=dark] { color-scheme: dark; DARK }
:root[data-theme=light] { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 960px; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
header { display: flex; gap: 1rem; align-items: flex-start; justify-content: space-between; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .2rem 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p { margin: .4rem 0 .8rem; max-width: 70ch; }
.soft { color: var(--soft); } .small { font-size: .875rem; }
.lead { background: var(--card); border-left: 4px solid var(--accent); padding: .8rem 1rem; border-radius: 0 8px 8px 0;
  max-width: none; }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .925rem; }
th, td { padding: .4rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
tr.best td { font-weight: 650; }
pre { background: var(--card); padding: .8rem 1rem; border-radius: 8px; font-size: .84rem; white-space: pre-wrap; }
ul { padding-left: 1.2rem; }
button { font: inherit; white-space: nowrap; flex-shrink: 0; color: var(--ink); background: var(--card);
  border: 1px solid var(--line); border-radius: 999px; padding: .3rem .85rem; cursor: pointer; }
button[aria-selected=true] { background: var(--accent); border-color: var(--accent); color: var(--ground); }
button:focus-visible, [data-tip]:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.tabs { display: flex; flex-wrap: wrap; gap: .4rem; margin: .6rem 0; }
figure { margin: .5rem 0 1rem; } figcaption { color: var(--soft); font-size: .875rem; max-width: 70ch; }
svg { width: 100%; height: auto; display: block; max-width: 640px; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; } svg .name { fill: var(--ink); }
svg .axis { stroke: var(--line); fill: none; } svg .cell { shape-rendering: crispEdges; }
svg .cell:hover { stroke: #ffffff; stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .875rem; color: var(--soft); }
.legend .key { display: inline-block; width: 34px; height: 14px; margin-right: .35em; vertical-align: -2px; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)); gap: .5rem 1.5rem; }
.lead p { max-width: none; margin: .3rem 0; } .lead p:first-child { font-weight: 650; }
.title { font-weight: 650; font-size: .925rem; margin-left: .3rem; }
details { margin: 2.2rem 0; border-top: 1px solid var(--line); padding-top: .6rem; }
summary { font-size: 1.15rem; font-weight: 700; cursor: pointer; } h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
thead th { vertical-align: bottom; white-space: normal; min-width: 4.2rem; }
#tip { position: fixed; pointer-events: none; background: var(--ink); color: var(--ground); padding: .3rem .55rem;
  border-radius: 6px; font-size: .82rem; max-width: 18rem; white-space: pre-line; z-index: 9; }
@media print {
  :root, :root[data-theme=dark] { color-scheme: light; LIGHT }
  body { font-size: 11pt; } main { max-width: none; padding: 0; }
  button, #tip { display: none !important; } [role=tabpanel] { display: block !important; }
  figure, tr, .lead, .scroll { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; } th, td { padding: .25rem .4rem; white-space: normal; }
  .panels { grid-template-columns: 1fr 1fr; }
}
""".replace("DARK", _DARK).replace("LIGHT", _LIGHT)

SCRIPT = """
'use strict';
const tip = document.createElement('div');
tip.id = 'tip'; tip.hidden = true; tip.setAttribute('role', 'status'); document.body.append(tip);
function show(event) {
  const at = event.target.closest ? event.target.closest('[data-tip]') : null;
  tip.hidden = !at;
  if (!at) return;
  tip.textContent = at.dataset.tip;
  const box = at.getBoundingClientRect(), room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  const above = box.top - tip.offsetHeight - 8;
  tip.style.left = Math.max(8, Math.min(room, box.left + box.width / 2 - tip.offsetWidth / 2)) + 'px';
  tip.style.top = (above > 4 ? above : box.bottom + 8) + 'px';
}
for (const kind of ['pointerover', 'focusin', 'click']) document.addEventListener(kind, show);
document.addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });
function choose(tab) {
  const list = tab.closest('[role=tablist]');
  for (const other of list.querySelectorAll('[role=tab]')) {
    const on = other === tab;
    other.setAttribute('aria-selected', on); other.tabIndex = on ? 0 : -1;
    document.getElementById(other.getAttribute('aria-controls')).hidden = !on;
  }
}
for (const list of document.querySelectorAll('[role=tablist]')) {
  const tabs = [...list.querySelectorAll('[role=tab]')];
  list.hidden = false;
  tabs.forEach((tab, i) => {
    tab.addEventListener('click', () => choose(tab));
    tab.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      choose(next); next.focus();
    });
  });
  choose(tabs[0]);
}
const theme = document.getElementById('theme');
theme.hidden = false;
theme.addEventListener('click', () => {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = (root.dataset.theme || (dark ? 'dark' : 'light')) === 'dark' ? 'light' : 'dark';
});
"""


def text(value: Any) -> str:
    """Escape a value for use inside an element or a quoted attribute."""
    return html.escape(str(value), quote=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], best: int | None = None) -> str:
    """Return an HTML table; cells are escaped, row `best` is highlighted."""
    head = "".join(f"<th scope=col>{text(c)}</th>" for c in columns)
    body = "".join(
        f"<tr{' class=best' if k == best else ''}>" + "".join(f"<td>{text(c)}</td>" for c in row) + "</tr>"
        for k, row in enumerate(rows)
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def tabs(name: str, panels: Mapping[str, str]) -> str:
    """Return tabs that switch between panels; without scripts all panels are shown.  Titles are text, panels HTML."""
    buttons = "".join(
        f"<button role=tab id={name}-{k} aria-controls={name}-panel-{k}>{text(title)}</button>"
        for k, title in enumerate(panels)
    )
    bodies = "".join(
        f"<div role=tabpanel id={name}-panel-{k} aria-labelledby={name}-{k}>{body}</div>"
        for k, body in enumerate(panels.values())
    )
    return f"<div class=tabs role=tablist hidden>{buttons}</div>{bodies}"


def section(title: str, *parts: str) -> str:
    """Return a section; the title is text, the parts are HTML."""
    return f"<section><h2>{text(title)}</h2>{''.join(parts)}</section>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of text, with the CSS class `kind` if given."""
    return f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"


def figure(chart: str, caption: str = "", title: str = "") -> str:
    """Return a chart with its title and caption, both of them text."""
    above = f"<div class=title>{text(title)}</div>" if title else ""
    return f"<figure>{above}{chart}{f'<figcaption>{text(caption)}</figcaption>' if caption else ''}</figure>"


def panels(*parts: str) -> str:
    """Return parts side by side, if the page is wide enough."""
    return f"<div class=panels>{''.join(parts)}</div>"


def folded(title: str, *parts: str) -> str:
    """Return a part that is folded until the reader opens it."""
    return f"<details><summary>{text(title)}</summary>{''.join(parts)}</details>"


def notes(data: Mapping[str, Any]) -> list[str]:
    """Return a section with the notes on a table; an empty list without notes."""
    if not data["notes"]:
        return []
    return [section("Notes on the data", "<ul>" + "".join(f"<li>{text(n)}</li>" for n in data["notes"]) + "</ul>")]


def date_and_versions() -> dict[str, Any]:
    """Return the current date and the versions of Python and the main libraries.  No decision depends on the date."""
    libraries = {name: importlib.metadata.version(name) for name in ("jax", "numpy", "scipy", "scikit-learn")}
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
    return {"date": now, "versions": {"Python": platform.python_version(), **libraries}}


def page(title: str, subtitle: str, sections: Iterable[str], made: str = "") -> str:
    """Return the whole HTML file; sections are HTML, `made` is a sentence on date, versions and command."""
    from sitewise import __version__

    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><div><h1>{text(title)}</h1><p class=soft>{text(subtitle)}</p></div>"
        "<button id=theme hidden>light / dark</button></header>"
        f"{''.join(sections)}"
        f'<p class="soft small">Made by sitewise {text(__version__)}. {text(made)}</p></main>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )
