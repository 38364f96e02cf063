"""What is shown: the demo's cells, figures and page."""

from unmask.report.plan import Settings
from unmask.report.run import Demo, demo

__all__ = ["Demo", "Settings", "demo"]
