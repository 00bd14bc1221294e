"""Results as one HTML file that needs nothing else: no network, no external script, light and dark, any width.

Every report is a function of plain data, the same that `--json` prints.
"""

from sitewise.app.report.sections import certificate_report, comparison_report, demo_report, surface_report

__all__ = ["certificate_report", "comparison_report", "demo_report", "surface_report"]
