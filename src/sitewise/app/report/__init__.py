"""Results as one HTML file that needs no network and no external script, in light and dark, at any width.

Every report is a function of plain data, the same that `--json` prints.
"""

from sitewise.app.report.comparison_page import comparison_report
from sitewise.app.report.sections import certificate_report, demo_report, surface_report

__all__ = ["certificate_report", "comparison_report", "demo_report", "surface_report"]
