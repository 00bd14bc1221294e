"""The summary of a fitted formula: estimates with intervals, smooth and group terms, evidence, leave-one-out."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from typing import Any

import numpy as np

LINEAR_HEAD = ("term", "estimate", "error", "low", "high")
TERM_HEAD = ("term", "sd", "sd low", "sd high", "range", "range low", "range high", "share", "parameters")
PARAMETER_HEAD = ("parameter", "value", "low", "high")
HEADS = {
    "linear": LINEAR_HEAD, "terms": TERM_HEAD, "varying_linear": LINEAR_HEAD, "varying_terms": TERM_HEAD,
    "parameters": PARAMETER_HEAD,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Summary:
    """Summary of a fitted formula; `print` shows it as text, a notebook as tables.

    Attributes
    ----------
    formula, likelihood, method : str
        What was fitted.
    outcome : str
        The class whose probability is modelled, such as "P(use = Y)", or the order of the labels; empty for numbers.
    rows : int
        The number of training rows.
    groups : dict
        The number of levels per group.
    level : float
        The level of the intervals.
    linear : list of tuple
        Per coefficient: name, posterior mean, standard deviation, ends of the interval.
    terms : list of tuple
        Per smooth or group term: name; standard deviation with interval; range (lengthscale) with interval; share of
        the variance of f over the rows; effective number of parameters.  None if a term has no such number.
    varying : str
        The second latent function in words, such as "log scale"; empty if no parameter varies.
    varying_linear, varying_terms : list of tuple
        The same for the second function, on its own scale.
    parameters : list of tuple
        Per parameter of the likelihood: name, value, ends of the interval.
    evidence : float
        The log evidence, in nats.
    loo, loo_error : float
        The sum of the leave-one-out log densities, and its standard error.
    effective : float
        The effective number of parameters of f, and of a second function.
    seconds : float
        The time of the fit.
    warnings : tuple of str
        The warnings of the fit.
    """

    formula: str
    likelihood: str
    method: str
    outcome: str
    rows: int
    groups: dict[str, int]
    level: float
    linear: list[tuple[Any, ...]]
    terms: list[tuple[Any, ...]]
    varying: str
    varying_linear: list[tuple[Any, ...]]
    varying_terms: list[tuple[Any, ...]]
    parameters: list[tuple[Any, ...]]
    evidence: float
    loo: float
    loo_error: float
    effective: float
    seconds: float
    warnings: tuple[str, ...]

    def _facts(self) -> list[tuple[str, str]]:
        groups = ", ".join(f"{name} {count}" for name, count in self.groups.items())
        return [
            ("formula", self.formula),
            ("likelihood", f"{self.likelihood}, {self.method}" + (f"; {self.outcome}" if self.outcome else "")),
            ("rows", f"{self.rows}" + (f"; levels: {groups}" if groups else "")),
            ("evidence", f"{self.evidence:.2f} nats"),
            ("leave-one-out", f"{self.loo:.2f} ± {self.loo_error:.2f} nats"),
            ("parameters", f"{self.effective:.1f} effective"),
            ("time", f"{self.seconds:.1f} s"),
        ]

    def _tables(self) -> list[tuple[str, Sequence[str], list[tuple[Any, ...]]]]:
        within = f"({self.level:.0%} intervals)"
        found = [
            (f"linear terms {within}", LINEAR_HEAD, self.linear),
            ("smooth and group terms", TERM_HEAD, self.terms),
            (f"{self.varying}: linear terms {within}", LINEAR_HEAD, self.varying_linear),
            (f"{self.varying}: smooth and group terms", TERM_HEAD, self.varying_terms),
            ("parameters of the likelihood", PARAMETER_HEAD, self.parameters),
        ]
        return [one for one in found if one[2]]

    def __str__(self) -> str:
        facts = self._facts()
        width = max(len(name) for name, _ in facts)
        lines = [f"{name:{width}s}  {text}" for name, text in facts]
        for title, head, rows in self._tables():
            lines += ["", title, *aligned(head, rows)]
        lines += [f"\nwarning: {text}" for text in self.warnings]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in self._facts())
        out = [f"<table>{facts}</table>"]
        for title, head, rows in self._tables():
            names = "".join(f"<th>{name}</th>" for name in head)
            cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row)) for row in rows)
            body = "".join(f"<tr>{row}</tr>" for row in cells)
            out.append(f"<table><caption>{html.escape(title)}</caption><tr>{names}</tr>{body}</table>")
        out += [f"<p>warning: {html.escape(text)}</p>" for text in self.warnings]
        return "".join(out)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain data, for JSON."""
        out = dataclasses.asdict(self)
        for name, head in HEADS.items():
            out[name] = [dict(zip(head, row, strict=True)) for row in getattr(self, name)]
        return out

    def to_frame(self, table: str = "linear") -> Any:
        """Return one of the tables as a data frame of pandas.

        Parameters
        ----------
        table : str, default="linear"
            "linear", "terms" or "parameters"; "varying_linear" or "varying_terms" for a second function.
        """
        import pandas  # optional

        if table not in HEADS:
            raise ValueError(
                "table must be 'linear', 'terms' or 'parameters', or of a second function 'varying_linear' or "
                f"'varying_terms', got {table!r}."
            )
        frame = pandas.DataFrame(getattr(self, table), columns=list(HEADS[table]))
        return frame.set_index(HEADS[table][0])


def _cells(row: tuple[Any, ...], digits: str = "{:.4g}") -> list[str]:
    return [_shown(cell, digits) for cell in row]


def _shown(cell: Any, digits: str) -> str:
    if isinstance(cell, str):
        return cell
    if cell is None:
        return "–"
    return "?" if np.isnan(cell) else "0" if cell == 0 else digits.format(cell)


def aligned(head: Sequence[str], rows: list[tuple[Any, ...]], digits: str = "{:.4g}") -> list[str]:
    """Return the lines of a table: names on the left, numbers on the right."""
    lines = [list(head), *(_cells(row, digits) for row in rows)]
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join([line[0].ljust(width[0]), *map(str.rjust, line[1:], width[1:])]).rstrip() for line in lines]
