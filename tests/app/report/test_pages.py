"""The reports: self-contained, escaped, and working in a browser."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from sitewise.app.report import certificate_report, comparison_report, demo_report, surface_report

EVIL = "<script>alert(1)</script>\"'&"
GRID = {
    "log_lengthscale": [0.0, 1.0, 2.0],
    "log_sigma": [-1.0, 0.0, 1.0],
    "surfaces": {
        "laplace": [[-0.9, -0.5, -0.8], [-0.6, -0.3, -0.5], [-0.7, None, -0.6]],
        "vi": [[-0.9, -0.5, -0.8], [-0.6, -0.4, -0.5], [-0.7, -0.5, -0.6]],
        "mcmc": [[-0.9, -0.5, -0.8], [-0.6, -0.2, -0.5], [-0.7, -0.5, -0.6]],
    },
    "optima": {
        "laplace": {"lengthscale": 2.7, "sigma": 1.0, "evidence": -0.3, "converged": True},
        "vi": {"lengthscale": 3.0, "sigma": 1.2, "evidence": -0.4, "converged": False},
    },
}
DATA = {
    "file": EVIL, "rows": 64, "target": EVIL, "likelihood": "probit", "classes": ["no", EVIL], "features": ["a", EVIL],
    "notes": [EVIL], "side": {"exposure": "e"},
}  # fmt: skip
CURVE = {"predicted": [0.1, 0.9], "observed": [0.2, 0.8], "count": [5, 50], "error": [0.13, 0.04]}
OF_CLASSES = {"accuracy": 0.9, "auc": 0.95, "brier": 0.1}
OF_VALUES = {"rmse": 2.0, "mae": 1.5, "crps": 1.1, "coverage": 0.91}


def _method(name, p, scores=OF_CLASSES):
    return {
        "name": name, "log_density": -0.2, "p_value": p, "calibration_error": 0.05, "converged": 5,
        "evidence_per_row": None if name in ("baseline", "trees") else -0.3, "seconds": 1.0,
        "difference_to_winner": -0.01, "warning": None, **scores,
    }  # fmt: skip


FIT = {
    "method": "vi", "report": EVIL, "magnitudes": [2.0], "lengthscales": [[0.5, 20.0]], "one_lengthscale": False,
}  # fmt: skip
OUTLIERS = [{"row": 3, "target": EVIL, "prediction": "no", "log_density": -4.0, "chance": 0.02}]
TEXTS = [EVIL, "a", "b", "a rather long name of a level", "d", "e"]
SHARE = {"alone": 0.3, "total": 0.5, "alone_error": 0.1, "total_error": 0.3}
MADE = {"date": "2030-01-02 03:04", "versions": {"Python": "3", EVIL: "1"}, "seconds": 12.0, "typed": EVIL}


def _effect(column, x, text, of):
    y = np.linspace(0.2, 0.7, len(x))
    return {
        "column": column, "x": x, "text": text, "of": of, "rows": 64, "mean": y.tolist(), "low": (y - 0.1).tolist(),
        "high": (y + 0.1).tolist(), "ticks": [] if text else x, "ranks": "",
    }  # fmt: skip


def _compared(scores, of, **more):
    names = {"laplace": 0.03, "vi": None, "trees": 0.4, "baseline": 1e-4}
    lines = [{"at": at, "mean": [0.1, 0.2, 0.3]} for at in (1.0, 2.0, 3.0)]
    return {
        "data": DATA, "verdict": [EVIL, "And so on."], "folds": 5, "seed": 0, "best_gp": "vi", "winner": "vi",
        "rivals": {"trees": EVIL},
        "outliers": OUTLIERS, "fit": FIT, "methods": [_method(name, p, scores) for name, p in names.items()],
        "reliability": dict.fromkeys(names, CURVE), "made": MADE,
        "importance": [{"column": EVIL, **SHARE}, {"column": "a", **SHARE}],
        "effects": [_effect(EVIL, TEXTS, True, of), _effect("a", [-1e-5, 0.0, 2e-5], False, of)],
        "together": {
            "columns": ["a", EVIL], "x": [0.0, 1.0, 2.0], "text": False, "of": of, "rows": 64, "lines": lines,
        },
        **more,
    }  # fmt: skip


THRESHOLD = {
    "threshold": 0.5, "acted_on": 0.4, "found": 0.5, "precision": None, "false_alarms": 0.1, "missed": 0.2,
    "miss_costs": 1.0, "saved": -0.1,
}  # fmt: skip
CERTIFICATE = {
    "which": "", "rows": 64, "words": EVIL, "evidences": {"vi (elbo)": -21.0, "ep": -19.9},
    "verdicts": {"vi (elbo)": "rough", "ep": "good"}, "remarks": {"vi (elbo)": EVIL, "ep": ""},
    "mcmc": {
        "log_z": -20.0, "se": 0.05, "lower": -20.1, "lower_se": 0.06, "upper": -19.9, "upper_se": 0.05,
        "reason": EVIL,
    },
}  # fmt: skip
REPORTS = {
    "decide": lambda: comparison_report(_compared(OF_CLASSES, EVIL, positive=EVIL, thresholds=[THRESHOLD] * 3)),
    "classes": lambda: comparison_report(
        _compared(OF_CLASSES, EVIL, positive=None, confusion={"classes": [EVIL, "b"], "counts": [[3, 1], [0, 4]]})
    ),
    "values": lambda: comparison_report(_compared(OF_VALUES, "", positive=None, together=None)),
    "surface": lambda: surface_report({"data": DATA, "seed": 0, **GRID}),
    "certificate": lambda: certificate_report(
        {
            "model": EVIL, "method": "vi", "target": EVIL, "likelihood": "probit", "report": EVIL,
            "certificates": [CERTIFICATE],
        }
    ),
    "demo": lambda: demo_report(
        {
            "title": EVIL, "subtitle": EVIL, "words": EVIL, "outliers": OUTLIERS, "report": EVIL, **GRID,
            "certificate": CERTIFICATE,
            "methods": {
                name: {**optimum, "evidence_per_row": -0.3, "log_density": -0.2, "accuracy": 0.9, "seconds": 1.0}
                for name, optimum in GRID["optima"].items()
            },
            "reliability": {"vi": {k: np.array(v) for k, v in CURVE.items()}},
        }
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_self_contained_and_escaped(name):
    page = REPORTS[name]()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert not re.search(r"(src|href|url|@import|https?:)\s*[=(/]", page)
    assert page.count("<script>") == 1 and "default-src 'none'" in page
    assert len(page) < 200_000


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--enable-logging=stderr", "--virtual-time-budget=2000",
)  # fmt: skip

# Runs after the script of the page: selects every tab, hovers over marks, changes the theme, and records the result.
PROBE = """
<script>
const seen = { panels: [], tips: [], errors: window.problems, wide: null, theme: [] };
for (const tab of document.querySelectorAll('[role=tab]')) {
  tab.click();
  seen.panels.push([...document.querySelectorAll('[role=tabpanel]')].map((p) => !p.hidden));
}
for (const mark of [...document.querySelectorAll('[data-tip]')].filter((m) => m.getClientRects().length).slice(0, 5)) {
  mark.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
  const tip = document.getElementById('tip');
  seen.tips.push(!tip.hidden && tip.textContent === mark.dataset.tip && tip.getBoundingClientRect().left >= 0);
}
document.body.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
seen.tips.push(document.getElementById('tip').hidden);
for (let i = 0; i < 2; i++) {
  document.getElementById('theme').click();
  seen.theme.push(getComputedStyle(document.body).backgroundColor);
}
for (const part of document.querySelectorAll('details')) part.open = true;
seen.wide = document.documentElement.scrollWidth <= document.documentElement.clientWidth;
// Texts of one drawing must not lie on each other.
for (const drawing of document.querySelectorAll('svg[role=img]')) {
  const boxes = [...drawing.querySelectorAll('text:not([transform])')].map((t) => t.getBoundingClientRect());
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (x > 1 && y > 3) seen.errors.push('texts overlap in ' + drawing.getAttribute('aria-label'));
  }));
}
const left = document.createElement('pre'); left.id = 'seen'; left.textContent = JSON.stringify(seen);
document.body.append(left);
</script>
"""
CATCH = "<script>window.problems = []; window.onerror = (m) => { window.problems.push(String(m)); };</script>"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize(
    ("name", "width"), [("decide", 400), ("values", 1200), ("surface", 420), ("certificate", 420), ("demo", 1000)]
)
def test_a_report_works_in_a_browser(tmp_path, name, width):
    page = REPORTS[name]().replace("<head>", "<head>" + CATCH, 1).replace("</body>", PROBE + "</body>", 1)
    (tmp_path / "page.html").write_text(page)
    out = subprocess.run(
        [
            BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom",
            (tmp_path / "page.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="seen">(.*?)</pre>', out.stdout, re.DOTALL)
    assert found, out.stdout[-500:]
    seen = json.loads(found[1])
    assert seen["errors"] == [] and "CONSOLE" not in out.stderr
    switches = 3 if name in ("surface", "demo") else 0
    assert seen["panels"] == np.eye(switches, dtype=bool).tolist()
    assert len(seen["tips"]) > 2 and all(seen["tips"])
    assert len(set(seen["theme"])) == 2 and seen["wide"]
