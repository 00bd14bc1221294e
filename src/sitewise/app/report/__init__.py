"""Write reports as single HTML files without network access or external scripts, in light and dark, at any width.

Every report is a function of the plain data that `--json` prints.
"""

from sitewise.app.report.comparison_page import comparison_report
from sitewise.app.report.sections import certificate_report, demo_report, surface_report

__all__ = ["certificate_report", "comparison_report", "demo_report", "surface_report"]
