"""How many cores share the work. It imports no torch: every command asks, before it begins."""

from __future__ import annotations

import os

from unmask.core.arguments import MOST_THREADS, setting


def count() -> int:
    """How many threads share the work: UNMASK_THREADS, or every core that this process may use."""
    usual = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return setting("UNMASK_THREADS", usual, 1, MOST_THREADS)
