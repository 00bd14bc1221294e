"""Check paper.json against the paper's LaTeX source, and read the printed points of its figures.

    python papers/icml2023/studies/read_paper.py PAPER.TEX

PAPER.TEX is the source with every included file after a line `%% file: NAME`.  Every table is compared cell by cell
(mean, standard deviation, bold, bold counts, n and d); the points of Figs. 1, 4, 5, of the ARD figure and the labels of
the monks-2 surface are written to printed_figures.json.  Ends with the number of cells compared and the differences.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from sitewise_icml2023 import paper
from sitewise_icml2023.registry import get

TABLES = {
    "table/seed_test_lpd.tex": ("table1", "loglik"),
    "table/seed_test_acc.tex": ("table1", "accuracy"),
    "table/new_isotropic_test_lpd.tex": ("table1-seed42", "loglik"),
    "table/new_isotropic_test_acc.tex": ("table1-seed42", "accuracy"),
    "table/t_test_lpd.tex": ("table2", "loglik"),
    "table/isotropic_sparse_test_lpd.tex": ("table3", "loglik"),
    "table/ard_test_lpd.tex": ("table-ard", "loglik"),
    "table/ard_test_acc.tex": ("table-ard", "accuracy"),
    "table/ep_test_lpd.tex": ("table-ep-init", "loglik"),
    "table/ep_test_acc.tex": ("table-ep-init", "accuracy"),
}
COLOURS = {
    "steelblue31119180": "laplace",
    "darkorange25512714": "ep",
    "forestgreen4416044": "vi",
    "black": "hybrid-vem",
}
OUT = Path(paper.__file__).with_name("printed_figures.json")
NUMBER = r"(-?\d*\.\d+)"


def cells(line: str) -> list[tuple[float, float, bool]]:
    """(mean, sd, bold) of every cell of a line of a table."""
    line = re.sub(r"\$\s*&\s*\$(?=\{\\scriptstyle)", "", line)  # Table 2 has mean and sd in columns of their own
    found = re.findall(rf"(\\bf)?\s*{NUMBER}\s*(?:\\scriptstyle)?\{{?(?:\\scriptstyle)?\{{\\pm\}}{NUMBER}", line)
    return [(float(mean), float(sd), bool(bold)) for bold, mean, sd in found]


def compare(text: str, table: str, metric: str) -> tuple[int, list[str]]:
    """The number of cells, and what differs from paper.json."""
    printed, problems, count, seen = paper.printed(table, metric), [], 0, set()
    for line in text.splitlines():
        if name := re.search(r"\{\\sc\s+([\w-]+)\}", line):
            seen.add(name[1])
            mine = [tuple(cell) for cell in printed[name[1]].values()]
            count += len(mine)
            if mine != cells(line):
                problems.append(f"{table} {metric} {name[1]}: {cells(line)} in the source, {mine} in paper.json")
            if shape := re.search(r"\(\s*(\d+),\s*(\d+)\)", line):
                record = get(name[1])
                if (record.rows, record.features + record.row_column) != (int(shape[1]), int(shape[2])):
                    problems.append(f"{name[1]}: {shape[0]} in the source, {record.rows} rows in the registry")
        elif "Bold Count" in line:
            counts = [int(n) for n in re.findall(r"\$(\d+)\$", line)]
            if counts != list(paper.bold_count(table, metric).values()):
                problems.append(f"{table} {metric}: bold counts {counts}")
    if seen != set(printed):
        problems.append(f"{table} {metric}: lines {seen ^ set(printed)} are in one of the two only")
    return count, problems


def sizes(files: dict[str, str]) -> dict[str, list[int]]:
    """(n, d) as printed; the sparse sets have a table of their own, with names and sizes in separate lines."""
    found = {}
    for name in ("table/seed_test_lpd.tex", "table/t_test_lpd.tex"):
        for set_name, n, d in re.findall(r"\{\\sc\s+([\w-]+)\}\s*&\s*\(\s*(\d+),\s*(\d+)\)", files[name]):
            found[set_name] = [int(n), int(d)]
    sparse = files["table/sparse_dataset.tex"]
    names, pairs = re.findall(r"\{\\sc\s+([\w-]+)\}", sparse), re.findall(r"\(\s*(\d+),\s*(\d+)\)", sparse)
    return found | {name: [int(n), int(d)] for name, (n, d) in zip(names, pairs, strict=True)}


def plots(text: str) -> list[tuple[str, list[list[float]]]]:
    """(options, points) of every plot of a picture."""
    found = re.findall(r"\\addplot \[(.*?)\]\s*table ?\{%\n(.*?)\};", text, re.S)
    numbers = [(o, [re.findall(r"\S+", line) for line in body.splitlines()]) for o, body in found]
    return [(o, [[float(x) for x in p] for p in points if p and p[0] != "x"]) for o, points in numbers]


def relative_accuracy(text: str) -> dict[str, Any]:
    """Points by method in the order of the sets, and (mean, sd) from the legend."""
    out: dict[str, list[float]] = {method: [] for method in COLOURS.values()}
    for options, points in plots(text):
        colour = next((m for c, m in COLOURS.items() if c in options.split(", ")), None)
        if colour and "only marks" in options:
            out[colour].append(points[0][1])
    legend = re.findall(r"\{(\w+) \(mean: ([\d.]+), std.dev.: ([\d.]+)\)", text)
    names = {"Ours": "hybrid-vem", "VI": "vi", "LA": "laplace", "EP": "ep"}
    return {"points": out, "legend": {names[m]: [float(mean), float(sd)] for m, mean, sd in legend}}


def figures(files: dict[str, str]) -> dict[str, Any]:
    one_a, one_b = (plots(files[f"fig/tikz/fig1{part}.tex"]) for part in "ab")
    curves = [points for _, points in one_a if len(points) > 2]
    path = next(points for options, points in plots(files["fig/tikz/fig4b.tex"]) if options.startswith("draw=orange"))
    marks = plots(files["fig/tikz/fig4b.tex"])[-3:]
    elbo, ep = [points for _, points in plots(files["fig/tikz/fig4a.tex"]) if len(points) > 2]
    surface = files["fig/tikz/monks-2/CVI_nlpd.tex"]
    labels = [float(x) for x in re.findall(r"\{\$(-\d\.\d+)\$\}", surface)]
    at = [points[0] for options, points in plots(surface) if options.startswith("semithick")]
    return {
        "sizes": sizes(files),
        "fig1": {name: [y for _, y in points] for name, points in zip(("mcmc", "vi", "hybrid"), curves, strict=True)}
        | {"vi_log_density": [y for _, y in next(p for _, p in one_b if len(p) > 2)]}
        | {"best": {"vi": one_a[0][1][0][0], "hybrid": one_a[1][1][0][0]}},
        "fig4": relative_accuracy(files["fig/tikz/classification_relative_acc.tex"]),
        "fig-ard": relative_accuracy(files["fig/tikz/classification_relative_lpd_acc.tex"]),
        "fig5": {"elbo": [y for _, y in elbo], "ep": [y for _, y in ep], "path": path}
        | {name: points[0] for name, (_, points) in zip(("best", "stop", "start"), marks, strict=True)},
        "fig-monks-2": [{"at": point, "log_density": value} for point, value in zip(at, labels, strict=True)],
    }


def main() -> None:
    parts = re.split(r"^%% file: (\S+)\n", Path(sys.argv[1]).read_text(), flags=re.M)
    files = dict(zip(parts[1::2], parts[2::2], strict=True))
    found = [compare(files[name], *where) for name, where in TABLES.items()]
    made = figures(files)
    OUT.write_text(json.dumps(made, separators=(",", ":")).replace('"fig', '\n"fig') + "\n")
    worst = max(abs(a - b) for key, curve in paper.fig1()["evidence"].items() for a, b in
                zip(made["fig1"][key], curve, strict=True))  # fmt: skip
    print(
        f"{sum(count for count, _ in found)} cells of {len(found)} tables; Fig. 1 in paper.json is off by {worst:.1e}"
    )
    print("\n".join(problem for _, problems in found for problem in problems) or "no differences")


if __name__ == "__main__":
    main()
