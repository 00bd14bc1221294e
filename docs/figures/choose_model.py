"""Draw the chart of docs/how-to/which-model.md, choose-a-model.svg: from the question to the argument.

    python docs/figures/choose_model.py

The chart is 400 units wide, so that its text is readable on a phone.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, MARGIN, ROW, GAP = 400, 10, 34, 6
SHOWN = 460  # pixels, where there is room
SPLIT = 196  # where the answers begin

# Question; lines of the answer.  Names in quotes are values of `likelihood=` unless an argument is named.
CHART = {
    "1  What is y?  (likelihood=)": (
        ("yes or no, or one of several", ("GPClassifier()",)),
        ("an ordered label: 1 to 5", ("GPOrdinal()",)),
        ("a count", ('"poisson", exposure=', 'or "negative_binomial"')),
        ("successes in n trials", ('"binomial", trials=',)),
        ("any number", ('"gaussian"', 'outliers: "student_t"')),
        ("a positive amount", ('"gamma", "log_normal"', 'often zero: "tweedie"')),
        ("time until an event", ('"weibull", event=',)),
        ("a value below a limit", ('"censored_gaussian", lower=',)),
        ("a share, an angle", ('"beta", "von_mises"',)),
    ),
    "2  How are the rows related?": (
        ("they are not", ("default kernel",)),
        ("shops, patients, regions", ('groups="shop"',)),
        ("a time series", ("kernels.Matern52()", "season: kernels.Periodic()")),
        ("several series", ('structure=Series("sensor")',)),
    ),
    "3  What do you need?": (
        ("predictions", ("default",)),
        ("the best predictions, slower", ('kernel="average"',)),
        ("the effect of each column", ('kernel="additive"',)),
        ("no approximation", ('method="mcmc"',)),
    ),
    "4  How many rows?": (
        ("up to 2 000", ("full GP (default)",)),
        ("more", ("sparse GP (default)",)),
        ("more, and time is the input", ("exact, linear time (default)",)),
        ("above 10 000, many columns", ("compare with boosted trees",)),
    ),
}


def text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}"/>'


def draw() -> str:
    """Return the chart as SVG."""
    parts, y = [], 8.0
    for title, rows in CHART.items():
        parts.append(text(MARGIN, y + 18, title, 'font-size="15" font-weight="bold" fill="#0072B2"'))
        y += 28
        for question, answer in rows:
            height = ROW if len(answer) > 1 else ROW - 6
            middle = y + height / 2
            parts.append(box(MARGIN, y, SPLIT - MARGIN - 18, height, "#eef2f6"))
            parts.append(text(MARGIN + 8, middle + 4, question, 'font-size="11.5" fill="#222"'))
            parts.append(f'<path d="M{SPLIT - 15} {middle} h9 m-4 -3.5 l4 3.5 l-4 3.5" fill="none" stroke="#0072B2"/>')
            parts.append(box(SPLIT, y, WIDTH - SPLIT - MARGIN, height, "#dcebf5"))
            first = middle + 4 - 7 * (len(answer) - 1)
            for k, line in enumerate(answer):
                style = 'font-size="10.5" font-family="monospace" fill="#123"'
                parts.append(text(SPLIT + 7, first + 14 * k, line, style))
            y += height + GAP
        y += 8
    frame = f'<rect width="{WIDTH}" height="{y}" rx="8" fill="white"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" width="{SHOWN}" font-family="sans-serif">'
    )
    title = "<title>Choose a model: four questions and the argument for each answer</title>"
    return "\n".join([head, title, frame, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("choose-a-model.svg").write_text(draw())
