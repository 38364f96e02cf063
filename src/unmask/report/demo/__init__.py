"""The paper's central result as a page: fluency and correctness of sampling with the ideal denoiser, against N, L."""

from unmask.report.demo.page import PAGE
from unmask.report.demo.settings import Settings
from unmask.report.demo.story import Story

__all__ = ["PAGE", "Settings", "Story"]
